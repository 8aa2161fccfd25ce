"""The command `piriscale`: puts the components together, and speaks for people on the bus."""
