"""What is said on the bus: topics, messages, enums, units and the codec.

Pure: imports nothing of ours, does no I/O. Whatever two components must agree on about the wire belongs here.
"""
