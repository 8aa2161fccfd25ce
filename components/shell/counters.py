"""What a shell counts, and how Prometheus reads it."""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from broker.bus import BusCounts

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric


@dataclass
class Counters:
    """Numbers of one component; all only ever grow. Written by its worker alone."""

    received: int = 0
    sent: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """By reason: those of dead letters, and `bad_request`, `unsendable`."""
    dead_letters_withheld: int = 0
    """Not published, because there were too many."""


class Counted(Protocol):
    """A component in its shell, as far as its numbers go."""

    counters: Counters

    @property
    def component(self) -> str:
        """Role of the component."""

    @property
    def up(self) -> bool:
        """Whether it runs and is connected."""

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None when all is well."""

    @property
    def bus_counts(self) -> BusCounts:
        """What became of its frames."""

    @property
    def dropped_posts(self) -> int:
        """Items of its own threads that found no room."""

    def samples(self) -> "Iterable[Metric]":
        """Its own metric families."""


@dataclass(frozen=True)
class _Row:
    """A counter by component, and by one more label if it has a name."""

    name: str
    text: str
    label: str
    read: Callable[[Counted], Mapping[str, int]]


def _dropped(shell: Counted) -> Mapping[str, int]:
    counts = shell.bus_counts
    return {
        "in": counts.dropped_in + shell.dropped_posts,
        "out": counts.dropped_out + shell.counters.dead_letters_withheld,
    }


_ROWS: Final = (
    _Row(
        "piriscale_messages",
        "Messages taken from and given to the bus",
        "direction",
        lambda shell: {"in": shell.counters.received, "out": shell.counters.sent},
    ),
    _Row(
        "piriscale_messages_rejected",
        "Messages that could not be used or sent",
        "reason",
        lambda shell: dict(shell.counters.rejected),
    ),
    _Row("piriscale_messages_dropped", "Messages lost because a bounded queue was full", "direction", _dropped),
    _Row(
        "piriscale_broker_reconnects",
        "Connections to the broker after the first",
        "",
        lambda shell: {"": shell.bus_counts.reconnects},
    ),
    _Row(
        "piriscale_publishes_refused",
        "Publications that the broker acknowledged with an error",
        "",
        lambda shell: {"": shell.bus_counts.negative_acks},
    ),
)


class BrokerFigures(Protocol):
    """A broker as far as it tells of itself."""

    @property
    def dropped_messages(self) -> int | None:
        """Messages that it took and then dropped, since it was started; None: it does not say."""


class BrokerCollector:
    """A Prometheus collector over what the broker tells of itself."""

    def __init__(self, statistics: BrokerFigures) -> None:
        self._statistics = statistics

    def collect(self) -> "Iterator[Metric]":
        """One family; without a sample when the broker does not tell."""
        from prometheus_client.core import CounterMetricFamily

        yield CounterMetricFamily(
            "piriscale_broker_dropped_messages",
            "Messages that the broker took and then dropped, since it was started; Mosquitto alone tells",
            self._statistics.dropped_messages,
        )


class CertificateCollector:
    """A Prometheus collector over the certificates with which the components of this process connect."""

    def __init__(self, expiries: Mapping[str, float]) -> None:
        """`expiries`: Unix time by component; it may change."""
        self._expiries = expiries

    def collect(self) -> "Iterator[Metric]":
        """One family; without a sample where nobody has a certificate."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "piriscale_certificate_expires_timestamp_seconds",
            "When the certificate with which the component connects expires, in seconds of Unix time",
            labels=("component",),
        )
        for component, until in tuple(self._expiries.items()):
            family.add_metric([component], until)
        yield family


class ShellCollector:
    """A Prometheus collector over all components of this process."""

    def __init__(self, shells: Iterable[Counted]) -> None:
        self._shells = shells

    def collect(self) -> "Iterator[Metric]":
        """All families, each name once: two components of a process may offer the same family."""
        merged: dict[str, Metric] = {}
        for family in self._families():
            if family.name in merged:
                merged[family.name].samples.extend(family.samples)
            else:
                merged[family.name] = copy.copy(family)
                merged[family.name].samples = list(family.samples)
        return iter(merged.values())

    def _families(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        by_component: dict[str, list[Counted]] = defaultdict(list)
        for shell in self._shells:
            by_component[shell.component].append(shell)
        for row in _ROWS:
            labels = ("component", row.label) if row.label else ("component",)
            family = CounterMetricFamily(row.name, row.text, labels=labels)
            for component, members in by_component.items():
                sums: Counter[str] = Counter()
                for member in members:
                    sums.update(row.read(member))
                for value, count in sums.items():
                    family.add_metric([component, value] if row.label else [component], count)
            yield family
        up = GaugeMetricFamily(
            "piriscale_component_up", "1 while the component runs and is connected", labels=("component",)
        )
        healthy = GaugeMetricFamily(
            "piriscale_component_healthy",
            "1 while nothing is wrong; /healthz has the words",
            labels=("component",),
        )
        for component, members in by_component.items():
            up.add_metric([component], int(all(member.up for member in members)))
            healthy.add_metric([component], int(all(member.problem is None for member in members)))
        yield up
        yield healthy
        for members in by_component.values():
            for member in members:
                yield from member.samples()


def new_registry(
    shells: Iterable[Counted],
    statistics: BrokerFigures | None = None,
    expiries: Mapping[str, float] | None = None,
) -> "CollectorRegistry":
    """A registry of this process's components, its broker and itself, apart from the global one.

    `expiries`: when the certificates of components end to be valid, as Unix time.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ShellCollector(shells))
    if statistics is not None:
        registry.register(BrokerCollector(statistics))
    if expiries is not None:
        registry.register(CertificateCollector(expiries))
    ProcessCollector(registry=registry)
    return registry
