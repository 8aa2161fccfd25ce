"""Podman's REST API through podman-py's client: always with a time-out, and every failure named.

The Docker-compatible update is never used: it exists since 5.1 only, ignores zeros, and resets the restart policy.
"""

import json
import socket
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import podman
from podman.errors import APIError, NotFound, PodmanError

from components.node_agent.podman.plan import Resources
from components.node_agent.runtime import (
    ContainerRuntimeError,
    QueryFailedError,
    RuntimeEvent,
    RuntimeRefusedError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnknownContainerError,
)

EVENTS_IDLE_S: Final = 120.0
"""A stream that is silent for so long is opened anew."""
EVENTS_OVERLAP_S: Final = 2.0
"""A stream begins so long before it must, since time stamps of events are not quite in order."""
TEXT_MAX: Final = 600

_NEVER_SENT = (FileNotFoundError, ConnectionRefusedError, PermissionError, BlockingIOError)
_GONE_SCOPE: Final = ".scope not found"


class PodmanRest:
    """One Podman service. Thread-safe: podman-py's session keeps a pool of connections alive."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Connects to nothing yet. Raises ValueError for a URL podman-py cannot use."""
        self.url = url
        self._timeout = (timeout_s, timeout_s)
        self._timeout_s = timeout_s
        self._api = podman.PodmanClient(base_url=url, timeout=timeout_s).api

    def get(self, path: str, **params: str) -> Any:
        """JSON of a GET; repeated once when a kept-alive connection turns out to be dead.

        Raises UnknownContainerError for a 404, RuntimeUnavailableError, RuntimeTimeoutError, RuntimeRefusedError.
        """
        try:
            return self._get(path, params)
        except RuntimeTimeoutError as error:
            if not isinstance(error.__cause__, APIError) or _timed_out(error.__cause__):
                raise
            return self._get(path, params)

    def _get(self, path: str, params: Mapping[str, str]) -> Any:
        try:
            response = self._api.get(path, params=params, timeout=self._timeout)
            response.raise_for_status()
            return response.json()
        except (APIError, PodmanError) as error:
            raise self._named(error) from error
        except ValueError as error:
            raise QueryFailedError(f"Podman at {self.url} answered {path} with no JSON: {error}") from error

    def version(self) -> str:
        """The service's version, such as "4.3.1". Raises ContainerRuntimeError."""
        try:
            response = self._api.get("/_ping", timeout=self._timeout)
            response.raise_for_status()
        except (APIError, PodmanError) as error:
            raise self._named(error) from error
        return str(response.headers.get("Libpod-Api-Version", ""))

    def update(self, container_id: str, resources: Resources) -> None:
        """Give a container these resources; returns when Podman says it has them. Never repeated.

        Raises RuntimeUnavailableError when nothing was sent, UnknownContainerError, RuntimeRefusedError,
        RuntimeTimeoutError when the outcome is unknown.
        """
        try:
            response = self._api.post(
                f"/containers/{container_id}/update",
                data=json.dumps(resources),
                headers={"Content-Type": "application/json"},
                timeout=self._timeout,
            )
            response.raise_for_status()
        except (APIError, PodmanError) as error:
            raise self._named(error) from error

    def open_events(self, filters: Mapping[str, list[str]], since: float | None) -> "PodmanEvents":
        """A stream of events; returns when Podman has begun it. Raises ContainerRuntimeError."""
        params = {"stream": "true", "filters": json.dumps(filters)}
        if since is not None:
            params["since"] = str(int(since - EVENTS_OVERLAP_S))
        try:
            response = self._api.get(
                "/events", params=params, stream=True, timeout=(self._timeout_s, EVENTS_IDLE_S)
            )
            response.raise_for_status()
        except (APIError, PodmanError) as error:
            raise self._named(error) from error
        return PodmanEvents(response, self.url)

    def close(self) -> None:
        """Close all connections."""
        self._api.close()

    def _named(self, error: Exception) -> ContainerRuntimeError:
        if isinstance(error, NotFound):
            return UnknownContainerError(f"Podman has no such container: {_text_of(error)}")
        if isinstance(error, APIError) and error.status_code is not None:
            return RuntimeRefusedError(_refusal(_text_of(error)))
        if any(isinstance(cause, _NEVER_SENT) for cause in _causes(error)):
            _close_leaked(error)
            return RuntimeUnavailableError(
                f"Podman cannot be reached at {self.url}: {_innermost(error)}; "
                "start it (systemctl start podman.socket), or set node_agent.podman_url"
            )
        if _timed_out(error):
            return RuntimeTimeoutError(f"Podman gave no answer within {self._timeout_s:g} s; outcome unknown")
        return RuntimeTimeoutError(f"the connection to Podman broke: {_innermost(error)}; outcome unknown")


class PodmanEvents:
    """A stream of container events, one JSON object a line."""

    def __init__(self, response: Any, url: str) -> None:
        self._response = response
        self._url = url
        self._closed = False

    def __iter__(self) -> Iterator[RuntimeEvent]:
        """Wait for events; ends when closed or idle. Raises RuntimeUnavailableError when the connection breaks."""
        try:
            for line in self._response.iter_lines():
                if line:
                    event = json.loads(line)
                    yield RuntimeEvent(str(event.get("id", "")), str(event["Action"]), int(event["timeNano"]))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            if self._closed or _timed_out(error):
                return
            raise RuntimeUnavailableError(f"the event stream of Podman at {self._url} broke: {error}") from error
        if not self._closed:
            raise RuntimeUnavailableError(f"Podman at {self._url} ended its event stream")

    def close(self) -> None:
        """End the iteration, from whatever thread."""
        self._closed = True
        connection = self._response.raw.connection
        with suppress(OSError, AttributeError):  # it may just be ending by itself
            connection.sock.shutdown(socket.SHUT_RDWR)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all it came from, whether chained or wrapped as an argument."""
    seen: set[int] = set()
    open_: list[BaseException | None] = [error]
    while open_:
        current = open_.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        open_ += [
            current.__cause__,
            current.__context__,
            *(a for a in current.args if isinstance(a, BaseException)),
        ]


def _close_leaked(error: BaseException) -> None:
    """Close the socket that could not connect; podman-py leaves it to the garbage collector, which complains."""
    for cause in _causes(error):
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            leaked = frame.f_locals.get("self")
            if isinstance(leaked, socket.socket):
                leaked.close()


def _innermost(error: BaseException) -> str:
    return str(list(_causes(error))[-1])[:TEXT_MAX]


def _timed_out(error: BaseException) -> bool:
    return any(isinstance(cause, TimeoutError) for cause in _causes(error))


def _text_of(error: APIError) -> str:
    return str(error.explanation or error)[:TEXT_MAX]


def _refusal(text: str) -> str:
    if _GONE_SCOPE in text:
        return f"systemd has lost the container's scope, so no limit can be set until it is restarted: {text}"
    return f"Podman refused: {text}; the OCI runtime's own words are in the log of the Podman service"
