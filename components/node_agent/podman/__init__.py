"""Podman and the kernel behind the runtime protocol. The only place that imports podman-py."""
