"""Tests of MonitoringServer."""
