"""What ActionController shows to Prometheus: how actions end, and how long each phase takes."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from components.durations import Durations
from schemas.enums import ActionOutcome, CauseType, Phase, Reason
from schemas.scaling import ScalingStatus

WHOLE_WAY: Final = "accepted_to_verified"
"""The phase name under which the whole way of a completed action is shown."""
_MS_PER_S: Final = 1000
_UNDER_WAY: Final = tuple(phase for phase in Phase if phase is not Phase.DONE)
_FROM_ZERO: Final = (
    (str(ActionOutcome.COMPLETED), ""),
    (str(ActionOutcome.REJECTED), str(Reason.INSUFFICIENT_CPU)),
    (str(ActionOutcome.REJECTED), str(Reason.INSUFFICIENT_MEMORY)),
)
"""Endings shown before there is any, since Prometheus sees no increase in a series that begins with its first."""


class Exposition:
    """Counts the endings of actions. Reconciles are counted by ResourceManager."""

    def __init__(self) -> None:
        self._durations = Durations()
        self._outcomes: Counter[tuple[str, str]] = Counter(dict.fromkeys(_FROM_ZERO, 0))

    def ended(self, final: ScalingStatus) -> None:
        """Take in a final status; a dry run changed nothing and is not counted."""
        if final.dry_run or final.cause.type is CauseType.RECONCILE:
            return
        self._outcomes[str(final.outcome), str(final.reason or "")] += 1
        for phase, spent_ms in final.timings_ms.items():
            self._durations.observe(phase, spent_ms / _MS_PER_S)
        if final.outcome is ActionOutcome.COMPLETED:
            self._durations.observe(WHOLE_WAY, sum(final.timings_ms.values()) / _MS_PER_S)

    def families(self, open_actions: Counter[str]) -> Iterable[Metric]:
        """All metric families; `open_actions` by phase."""
        outcomes = CounterMetricFamily(
            "piriscale_scaling_actions",
            "Actions that ended; neither dry runs nor reconciles",
            labels=("outcome", "reason"),
        )
        for labels, count in self._outcomes.items():
            outcomes.add_metric(list(labels), count)
        waiting = GaugeMetricFamily(
            "piriscale_scaling_open_actions", "Actions that have not ended, by phase", labels=("phase",)
        )
        for phase in _UNDER_WAY:
            waiting.add_metric([phase], open_actions.get(phase, 0))
        return outcomes, self._durations.family(), waiting
