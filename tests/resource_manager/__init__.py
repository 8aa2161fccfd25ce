"""Tests of ResourceManager: time is given, the ledger is a real SQLite file, messages go through the codec."""
