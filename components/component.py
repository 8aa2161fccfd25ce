"""What a component is: logic without I/O. Messages and the time go in, messages and calls come out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from broker.bus import Delivery, Subscription
from schemas.codec import BadRequest, Cleared, Frame
from schemas.message import Message
from schemas.topics import Role

if TYPE_CHECKING:
    from prometheus_client import Metric


class Instant(NamedTuple):
    """The present moment, given to a component by whoever runs it."""

    monotonic: float
    """Seconds of a clock that never jumps; for deadlines."""
    epoch_ms: int
    """UTC, ms; for people, and for ids that must grow over restarts."""


@dataclass(frozen=True)
class Call:
    """Blocking work to be done outside the worker; what `run` returns, unless None, comes back through `handle`.

    `run` catches what it can name; an exception that escapes comes back as `CallFailed`.
    """

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class CallFailed:
    """A call that raised: a bug, or a runtime in a state nobody thought of."""

    call: Call
    error: Exception


Input = Message | Cleared | BadRequest | Delivery
"""What comes from the bus. `Delivery`, undecoded, only to a component that is `Raw`."""
Output = Message | Cleared | Call | Frame
"""What goes out. `Frame`, already encoded, only from one that speaks no messages of its own (debug_tap)."""


class Component(Protocol):
    """One component of the chain. Its methods are never called at the same time."""

    role: Role
    instance: str
    """The node's name for agents, the share of the nodes for one of several MonitoringServers, else "main"."""
    persistent: bool
    """Whether requests sent while it is away shall wait for it at the broker."""

    @property
    def problem(self) -> str | None:
        """None when all is well, else what is wrong, in words."""

    def subscriptions(self) -> Sequence[Subscription]:
        """What it listens to."""

    def start(self, now: Instant) -> list[Output]:
        """Called once, before anything is handled; its output is published when connected."""

    def connected(self, now: Instant) -> list[Output]:
        """Called on every connection: retained state again, since the broker may have lost it."""

    def handle(self, item: Any, now: Instant) -> list[Output]:
        """React to one `Input`, or to the result of a `Call`.

        What it changes durably is committed when it returns. It may raise: then nothing was changed, and the
        shell tries again a bounded number of times before it asks `failed`.
        """

    def failed(self, item: Any, error: Exception, now: Instant) -> list[Output] | None:
        """Answer a message whose handling keeps failing; None: it goes to the dead letters."""

    def tick(self, now: Instant) -> list[Output]:
        """Do what is due. Called about every 50 ms while messages arrive, down to every 250 ms while none do."""

    def close(self) -> None:
        """Release files. Called once, last."""


@runtime_checkable
class Observable(Protocol):
    """A component with metrics of its own beside those that its shell counts."""

    def samples(self) -> "Iterable[Metric]":
        """Metric families as they are now. Like all else, never called at the same time as another method."""


@runtime_checkable
class Booted(Protocol):
    """A component that counts its starts itself; the others get the epoch milliseconds of their start."""

    boot_id: int


@runtime_checkable
class Tethered(Protocol):
    """A component that must know when nobody hears it."""

    def disconnected(self, now: Instant) -> None:
        """Called when the connection is lost; `connected` is called when one stands again."""


@runtime_checkable
class Renewable(Protocol):
    """A component that may have to begin anew, as after a restart of its process."""

    renewal: str | None
    """Why it has to; None: it need not."""


@runtime_checkable
class Parallel(Protocol):
    """A component that needs more calls at a time than the shell's usual number."""

    calls_at_once: int


@runtime_checkable
class Raw(Protocol):
    """A component that takes deliveries as they came, not decoded, when `raw` is true."""

    raw: bool


@runtime_checkable
class Selective(Protocol):
    """A component that hears more than is its own, and tells so before anything is decoded."""

    def concerns(self, topic: str) -> bool:
        """Whether a delivery on this topic is for this instance."""
        ...
