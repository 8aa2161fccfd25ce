"""What a test needs of the machine: absent, it skips with the reason; in CI, where all must be there, it fails."""

import os

import pytest


def require(available: bool, what: str) -> None:
    """Skip the test, or fail it in CI, when `what` (a broker, Podman, root) is not available."""
    if available:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must provide {what}")
    pytest.skip(f"needs {what}")
