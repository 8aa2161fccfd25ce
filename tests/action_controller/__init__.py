"""Tests of ActionController: time is given, the journal is a real SQLite file, messages go through the codec."""
