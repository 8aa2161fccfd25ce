"""Where the broker is and how it is spoken to."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from broker.tls import TlsSocket
from broker.window import QUEUE_BYTES, QUEUE_FRAMES


@dataclass(frozen=True)
class TlsFiles:
    """Files for TLS: who is trusted, and who we are when the broker asks (mutual TLS)."""

    ca_file: Path
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context for all connections. Raises ValueError naming the file that cannot be used."""
        for path in (self.ca_file, self.cert_file, self.key_file):
            if path is not None:
                _check_readable(path)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError as error:
            raise ValueError(f"{self.ca_file} holds no certificate of an authority: {error}") from error
        context.sslsocket_class = TlsSocket
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, _no_password)
            except ssl.SSLError as error:
                files = f"{self.cert_file} and {self.key_file}"
                raise ValueError(f"{files} are not a certificate and its key: {error}") from error
        return context


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def _no_password() -> str:
    """Instead of OpenSSL's own question on the terminal, which nobody answers in a vehicle."""
    raise ValueError("the key_file is encrypted; it must be a plain key that only its user can read")


@dataclass(frozen=True)
class BrokerOptions:
    """One broker, as a client needs it. Times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 1883
    tls: TlsFiles | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    topic_prefix: str = ""
    """Goes before every topic, without a slash at its end; "": none."""
    keepalive_s: int = 15
    """A dead peer is noticed after at most twice as long."""
    connect_timeout_s: float = 5.0
    """For TCP and TLS, and again for MQTT's own handshake up to the last granted subscription."""
    session_expiry_s: int = 86_400
    """How long the broker keeps a persistent session, and the requests in it, while its client is away."""
    receive_maximum: int = 100
    """So many QoS 1 messages come unacknowledged; a component's inbox needs room for them."""
    queue_frames: int = QUEUE_FRAMES
    queue_bytes: int = QUEUE_BYTES

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
