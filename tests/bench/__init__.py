"""Benchmarks: how fast, how small and how wide, each as a ratio to something run in the same minute."""
