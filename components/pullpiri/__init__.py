"""Beside Eclipse Pullpiri: its models as sources of limits, for the components that need them.

What is known of Pullpiri's formats and names belongs here; what it sends over the bus is read by `schemas/`.
"""
