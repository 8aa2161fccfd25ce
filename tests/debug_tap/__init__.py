"""Tests of debug_tap."""
