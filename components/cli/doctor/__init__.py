"""`doctor`: what of broker, Podman, cgroups and storage works on this machine, and how to mend the rest."""

from components.cli.doctor.examination import examine

__all__ = ["examine"]
