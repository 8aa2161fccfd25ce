"""Tests of the wire: topics, messages, codec, units."""
