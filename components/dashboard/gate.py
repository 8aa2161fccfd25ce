"""Who may ask: requests to a name of ours, from our own page. And what browsers may do with what they get.

The page has no login: on loopback whoever can reach the port may use it. But the pages of strangers, in a browser
on this machine, must not. They can send requests here, so what changes anything must come from our own origin; and
they can let their own host name point here (DNS rebinding), so only names that we know are answered.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer: nothing from elsewhere is loaded, and nobody shows our page within theirs."""

Refusal = tuple[HTTPStatus, str]


class Gate:
    """Judges requests by their method, path and headers (names in lower case)."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: host names and addresses under which the page is reached, besides those of loopback."""
        names = tuple(names)
        self._names = {_plain(name) for name in (*LOOPBACK_NAMES, *names) if not _unspecified(name)}
        self._any_address = any(_unspecified(name) for name in names)

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused; None: it may pass."""
        host = headers.get("host", "")
        if not self._knows(host):
            return (
                HTTPStatus.MISDIRECTED_REQUEST,
                f"{host[:128]!r} is no name of this page; further ones are listed under [dashboard] names",
            )
        if method in ("GET", "HEAD"):
            foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
            if foreign and path.startswith("/api/"):
                return HTTPStatus.FORBIDDEN, "only this page itself may ask that"
            return None
        if method != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD and POST are understood"
        return _refusal_of_post(host, headers)

    def _knows(self, host: str) -> bool:
        name = _plain(_without_port(host))
        if name in self._names:
            return True
        return self._any_address and _is_address(name)  # no name, so no foreign name that points here


def _refusal_of_post(host: str, headers: Mapping[str, str]) -> Refusal | None:
    if not _names(headers.get("origin", ""), host):
        return HTTPStatus.FORBIDDEN, "only this page itself may ask that: the Origin header must name it"
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return HTTPStatus.FORBIDDEN, "only this page itself may ask that"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"
    return None


def _names(origin: str, host: str) -> bool:
    """Whether an Origin header names that host."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # half an IPv6 address
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") <= 1 else host


def _plain(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _unspecified(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_unspecified
