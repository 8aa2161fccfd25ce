"""A real Podman for the examples."""

from tests.fixtures.podman import box as box
from tests.fixtures.podman import private_podman as private_podman
