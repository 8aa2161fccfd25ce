"""Browsers that watch: one event stream each, bounded in number and in what waits for a slow one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

STREAMS_MAX: Final = 16
FRAMES_WAITING_MAX: Final = 32
"""A browser for which more wait is cut off; it connects again by itself, and gets a whole picture."""


class Stream:
    """One browser. `send` and `close` from any thread, the rest on the server's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closed = False
        self.cut_off = False

    def send(self, frame: bytes) -> None:
        """Give it a frame; never blocks."""
        self._call(frame)

    def close(self) -> None:
        """End the stream after what waits."""
        self._call(None)

    async def frames(self) -> AsyncIterator[bytes]:
        """What it is given, until it is closed or cut off."""
        while (frame := await self._frames.get()) is not None:
            if self.cut_off:
                return
            yield frame

    def _call(self, frame: bytes | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the stream
            self._loop.call_soon_threadsafe(self._put, frame)

    def _put(self, frame: bytes | None) -> None:
        if self._closed:
            return
        if self._frames.qsize() >= FRAMES_WAITING_MAX:
            self._closed = self.cut_off = True
            return
        self._closed = frame is None
        self._frames.put_nowait(frame)


class Streams:
    """All browsers that watch now. Belongs to the server's loop."""

    def __init__(self, most: int = STREAMS_MAX) -> None:
        self._most = most
        self._open: set[Stream] = set()
        self._ending = False

    def open(self) -> Stream | None:
        """A new stream; None when there are too many, or at the end."""
        if self._ending or len(self._open) >= self._most:
            return None
        stream = Stream(asyncio.get_running_loop())
        self._open.add(stream)
        return stream

    def closed(self, stream: Stream) -> None:
        """Note that a browser is gone."""
        self._open.discard(stream)

    def end(self) -> None:
        """Close all, and open no more."""
        self._ending = True
        for stream in self._open:
            stream.close()
