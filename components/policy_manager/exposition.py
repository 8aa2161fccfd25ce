"""What PolicyManager shows to Prometheus: decisions by kind, and which workloads may not grow any more."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from components.durations import Durations
from components.pauses import Pause
from components.policy_manager.workloads import Workloads

EVENT_TO_VERIFIED: Final = "event_to_verified"
"""The phase name under which the whole way is shown: from a performance event here to its completed action."""


class Shown(Protocol):
    """What there is to show."""

    workloads: Workloads
    pauses: tuple[Pause, ...]
    durations: Durations

    @property
    def decisions_total(self) -> Mapping[str, int]:
        """Decisions by kind."""

    @property
    def open_actions(self) -> int:
        """Actions that have not ended."""


def families(shown: Shown) -> Iterator[Metric]:
    """All metric families."""
    decisions = CounterMetricFamily(
        "piriscale_policy_decisions",
        "Performance events by what was decided, and returns to the limits before",
        labels=("decision",),
    )
    for decision, count in sorted(shown.decisions_total.items()):
        decisions.add_metric([decision], count)
    yield decisions
    yield GaugeMetricFamily(
        "piriscale_policy_open_actions", "Actions of the policies that have not ended", shown.open_actions
    )
    yield shown.durations.family()
    capped = GaugeMetricFamily(
        "piriscale_workload_at_maximum",
        "1 for a workload whose latest degradation found it at the maximum of its policy",
        labels=("node", "workload"),
    )
    for key in sorted(shown.workloads.capped):
        capped.add_metric(list(key), 1)
    yield capped
    paused = sum(pause.paused for pause in shown.pauses)
    yield GaugeMetricFamily("piriscale_policy_pauses", "Pauses of automatic scaling in force", paused)
    yield CounterMetricFamily(
        "piriscale_policy_states_refused",
        "States of workloads for which there was no room",
        shown.workloads.refused,
    )
