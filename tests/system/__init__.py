"""The whole system: real broker, real Podman, the kernel's own files."""
