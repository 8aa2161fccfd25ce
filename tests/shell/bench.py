"""A dispatcher to be driven step by step, without threads."""

from broker.bus import Identity
from components.component import Call, Instant
from components.shell.dispatch import RETRY_AFTER_S, Dispatcher
from components.shell.status import OwnStatus
from schemas.limits import Amount
from schemas.message import Wire
from schemas.resources import NodeCapacity
from tests.shell.doubles import Probe, RecordingBus

VALIDATE: dict[str, object] = {"id": "r1", "node": "hpc-1", "workload_id": "cam", "requested_cpu": 2000}
BOOT_ID = 1_700_000_000_000


class Bench:
    """A dispatcher on a recording bus, with a clock that stands still until it is moved."""

    def __init__(
        self, probe: Probe | None = None, *, wire: Wire = Wire.MSGPACK, wants_status: bool = False
    ) -> None:
        self.probe = probe or Probe()
        self.bus = RecordingBus(Identity("test"), lambda _: True)
        self.calls: list[Call] = []
        self.time = Instant(1000.0, BOOT_ID + 5)
        self.status = OwnStatus(self.probe.role, self.probe.instance, BOOT_ID)
        self.dispatcher = Dispatcher(
            self.probe,
            self.bus,
            self.status,
            self.calls.append,
            wants_status=wants_status,
            wire=wire,
            now=lambda: self.time,
            retry_after_s=(0.0,) * len(RETRY_AFTER_S),
        )

    def pass_time(self, seconds: float) -> None:
        self.time = Instant(self.time.monotonic + seconds, self.time.epoch_ms + int(seconds * 1000))


def capacity_of(**fields: object) -> NodeCapacity:
    zero = Amount()
    sound = NodeCapacity(node="hpc-1", total=zero, allocated=zero, reserved=zero, available=zero)
    return sound.model_copy(update=fields)
