"""The configuration: an empty file runs, every key works, and a mistake says what and where."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from components.quantities import ReservedSettings
from components.settings import (
    PolicySettings,
    Settings,
    SettingsError,
    load_settings,
    state_directory,
)
from schemas.limits import Amount, Limits
from schemas.message import Wire, is_name

EVERY_KEY = """
[broker]
url = "mqtts://broker.car:8884"
port = 2883
data_dir = "/var/lib/broker"
username = "piriscale"
password_file = "/etc/piriscale/password"
topic_prefix = "fleet/car-7"
wire = "json"
tls = { ca_file = "/ca.pem", cert_file = "/cert.pem", key_file = "/key.pem" }

[node_agent]
node = "hpc-1"
runtime = "simulated"
podman_url = "unix:///run/podman/podman.sock"
metrics_interval_s = 0.5
sync_interval_s = 60
memory_margin_mib = 64
settle_s = 30
call_timeout_s = 5
state_dir = "/var/lib/agent"
simulated_containers = 40

[monitoring]
window = 10
needed = 6
repeat_s = 15
stale_s = 5
hysteresis_percent = 20
partition = "1/2"

[[monitoring.thresholds]]
workload = "nav_*"
latency_ms = 300
throughput_min = 25
cpu_percent = 85
memory_percent = 90

[[policy]]
workload = "nav_map"
cpu_percent = 70
memory_percent = 75
factor = 1.5
min = { cpu = "500m", memory = "256Mi" }
max = { cpu = "4", memory = "4Gi" }
baseline = { cpu = "1", memory = "512Mi" }
cooldown_s = 20
restore_after_s = 600

[policy_manager]
database = "/data/policy.sqlite3"

[resource_manager]
database = "/data/resources.sqlite3"
reserved = { cpu = "500m", memory = "5%" }
drift = "adopt"
lease_s = 30
absent_hold_s = 100

[action_controller]
database = "/data/actions.sqlite3"
retries = 5
retry_interval_s = 2
deadline_ms = 5000

[metrics]
host = "0.0.0.0"
port = 9999

[dashboard]
port = 9998
host = "192.0.2.7"
names = ["screen.car"]
scale_form = false

[pullpiri]
models = ["/srv/models"]
max_factor = 4
"""


def load(tmp_path: Path, text: str) -> Settings:
    """The settings in this text."""
    path = tmp_path / "piriscale.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


def mistake(tmp_path: Path, text: str) -> str:
    """What is said against this text."""
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert "piriscale.toml" in str(caught.value)
    return str(caught.value)


def keys(model: type[BaseModel], prefix: str = "") -> set[str]:
    """All keys of a section and those in it."""
    found: set[str] = set()
    for name, info in model.model_fields.items():
        parts = [info.annotation, *getattr(info.annotation, "__args__", ())]
        inner = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        found |= keys(inner[0], f"{prefix}{name}.") if inner else {prefix + name}
    return found


def written(body: Any, prefix: str = "") -> set[str]:
    """All keys that a TOML text sets."""
    if isinstance(body, list):
        return set().union(*(written(member, prefix) for member in body))
    if isinstance(body, dict):
        return set().union(*(written(member, f"{prefix}{name}.") for name, member in body.items()))
    return {prefix.rstrip(".")}


def test_a_policys_limits_may_be_written_as_on_the_wire(tmp_path: Path) -> None:
    path = tmp_path / "piriscale.toml"
    path.write_text("[[policy]]\nmax = {cpu_limit = 2000, memory_limit = '2Gi'}\nmin = {cpu = '500m'}\n")
    policy = load_settings(path).policy[0]
    assert policy.max.limits == Limits(cpu_limit=2000, memory_limit=2048)
    assert policy.min.limits == Limits(cpu_limit=500)


def test_an_empty_file_runs(tmp_path: Path) -> None:
    settings = load(tmp_path, "")
    assert settings == load_settings(None) == Settings()
    assert is_name(settings.node_agent.node)
    assert settings.broker.address == ("127.0.0.1", 1883, False)


def test_every_key_can_be_set_and_arrives(tmp_path: Path) -> None:
    settings, defaults = load(tmp_path, EVERY_KEY), Settings()
    assert written(tomllib.loads(EVERY_KEY)) == keys(Settings)
    for section, value in settings:
        assert value != getattr(defaults, section), section
    assert settings.broker.address == ("broker.car", 8884, True)
    assert settings.broker.wire is Wire.JSON
    assert settings.policy[0].max.limits == Limits(cpu_limit=4000, memory_limit=4096)
    assert settings.policy[0].min.limits == Limits(cpu_limit=500, memory_limit=256)
    assert settings.monitoring.thresholds[0].latency_ms == 300


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("blah = 1", "blah: no such key; allowed here: broker, node_agent, monitoring"),
        ("[broker]\nhost = 'x'", "broker.host: no such key; allowed here: url, port, data_dir, tls"),
        ("[broker.tls]\nca_file = '/a'\nca = 1", "broker.tls.ca: no such key; allowed here: ca_file, cert_file"),
        ("[[policy]]\nmaxx = 1", "policy.0.maxx: no such key; allowed here: workload, cpu_percent"),
        ("[[policy]]\nmax = {gpu = 1}", "policy.0.max.gpu: no such key; allowed here: cpu, memory"),
        ("[[monitoring.thresholds]]\nworkload = 'a'\nfps = 1", "monitoring.thresholds.0.fps: no such key"),
        ("[policy]\nfactor = 3", "a list is needed, one [[policy]] each"),
        ("[pullpiri]\nmodels = '/a'", "pullpiri.models = '/a': a list is needed, in [ ]"),
        ("[pullpiri]\nmax_factor = 0.5", "pullpiri.max_factor = 0.5: Input should be greater than or equal to 1"),
        ("[[monitoring.thresholds]]\nlatency_ms = 3", "monitoring.thresholds.0.workload"),
        ("[broker]\nurl = 'http://x'", "'http://x'}: url must be mqtt://host:port or mqtts://host:port"),
        ("[broker]\nurl = 'broker:1883'", "url must be mqtt://host:port"),
        ("[broker]\nurl = 'mqtt://h:99999'", "range 0-65535"),
        ("[broker]\nurl = 'mqtt://me:secret@h'", "use username, password_file"),
        ("[broker]\nurl = 'mqtt://h/car-7'", "topic_prefix"),
        ("[broker]\nport = 0", "broker.port = 0: Input should be greater than or equal to 1"),
        ("[broker]\nwire = 'xml'", "broker.wire = 'xml': Input should be 'msgpack' or 'json'"),
        ("[broker]\ntopic_prefix = 'a/'", "broker.topic_prefix = 'a/'"),
        ("[broker]\ntopic_prefix = '#'", "broker.topic_prefix = '#'"),
        ("[node_agent]\nnode = 'a b'", "node_agent.node = 'a b'"),
        ("[node_agent]\nruntime = 'docker'", "'podman' or 'simulated'"),
        ("[node_agent]\nsync_interval_s = 0", "node_agent.sync_interval_s = 0: Input should be greater than 0"),
        ("[monitoring]\nneeded = 9", "needed (9) must be at most window (5)"),
        ("[monitoring]\nwindow = 0", "monitoring.window = 0"),
        ("[monitoring]\nrepeat_s = 'often'", "monitoring.repeat_s = 'often'"),
        ("[monitoring]\nhysteresis_percent = 100", "monitoring.hysteresis_percent = 100"),
        ("[[monitoring.thresholds]]\nworkload = 'a'\nlatency_ms = nan", "latency_ms = nan"),
        ("[[monitoring.thresholds]]\nworkload = 'a'\nthroughput_min = inf", "throughput_min = inf"),
        ("[[monitoring.thresholds]]\nworkload = ''", "monitoring.thresholds.0.workload = ''"),
        ("[[policy]]\nfactor = 1", "policy.0.factor = 1: Input should be greater than 1"),
        (
            "[[policy]]\nmax = {cpu = 'two'}",
            "policy.0.max.cpu = 'two': 'two' is no CPU quantity; write CPUs (2, 0.5)",
        ),
        (
            "[[policy]]\nmax = {cpu = 4}",
            'policy.0.max.cpu = 4: this is 4m, at least 10m are needed; "2" in quotes',
        ),
        ("[[policy]]\nmax = {cpu = 1.5}", "policy.0.max.cpu = 1.5"),
        ("[[policy]]\nmax = {memory = '2G i'}", "write 512Mi, 2Gi"),
        ("[[policy]]\nmax = {memory = 0}", "policy.0.max.memory = 0"),
        ("[[policy]]\nmin = {cpu = '2'}\nmax = {cpu = '1'}", "min.cpu (2000) must be at most max.cpu (1000)"),
        ("[[policy]]\nmin = {memory = '2Gi'}\nmax = {memory = '1Gi'}", "min.memory (2048) must be at most"),
        ("[[policy]]\ncooldown_s = -1", "policy.0.cooldown_s = -1"),
        ("[resource_manager]\ndrift = 'ignore'", "'enforce', 'report' or 'adopt'"),
        ("[resource_manager]\nreserved = {cpu = '200%'}", "write 0% to 100%, or a quantity"),
        ("[resource_manager]\nreserved = {cpu = '%'}", "'%' is no share; write 0% to 100%, or a quantity"),
        ("[resource_manager]\nreserved = {memory = 'much'}", "'much' is no memory quantity"),
        ("[action_controller]\nretries = -1", "action_controller.retries = -1"),
        ("[metrics]\nport = 65536", "metrics.port = 65536"),
        ("[metrics]\nhost = ''", "metrics.host = '': String should have at least 1 character"),
        ("[dashboard]\nhost = ''\nscale_form = false", "dashboard.host = ''"),
        ("[dashboard]\nhost = '0.0.0.0'", "anyone could scale, so this needs scale_form = false"),
        ("[metrics\nport = 1", "no TOML"),
        ("[metrics]\nport = 1\nport = 2", "no TOML"),
    ],
)
def test_a_mistake_names_the_key_the_value_and_what_is_allowed(tmp_path: Path, text: str, told: str) -> None:
    assert told in mistake(tmp_path, text)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    told = mistake(tmp_path, "[broker]\nport = 0\n[metrics]\nport = -1\n[[policy]]\nfactor = 0")
    assert all(key in told for key in ("broker.port", "metrics.port", "policy.0.factor"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml"):
        load_settings(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(SettingsError, match="codec"):
        load_settings(tmp_path / "latin.toml")
    with pytest.raises(SettingsError, match="directory"):
        load_settings(tmp_path)


def test_the_first_policy_that_matches_counts_and_the_default_is_last() -> None:
    exact, glob = PolicySettings(workload="nav_map", factor=3), PolicySettings(workload="nav_*", factor=4)
    settings = Settings(policy=(exact, glob))
    assert [settings.policy_of(name).factor for name in ("nav_map", "nav_route", "radio")] == [3, 4, 2]
    assert Settings(policy=(glob, exact)).policy_of("nav_map").factor == 4
    assert settings.policy_of("NAV_MAP").factor == 2


def test_percentages_of_thresholds_default_to_those_of_the_policy(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "[[policy]]\nworkload = 'nav'\ncpu_percent = 70\n"
        "[[monitoring.thresholds]]\nworkload = 'nav'\nlatency_ms = 300\nmemory_percent = 95\n",
    )
    thresholds = settings.thresholds_of("nav")
    assert thresholds is not None
    assert (thresholds.cpu_percent, thresholds.memory_percent) == (70, 95)
    assert settings.thresholds_of("radio") is None


@pytest.mark.parametrize(
    ("reserved", "kept"),
    [
        ({}, Amount(cpu=800, memory=1638)),
        ({"cpu": "500m", "memory": "1Gi"}, Amount(cpu=500, memory=1024)),
        ({"cpu": "0.1%", "memory": "1%"}, Amount(cpu=100, memory=256)),
        ({"cpu": "0", "memory": "0"}, Amount()),
        ({"cpu": "100%", "memory": "100%"}, Amount(cpu=8000, memory=16384)),
    ],
)
def test_a_share_of_each_node_is_kept_for_the_system(reserved: dict[str, str], kept: Amount) -> None:
    assert ReservedSettings(**reserved).of(Amount(cpu=8000, memory=16384)) == kept


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mqtt://h", ("h", 1883, False)),
        ("mqtts://h", ("h", 8883, True)),
        ("mqtt://10.0.0.1:1884", ("10.0.0.1", 1884, False)),
        ("mqtt://[fd00::1]:1884/", ("fd00::1", 1884, False)),
    ],
)
def test_the_broker_is_found_at_its_url(tmp_path: Path, url: str, address: tuple[str, int, bool]) -> None:
    tls = "\n[broker.tls]\nca_file = 'ca.pem'" if address[2] else ""
    assert load(tmp_path, f"[broker]\nurl = '{url}'{tls}").broker.address == address


@pytest.mark.parametrize(
    "text",
    [
        "[broker]\nurl = 'mqtts://h'",
        "[broker]\nurl = 'mqtt://h'\n[broker.tls]\nca_file = 'ca.pem'",
        "[broker.tls]\nca_file = 'ca.pem'",
    ],
)
def test_nobody_who_asked_for_tls_is_connected_without(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="mqtts"):
        load(tmp_path, text)


def test_bytes_written_as_a_bare_number_are_not_taken_for_mib(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="bytes are written in quotes"):
        load(tmp_path, "[[policy]]\nmax = {memory = 536870912}")


def test_durable_state_of_a_user_lies_where_the_desktop_standard_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert state_directory() == Path("/home/me/state/piriscale")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert state_directory() == Path("/home/me/.local/state/piriscale")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_directory() == Path("/var/lib/piriscale")


def test_settings_cannot_be_changed_under_a_running_component() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().metrics.port = 1  # type: ignore[misc]  # that it is refused at run time is the point
