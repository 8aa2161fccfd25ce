"""Frames on their way out: a bounded queue, and behind it at most ten of QoS 1 in flight.

paho has both, but bounds neither over a reconnect. Pure: no clock, no thread, no I/O.
"""

from collections import deque
from typing import Final

from schemas.codec import Frame

WINDOW: Final = 10
"""QoS 1 frames in flight; small, so that every broker keeps up with it."""
QUEUE_FRAMES: Final = 10_000
QUEUE_BYTES: Final = 64 * 1024 * 1024


class Outbox:
    """What is to be sent, in order. A QoS 0 frame is for now or never: it does not outlive a lost connection."""

    def __init__(self, frames_max: int = QUEUE_FRAMES, bytes_max: int = QUEUE_BYTES) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._queue: deque[Frame] = deque()
        self._queued_bytes = 0
        self._queued_qos0 = 0
        self._in_flight: dict[int, Frame | None] = {}
        self._window = WINDOW
        self._connected = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        """QoS 1 frames sent and not acknowledged."""
        return len(self._in_flight)

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing in flight."""
        return not self._queue and not self._in_flight

    def put(self, frame: Frame) -> int:
        """Queue a frame; returns how many were dropped for it, the frame itself perhaps among them.

        Without room the oldest QoS 0 frame goes first, then the oldest at all: newer state replaces older, and an
        old request is said again by its sender.
        """
        if frame.qos == 0 and not self._connected:
            return 1
        self._append(frame)
        dropped = 0
        while len(self._queue) > self._frames_max or self._queued_bytes > self._bytes_max:
            self._drop_oldest()
            dropped += 1
        return dropped

    def head(self) -> Frame | None:
        """The frame to be sent now, if the window has room for it; it stays until `sent`."""
        if not self._queue or (self._queue[0].qos and len(self._in_flight) >= self._window):
            return None
        return self._queue[0]

    def sent(self, packet_id: int) -> None:
        """The head went out under this packet id."""
        frame = self._pop()
        if frame.qos:
            self._in_flight[packet_id] = frame

    def sent_besides(self, packet_id: int) -> None:
        """A QoS 1 frame that was never queued went out; it takes a place in the window, but is not repeated."""
        self._in_flight[packet_id] = None

    def discard_head(self) -> None:
        """The head cannot be sent, now or later."""
        self._pop()

    def topic_of(self, packet_id: int) -> str | None:
        """Topic of a frame in flight; None for one that was never queued, or is not in flight."""
        frame = self._in_flight.get(packet_id)
        return frame.topic if frame is not None else None

    def acknowledged(self, packet_id: int) -> bool:
        """Make room in the window; False for a packet id that is not in flight."""
        if packet_id not in self._in_flight:
            return False
        del self._in_flight[packet_id]
        return True

    def connected(self, server_window: int) -> None:
        """A connection stands; `server_window` is the broker's Receive Maximum."""
        self._connected = True
        self._window = min(WINDOW, server_window)

    def connection_lost(self) -> int:
        """Queue again, first, what was in flight. Returns how many QoS 0 frames were dropped."""
        self._connected = False
        again = [frame for frame in self._in_flight.values() if frame is not None]
        self._in_flight.clear()
        kept = again + [frame for frame in self._queue if frame.qos]
        dropped = len(self._queue) + len(again) - len(kept)
        self.clear()
        for frame in kept:
            self._append(frame)
        return dropped

    def clear(self) -> int:
        """Forget what is queued; returns how many frames that were."""
        dropped = len(self._queue)
        self._queue.clear()
        self._queued_bytes = self._queued_qos0 = 0
        return dropped

    def _append(self, frame: Frame) -> None:
        self._queue.append(frame)
        self._queued_bytes += len(frame.payload)
        self._queued_qos0 += not frame.qos

    def _pop(self) -> Frame:
        frame = self._queue.popleft()
        self._forget(frame)
        return frame

    def _drop_oldest(self) -> None:
        if not self._queued_qos0:
            self._pop()
            return
        position = next(index for index, frame in enumerate(self._queue) if not frame.qos)
        self._forget(self._queue[position])
        del self._queue[position]

    def _forget(self, frame: Frame) -> None:
        self._queued_bytes -= len(frame.payload)
        self._queued_qos0 -= not frame.qos
