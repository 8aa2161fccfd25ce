"""What the web server gives the component: who listens, and what browsers ask."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from components.dashboard.form import ScaleForm

Document = dict[str, Any]
"""A JSON map."""


class Listener(Protocol):
    """A browser that watches. `send` may be called from any thread and never blocks."""

    def send(self, frame: bytes) -> None:
        """Put a frame of the event stream on its way; one that does not keep up is cut off."""


@dataclass(frozen=True)
class Joined:
    """Somebody watches from now on."""

    listener: Listener


@dataclass(frozen=True)
class Left:
    """Somebody watches no more."""

    listener: Listener


class AskError(Exception):
    """A question that cannot be answered now; the text says why, the status is that of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class SeriesAsked:
    """What was measured of a workload, later than a moment (UTC epoch ms)."""

    node: str
    workload: str
    after_ms: int
    answer: "Future[Document]" = field(default_factory=Future, compare=False)


@dataclass(frozen=True)
class TimelineAsked:
    """All steps of one scaling, by the key of its time line or an id of its messages."""

    key: str
    answer: "Future[Document]" = field(default_factory=Future, compare=False)


@dataclass(frozen=True)
class ScalingAsked:
    """A filled-in form to be sent as an action."""

    form: ScaleForm
    answer: "Future[Document]" = field(default_factory=Future, compare=False)


Asked = SeriesAsked | TimelineAsked | ScalingAsked
