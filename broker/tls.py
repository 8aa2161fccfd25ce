"""What TLS says when a broker and we do not accept each other, in words."""

import logging
import socket
import ssl
from datetime import UTC, datetime
from typing import Final

_log = logging.getLogger(__name__)


class TlsSocket(ssl.SSLSocket):
    """Closed when its handshake fails, and keeps why it broke; paho would forget both."""

    trouble: ssl.SSLError | None = None

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read. With TLS 1.3 the other side refuses our certificate only now."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.trouble = error
            raise


_ALERTS: Final = {
    "ALERT_UNKNOWN_CA": "it does not trust the authority of our certificate",
    "ALERT_CERTIFICATE_EXPIRED": "our certificate has expired, or its clock is wrong",
    "ALERT_CERTIFICATE_REVOKED": "our certificate is revoked",
    "ALERT_CERTIFICATE_REQUIRED": "it wants a certificate: cert_file and key_file",
    "ALERT_HANDSHAKE_FAILURE": "it wants a certificate, or other ciphers",
    "ALERT_BAD_CERTIFICATE": "our certificate is no good to it",
    "ALERT_UNSUPPORTED_CERTIFICATE": "our certificate is not for clients",
}


def tls_trouble(error: BaseException | None) -> str | None:
    """Why the broker refuses our certificate, in words; None when this is about something else."""
    if not isinstance(error, ssl.SSLError) or "ALERT" not in (error.reason or ""):
        return None
    reason = str(error.reason)
    why = next((text for alert, text in _ALERTS.items() if alert in reason), "TLS fails")
    return f"{why} ({reason.lower().replace('_', ' ')})"


def ask_why(host: str, port: int, context: ssl.SSLContext, within_s: float) -> str | None:
    """Why a broker closes our connections before it answers, if that is for our certificate.

    With TLS 1.3 it says so after the handshake, when our CONNECT is on its way, and what it
    said is often lost. So we shake hands once more and say nothing.
    """
    try:
        with (
            socket.create_connection((host, port), within_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            secured.recv(1)
    except OSError as error:
        return tls_trouble(error)
    return None


def server_valid_until(host: str, port: int, context: ssl.SSLContext, within_s: float) -> datetime | None:
    """When (UTC) the certificate of a server ends to be valid; None if it does not answer or is not trusted."""
    try:
        with (
            socket.create_connection((host, port), within_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except OSError as error:
        _log.debug("%s:%d cannot be asked for its certificate: %s", host, port, error)
        return None
    until = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return datetime.fromtimestamp(until, UTC)
