"""Tests of the command line: what a person, or a script, sees."""
