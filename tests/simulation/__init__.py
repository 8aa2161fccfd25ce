"""A deterministic world for the real components: seeded scheduler, simulated clocks, bus, containers, faults."""
