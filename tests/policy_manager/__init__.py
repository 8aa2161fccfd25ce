"""Tests of PolicyManager."""
