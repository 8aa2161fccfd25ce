"""The web server in a thread of its own, with a port that is opened before anything else starts."""

import asyncio
import logging
import socket
import threading
from typing import Final

import uvicorn

from components.dashboard.web import Guarded

CONNECTIONS_MAX: Final = 128
HEADER_BYTES_MAX: Final = 16 * 1024
KEEP_ALIVE_S: Final = 15
END_WITHIN_S: Final = 2.0
BACKLOG: Final = 64


class PortTakenError(OSError):
    """The port cannot be opened; the text says which and what to do."""


class PageServer:
    """Serves one application until it is stopped."""

    def __init__(self, host: str, port: int, app: Guarded) -> None:
        """Open the port (0: a free one). Raises PortTakenError."""
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise PortTakenError(
                f"port {port} on {host} for the web page cannot be opened ({error.strerror or error}); choose "
                "another one with [dashboard] port in the configuration, or 0 for no page"
            ) from error
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._run, name="dashboard-http", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None when all is well."""
        ended = self._thread.ident is not None and not self._thread.is_alive()
        return "the web server has ended, see the log" if ended and not self._server.should_exit else None

    def start(self) -> None:
        """Answer requests from now on."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its starts and ends are no events of ours
        self._thread.start()

    def stop(self) -> None:
        """Let go of all browsers, and close the port."""
        self._server.should_exit = True
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._app.streams.end)
            self._thread.join(END_WITHIN_S)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._socket])
