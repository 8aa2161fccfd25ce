"""Components of ours in this process, on a secured broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.cli.assembly import builder_of
from components.cli.identity import connector_for
from components.settings import Settings
from components.shell.run import Process
from schemas.topics import Role
from tests.security.secured import Secured


def settings_for(
    broker: Secured, folder: Path, *, node: str = "a", tls: dict[str, Path] | None = None
) -> Settings:
    """Everybody has the certificate of his own identity, unless `tls` says otherwise."""
    place = broker.certificates / "{identity}"
    files = {"ca_file": place / "ca.pem", "cert_file": place / "cert.pem", "key_file": place / "key.pem"}
    sections: dict[str, Any] = {
        "broker": {"url": f"mqtts://127.0.0.1:{broker.port}", "tls": {**files, **(tls or {})}},
        "node_agent": {
            "node": node,
            "runtime": "simulated",
            "simulated_containers": 1,
            "state_dir": folder / f"agent-{node}",
        },
    }
    for role in ("policy_manager", "resource_manager", "action_controller"):
        sections[role] = {"database": folder / f"{role}.sqlite3"}
    return Settings.model_validate(sections)


@contextmanager
def running(role: Role, settings: Settings) -> Iterator[Process]:
    """One component at work."""
    process = Process(connector_for(settings.broker))
    process.add(builder_of(role, settings))
    process.start()
    try:
        yield process
    finally:
        assert process.stop()
