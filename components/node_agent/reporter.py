"""Observations as messages: reports of containers, cut to what a message may carry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from components.node_agent.observe import Look, Observation
from components.node_agent.usage import UsageMeter
from schemas.codec import MESSAGE_BYTES_MAX, pack
from schemas.message import Wire
from schemas.metrics import ContainerUse
from schemas.node import ContainerReport
from schemas.resources import Fence

ENVELOPE_BYTES: Final = 4096
"""Room for all fields of a message besides its containers."""
LABEL_PREFIX: Final = "io.pullpiri."
LABELS_MAX: Final = 16
LABEL_LENGTH_MAX: Final = 256

Part = TypeVar("Part", ContainerReport, ContainerUse)
FenceOf = Callable[[str], Fence | None]
WasBusy = Callable[[str, str, float], bool]


class Reporter:
    """Makes reports of what was observed."""

    def __init__(self, fence_of: FenceOf, was_busy: WasBusy, wire: Wire) -> None:
        """`was_busy` tells, by name, id and moment, whether a write may have disturbed an observation."""
        self._fence_of = fence_of
        self._was_busy = was_busy
        self._wire = wire
        self._meter = UsageMeter()

    def reports(self, seen: Observation, asked_at: float, epoch_ms: int) -> list[ContainerReport]:
        """One report a container; living ones first, then by name."""
        looks = sorted(seen.looks, key=lambda look: (not look.container.alive, look.container.name))
        return [self._report(look, seen.at, asked_at, epoch_ms) for look in looks]

    def _report(self, look: Look, at: float, asked_at: float, epoch_ms: int) -> ContainerReport:
        container, reading = look.container, look.reading
        report = ContainerReport(
            workload_id=container.name,
            runtime_id=container.id,
            image_id=container.image_id[:256],
            started_at=container.started_at,
            running=container.alive,
            fence=self._fence_of(container.name),
            busy=self._was_busy(container.name, container.id, asked_at),
            labels=own_labels(container.labels),
        )
        if reading is None:
            return report
        usage = self._meter.usage(container, reading, at, epoch_ms)
        return report.model_copy(update={"actual": reading.limits, "usage": usage})

    def uses(self, seen: Observation, epoch_ms: int) -> Iterator[tuple[ContainerUse, ...]]:
        """Use and limits of living containers, in batches that a message may carry; one batch, if it can."""
        uses = [
            ContainerUse(
                workload_id=look.container.name,
                runtime_id=look.container.id,
                usage=self._meter.usage(look.container, look.reading, seen.at, epoch_ms),
                limits=look.reading.limits,
            )
            for look in seen.looks
            if look.reading is not None
        ]
        first = True
        while uses or first:
            batch = self.fitting(uses)
            yield tuple(batch)
            uses, first = uses[len(batch) :], False

    def fitting(self, parts: Sequence[Part]) -> Sequence[Part]:
        """As many of the first as fit into one message."""
        room = MESSAGE_BYTES_MAX - ENVELOPE_BYTES
        for number, part in enumerate(parts):
            room -= len(pack(part.model_dump(exclude_none=True), self._wire)) + 1
            if room < 0:
                return parts[:number]
        return parts

    def keep_only(self, seen: Observation) -> None:
        """Forget the use of containers that are gone."""
        self._meter.keep_only({look.container.id for look in seen.looks})


def own_labels(labels: Mapping[str, str]) -> dict[str, str] | None:
    """Pullpiri's labels, bounded in number and length; None when there are none."""
    chosen = sorted(key for key in labels if key.startswith(LABEL_PREFIX) and len(key) <= LABEL_LENGTH_MAX)
    return {key: str(labels[key])[:LABEL_LENGTH_MAX] for key in chosen[:LABELS_MAX]} or None
