"""Mosquitto's configuration, as text. Its defaults lose messages without a word, so most lines are about that."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.options import BrokerOptions

PACKET_MAX: Final = 2 * 1024 * 1024
"""Bytes. Far above what we send, so that even a MiB of garbage comes through and is seen, in the dead letters."""
QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Per client."""


@dataclass(frozen=True)
class ServerTls:
    """Files for TLS at the broker. `require_certificate` makes it mutual; the common name is the user name."""

    ca_file: Path
    cert_file: Path
    key_file: Path
    require_certificate: bool = False

    def lines(self) -> list[str]:
        """What follows the line of a listener."""
        mutual = "true" if self.require_certificate else "false"
        return [
            f"cafile {self.ca_file}",
            f"certfile {self.cert_file}",
            f"keyfile {self.key_file}",
            f"require_certificate {mutual}",
            f"use_identity_as_username {mutual}",
        ]


@dataclass(frozen=True)
class MosquittoConfiguration:
    """One listener and its rules; understood by Mosquitto 2.0.11 (Debian 12) and 2.0.21 (Debian 13) alike.

    Without a password file or certificates of its clients everybody may do everything, which is allowed on
    loopback only. Raises ValueError otherwise.
    """

    port: int = 1883
    bind: str = "127.0.0.1"
    password_file: Path | None = None
    acl_file: Path | None = None
    tls: ServerTls | None = None
    extra: tuple[str, ...] = ()
    """Further lines, for what has no field here: a bridge, a plugin."""

    def __post_init__(self) -> None:
        if self._anonymous and not is_loopback(self.bind):
            raise ValueError(
                f"a broker on {self.bind} is open to the network, so it needs a password file, or TLS that "
                "requires certificates"
            )

    @property
    def _anonymous(self) -> bool:
        return self.password_file is None and not (self.tls and self.tls.require_certificate)

    def text(self, data_dir: Path, user: str | None = None) -> str:
        """The lines of mosquitto.conf. `user` is whom Mosquitto becomes when root starts it."""
        given = {
            "persistence_location": f"{data_dir}/",
            "user": user,
            "password_file": self.password_file,
            "acl_file": self.acl_file,
        }
        files = [f"{option} {value}" for option, value in given.items() if value is not None]
        return "\n".join([*self._listener(), *_STORE, *files, *_LOG, *self.extra, ""])

    def _listener(self) -> list[str]:
        lines = [
            "# Written by piriscale; changes are lost when it writes again.",
            f"listener {self.port} {self.bind}",
            f"allow_anonymous {'true' if self._anonymous else 'false'}",
            "set_tcp_nodelay true",
        ]
        return [*lines, *(self.tls.lines() if self.tls is not None else ())]


_STORE: Final = (
    # The default saves every 1800 s, and a killed broker forgets all since.
    "persistence true",
    "autosave_interval 10",
    # The default drops what is above 1000 messages although it acknowledged them.
    "max_queued_messages 100000",
    f"max_queued_bytes {QUEUE_BYTES_MAX}",
    f"max_inflight_messages {BrokerOptions.receive_maximum}",
    # Later than any session of ours expires by itself; it is for the 3.1.1 clients of others.
    "persistent_client_expiration 7d",
    f"max_packet_size {PACKET_MAX}",
)
_LOG: Final = (
    # Unbuffered, and without the notice of each save; the parent gives the file.
    "log_dest stderr",
    "log_type error",
    "log_type warning",
    "log_type notice",
    "log_timestamp_format %Y-%m-%dT%H:%M:%S",
)


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
