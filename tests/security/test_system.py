"""The whole of piriscale on a broker that wants certificates: one configuration, an identity for everybody."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access import COMPONENTS
from broker.certificates import read_certificate
from schemas.topics import Role
from tests.cli.system import NODE, Configuration, configuration, get, status, until
from tests.security.secured import Secured, secured

EXPIRES = "piriscale_certificate_expires_timestamp_seconds"


@pytest.fixture(scope="module")
def broker() -> Iterator[Secured]:
    with secured([*map(str, COMPONENTS), f"node_agent/{NODE}", f"application/{NODE}", "cli/alice"]) as running:
        yield running


@pytest.fixture
def system(broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configuration]:
    monkeypatch.setenv("PIRISCALE_IDENTITY", "cli/alice")
    place = f"{broker.certificates}/{{identity}}"
    tls = f'tls = {{ ca_file = "{place}/ca.pem", cert_file = "{place}/cert.pem", key_file = "{place}/key.pem" }}'
    settings = configuration(tmp_path, url=f"mqtts://localhost:{broker.port}", broker=tls)
    with settings.child("up", "--log-level", "warning") as child:
        until(lambda: not child.running or get(settings.metrics_port, "/healthz") == (200, "ok\n"), "healthy")
        until(lambda: not child.running or len(status(settings)["workloads"]) == 3, "workloads are known")
        yield settings
        assert child.end() == 0, child.err
        assert "not let" not in child.err
        assert "withholds" not in child.err


def test_a_scaling_goes_the_whole_way_and_each_step_under_the_identity_of_its_component(
    system: Configuration, broker: Secured
) -> None:
    done = system.cli("scale", "sim-1", "--node", NODE, "--cpu", "700m", "--json")

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["actual"]["cpu_limit"] == 700
    (state,) = [one for one in status(system)["workloads"] if one["workload_id"] == "sim-1"]
    assert state["sync_state"] == "SYNCHRONIZED"
    at_work = [role for role in COMPONENTS if role is not Role.DASHBOARD]  # which this configuration has not
    for identity in (*at_work, f"node_agent/{NODE}", "cli/alice"):
        assert f"u'{identity}')" in broker.log

    answer = get(system.metrics_port, "/metrics")
    assert answer is not None
    for identity in (*at_work, f"node_agent/{NODE}"):
        until_s = read_certificate(broker.certificates / identity / "cert.pem").until.timestamp()
        component = identity.partition("/")[0]
        told = re.search(rf'{EXPIRES}{{component="{component}"}} (.*)', answer[1])
        assert told is not None, component
        assert float(told[1]) == until_s

    # An ECU that asks for the same is not heard, and what it retains is nowhere.
    action = {"action_id": "by-an-ecu", "node": NODE, "workload_id": "sim-2", "target": {"cpu_limit": 900}}
    with broker.client(f"application/{NODE}") as ecu:
        refused = ecu.publish_all(["scaling/action", f"node/{NODE}/update"], json.dumps(action).encode())
    assert refused == {"scaling/action", f"node/{NODE}/update"}
    assert system.cli("scale", "sim-3", "--node", NODE, "--cpu", "600m").exit_code == 0
    assert "by-an-ecu" not in system.cli("history", "--json").stdout
