"""/metrics for Prometheus and /healthz for supervisors, on loopback unless told otherwise."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
REQUEST_TIMEOUT_S: Final = 5.0
STOP_POLL_S: Final = 0.1
CONNECTIONS_MAX: Final = 32
"""Further ones are closed at once: each has a thread and a file, which the component needs for other things."""


class PortTakenError(Exception):
    """The port for metrics cannot be opened; the text says which and what to do."""


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is room."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread that would
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event of ours."""
        _log.debug("request for metrics or health failed", exc_info=True)


class HealthServer:
    """A small HTTP server in a thread of its own.

    `problems` gives what is wrong, one text each; none: /healthz answers 200.
    """

    def __init__(
        self,
        port: int,
        registry: "CollectorRegistry",
        problems: Callable[[], list[str]],
        *,
        host: str = LOOPBACK,
    ) -> None:
        """Listen on `port` (0: a free one) of an IPv4 address. Raises PortTakenError."""
        try:
            self._server = _Server((host, port), _handler(registry, problems))
        except OSError as error:
            raise PortTakenError(
                f"port {port} for metrics cannot be opened on {host} ({error.strerror}); choose another one with "
                "[metrics] port in the configuration or --metrics-port, or 0 for none"
            ) from error
        serve = partial(self._server.serve_forever, poll_interval=STOP_POLL_S)
        self._thread = threading.Thread(target=serve, name="http", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.address[1]

    def start(self) -> None:
        """Answer requests from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _handler(registry: "CollectorRegistry", problems: Callable[[], list[str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S
        server_version = "piriscale"
        sys_version = ""

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(HTTPStatus.OK, *_exposition(registry, self.headers.get("Accept", "")))
                case "/healthz":
                    wrong = problems()
                    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
                    self._answer(status, "".join(f"{text}\n" for text in wrong or ["ok"]).encode())
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n")

        def _answer(
            self, status: HTTPStatus, body: bytes, content_type: str = "text/plain; charset=utf-8"
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent: a scrape a second is no event."""

    return Handler


def _exposition(registry: "CollectorRegistry", accept: str) -> tuple[bytes, str]:
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
