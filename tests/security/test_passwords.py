"""The same identities and rules with passwords in place of certificates."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access import Principal, acl_text
from broker.configuration import MosquittoConfiguration
from components.settings import Settings
from schemas.topics import Role
from tests.fixtures.broker import RunningBroker, running_broker
from tests.requirements import require
from tests.security.running import running
from tests.security.secured import until

IDENTITIES = ("node_agent/a", "resource_manager")


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    require(shutil.which("mosquitto_passwd") is not None, "mosquitto_passwd (apt-get install mosquitto)")
    with running_broker() as place:
        passwords, acl = place.directory / "passwords", place.directory / "acl"
        passwords.touch()
        for name in IDENTITIES:
            subprocess.run(["mosquitto_passwd", "-b", passwords, name, f"of {name}"], check=True)
        acl.write_text(acl_text(map(Principal.parse, IDENTITIES)))
        for file in (passwords, acl):
            shutil.chown(file, (place.directory / "data").owner())
            file.chmod(0o600)
        with running_broker(MosquittoConfiguration(password_file=passwords, acl_file=acl)) as started:
            yield started


def settings(broker: RunningBroker, folder: Path, node: str) -> Settings:
    secrets = folder / "{identity}"
    for name in (*IDENTITIES, "node_agent/b"):
        secret = Path(str(secrets).replace("{identity}", name))
        secret.parent.mkdir(exist_ok=True)
        secret.write_text(f"of {name}\n")
    return Settings.model_validate(
        {
            "broker": {
                "url": f"mqtt://127.0.0.1:{broker.port}",
                "username": "{identity}",
                "password_file": secrets,
            },
            "node_agent": {"node": node, "runtime": "simulated", "state_dir": folder / "agent"},
            "resource_manager": {"database": folder / "database.sqlite3"},
        }
    )


def test_each_component_has_its_own_user_and_password_from_one_configuration(
    broker: RunningBroker, tmp_path: Path
) -> None:
    used = settings(broker, tmp_path, "a")
    with running(Role.NODE_AGENT, used) as agent, running(Role.RESOURCE_MANAGER, used) as manager:
        until(lambda: not agent.problems() and not manager.problems(), "both are well")
    for name in IDENTITIES:
        assert f"u'{name}')" in broker.log


def test_a_node_without_a_user_of_its_own_is_not_let_in(broker: RunningBroker, tmp_path: Path) -> None:
    with running(Role.NODE_AGENT, settings(broker, tmp_path, "b")) as agent:
        why = agent.wait()
    assert why is not None
    assert "Not authorized" in why
