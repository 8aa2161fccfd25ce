"""The configuration: one TOML file for all components, validated whole at start. An empty file runs."""

import os
import re
import socket
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from broker.configuration import is_loopback
from components.pullpiri.configuration import PullpiriSettings
from components.quantities import LimitSettings, ReservedSettings
from schemas.message import NAME_PATTERN, Wire

_WITH_PASSWORD: Final = re.compile(r"(://).*@")
"""Where somebody wrote one into a url, which is refused, and not repeated in the refusal."""


class SettingsError(ValueError):
    """The configuration is wrong; the text names each key, its value and what is allowed."""


Percent = Annotated[float, Field(gt=0, le=1000)]
Measure = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Pattern = Annotated[str, Field(min_length=1, max_length=128)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


RETRIES_MAX: Final = 100
IDENTITY: Final = "{identity}"
"""Stands in names of files, and in `username`, for whoever connects: `resource_manager`, `node_agent/hpc-1`."""


class TlsSettings(_Section):
    """Files for TLS to the broker; cert_file and key_file make it mutual."""

    ca_file: Path
    cert_file: Path | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _certificate_has_key(self) -> "TlsSettings":
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file come together")
        return self


class BrokerSettings(_Section):
    """Where the broker is. Without `url` a managed Mosquitto runs on loopback."""

    url: str | None = None
    port: Annotated[int, Field(ge=1, le=65_535)] = 1883
    data_dir: Path | None = None
    """Where the managed one keeps its messages; by default a folder per port in the state directory."""
    tls: TlsSettings | None = None
    username: str | None = None
    password_file: Path | None = None
    topic_prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?$")] = ""
    wire: Wire = Wire.MSGPACK

    @model_validator(mode="after")
    def _url_is_usable(self) -> "BrokerSettings":
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or parts.port == 0:
                raise ValueError("url must be mqtt://host:port or mqtts://host:port")
            if parts.username is not None or parts.path not in ("", "/"):
                raise ValueError("url has a host and a port only; use username, password_file and topic_prefix")
        secure = self.url is not None and urlsplit(self.url).scheme == "mqtts"
        if secure != (self.tls is not None):
            raise ValueError("mqtts:// needs a [broker.tls] section with ca_file, and that section needs mqtts://")
        return self

    def of(self, identity: str) -> "BrokerSettings":
        """These settings for one identity: its name in the place of `{identity}`."""
        return self.model_copy(
            update={
                "tls": self.tls and self.tls.model_copy(update=_filled(self.tls, identity)),
                **_filled(self, identity),
            }
        )

    @property
    def address(self) -> tuple[str, int, bool]:
        """Host, port, and whether TLS is used."""
        if self.url is None:
            return "127.0.0.1", self.port, False
        parts = urlsplit(self.url)
        secure = parts.scheme == "mqtts"
        return str(parts.hostname), parts.port or (8883 if secure else 1883), secure


def _filled(section: _Section, identity: str) -> dict[str, str | Path]:
    """The values of a section that name an identity, with its name."""
    return {
        name: type(value)(str(value).replace(IDENTITY, identity))
        for name, value in section
        if isinstance(value, str | Path) and IDENTITY in str(value)
    }


def _default_node() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:128] or "node"


class NodeAgentSettings(_Section):
    """The agent of one node."""

    node: Annotated[str, Field(pattern=NAME_PATTERN)] = Field(default_factory=_default_node)
    runtime: Literal["podman", "simulated"] = "podman"
    podman_url: str | None = None
    metrics_interval_s: Seconds = 1.0
    sync_interval_s: Seconds = 30.0
    memory_margin_mib: Annotated[int, Field(ge=0)] = 32
    settle_s: Seconds = 60.0
    call_timeout_s: Seconds = 10.0
    state_dir: Path | None = None
    simulated_containers: Annotated[int, Field(ge=0, le=10_000)] = 0


class ThresholdSettings(_Section):
    """From when on a workload is degraded. Workloads by exact name or glob; the first match counts."""

    workload: Pattern
    latency_ms: Measure | None = None
    throughput_min: Measure | None = None
    cpu_percent: Percent | None = None
    memory_percent: Percent | None = None


class MonitoringSettings(_Section):
    """How degradation is judged: `needed` of the last `window` samples over the threshold."""

    window: Annotated[int, Field(ge=1, le=1000)] = 5
    needed: Annotated[int, Field(ge=1, le=1000)] = 3
    repeat_s: Seconds = 30.0
    stale_s: Seconds = 10.0
    hysteresis_percent: Annotated[float, Field(ge=0, lt=100)] = 10.0
    partition: Annotated[str, Field(pattern=r"^[1-9][0-9]?/[1-9][0-9]?$")] = "1/1"
    """Which part of all nodes this instance watches: "2/3" is the second of three."""
    thresholds: tuple[ThresholdSettings, ...] = ()

    @model_validator(mode="after")
    def _window_can_fill(self) -> "MonitoringSettings":
        if self.needed > self.window:
            raise ValueError(f"needed ({self.needed}) must be at most window ({self.window})")
        return self

    @model_validator(mode="after")
    def _partition_is_one_of_them(self) -> "MonitoringSettings":
        mine, parts = self.part
        if mine > parts:
            raise ValueError(f'partition "{self.partition}" names part {mine} of {parts}')
        return self

    @property
    def part(self) -> tuple[int, int]:
        """Number of this part, from 1, and how many there are."""
        mine, _, parts = self.partition.partition("/")
        return int(mine), int(parts)


class PolicySettings(_Section):
    """How a workload is scaled. Workloads by exact name or glob; the first match counts."""

    workload: Pattern = "*"
    cpu_percent: Percent = 80.0
    memory_percent: Percent = 80.0
    factor: Annotated[float, Field(gt=1, le=100)] = 2.0
    min: LimitSettings = LimitSettings()
    max: LimitSettings = LimitSettings()
    baseline: LimitSettings = LimitSettings()
    """Where `restore_after_s` returns to; by default the limits before the first scaling."""
    cooldown_s: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    restore_after_s: Seconds | None = None

    @model_validator(mode="after")
    def _min_below_max(self) -> "PolicySettings":
        for name in LimitSettings.model_fields:
            least, most = getattr(self.min, name), getattr(self.max, name)
            if least is not None and most is not None and least > most:
                raise ValueError(f"min.{name} ({least}) must be at most max.{name} ({most})")
        return self


class PolicyManagerSettings(_Section):
    """Where PolicyManager keeps its journal."""

    database: Path | None = None


class ResourceManagerSettings(_Section):
    """The ledger and the treatment of drift."""

    database: Path | None = None
    reserved: ReservedSettings = ReservedSettings()
    drift: Literal["enforce", "report", "adopt"] = "enforce"
    lease_s: Seconds = 60.0
    absent_hold_s: Annotated[float, Field(ge=0, le=86_400)] = 300.0


class ActionControllerSettings(_Section):
    """Retries and time-outs of actions."""

    database: Path | None = None
    retries: Annotated[int, Field(ge=0, le=RETRIES_MAX)] = 3
    retry_interval_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    deadline_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000


class MetricsSettings(_Section):
    """Where /metrics and /healthz are served: on loopback, unless told otherwise; the port is that of `up`."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 9464
    """0: not served."""


class DashboardSettings(_Section):
    """The web page of `up` and `run dashboard`. It has no login, so beyond loopback nobody scales through it."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 9465
    """0: not served."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    names: tuple[Pattern, ...] = ()
    """Host names under which it is reached, besides `host` and those of loopback: a proxy's, say."""
    scale_form: bool = True

    @model_validator(mode="after")
    def _strangers_only_look(self) -> "DashboardSettings":
        if self.scale_form and not is_loopback(self.host):
            raise ValueError(f"on host {self.host!r} anyone could scale, so this needs scale_form = false")
        return self


class Settings(_Section):
    """The whole configuration."""

    broker: BrokerSettings = BrokerSettings()
    node_agent: NodeAgentSettings = Field(default_factory=NodeAgentSettings)
    monitoring: MonitoringSettings = MonitoringSettings()
    policy: tuple[PolicySettings, ...] = ()
    policy_manager: PolicyManagerSettings = PolicyManagerSettings()
    resource_manager: ResourceManagerSettings = ResourceManagerSettings()
    action_controller: ActionControllerSettings = ActionControllerSettings()
    metrics: MetricsSettings = MetricsSettings()
    dashboard: DashboardSettings = DashboardSettings()
    pullpiri: PullpiriSettings = PullpiriSettings()

    def policy_of(self, workload: str) -> PolicySettings:
        """The first policy that matches, else the default one."""
        return next((p for p in self.policy if fnmatchcase(workload, p.workload)), PolicySettings())

    def thresholds_of(self, workload: str) -> ThresholdSettings | None:
        """The first thresholds that match; their percentages default to the policy's."""
        for found in self.monitoring.thresholds:
            if fnmatchcase(workload, found.workload):
                policy = self.policy_of(workload)
                return found.model_copy(
                    update={
                        "cpu_percent": found.cpu_percent or policy.cpu_percent,
                        "memory_percent": found.memory_percent or policy.memory_percent,
                    }
                )
        return None


def load_settings(path: Path | None) -> Settings:
    """Read and check a configuration file; None: all defaults.

    Raises SettingsError naming every wrong key, its value, and what is allowed.
    """
    if path is None:
        return Settings()
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: no TOML: {error}") from error
    try:
        return Settings.model_validate(body)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_explain(error)}") from error


def _explain(error: ValidationError) -> str:
    texts = []
    for mistake in error.errors(include_url=False):
        key = ".".join(str(part) for part in mistake["loc"])
        if mistake["type"] == "extra_forbidden":
            texts.append(f"{key}: no such key; allowed here: {', '.join(_keys_beside(mistake['loc']))}")
        elif mistake["type"] == "tuple_type":
            how = f"one [[{key}]] each" if isinstance(mistake["input"], dict) else "in [ ]"
            texts.append(f"{key} = {mistake['input']!r}: a list is needed, {how}")
        else:
            value = _WITH_PASSWORD.sub(r"\1…@", repr(mistake["input"]))
            texts.append(f"{key} = {value}: {mistake['msg'].removeprefix('Value error, ')}")
    return "; ".join(texts)


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Settings
    for part in location[:-1]:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            candidates = [annotation, *getattr(annotation, "__args__", ())]
            model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return list(model.model_fields)


def state_directory() -> Path:
    """Where durable state lives by default: /var/lib/piriscale for root, else the user's state directory."""
    if os.geteuid() == 0:
        return Path("/var/lib/piriscale")
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "piriscale"
