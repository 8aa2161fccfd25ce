"""Who says it: the components of the scaling chain, their common shell, the settings and the command line."""
