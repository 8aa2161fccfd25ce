"""Tests of the shell that connects every component to the bus."""
