"""The folder of a secured broker: its certificate, its configuration, and the ACL of all identities.

Mutual TLS only: whoever has no certificate of the authority is not let in, and whoever has one may do what its
name says (`broker.access`). Guests have a listener of their own, which gives each its identity as client id.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from broker.access import Person, Principal, acl_text
from broker.certificates import BROKER, CA_FILE, GUESTS_FILE, CertificateError, issued_in
from broker.configuration import MosquittoConfiguration, ServerTls
from broker.files import give, put
from broker.mosquitto import account_for

PORT: Final = 8883
"""As registered for MQTT over TLS."""
GUESTS_PORT: Final = 8884
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._:%-]+")
_PREFIX: Final = re.compile(r"([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?")
_FILES: Final = (CA_FILE, "cert.pem", "key.pem", GUESTS_FILE)


@dataclass(frozen=True)
class SecuredBroker:
    """A broker to be, in its folder. Raises ValueError for what would make another configuration than is meant."""

    folder: Path
    principals: tuple[Principal, ...]
    port: int = PORT
    guests_port: int = GUESTS_PORT
    bind: str = "127.0.0.1"
    topic_prefixes: tuple[str, ...] = ("",)
    """Below which everybody's topics are; several at a fleet's broker."""
    owner: str | None = None
    """Who will run it, and so owns its key, unless somebody was given it already; None: whoever writes it."""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.bind):
            raise ValueError(f"{self.bind!r} is no address to listen on")
        for prefix in self.topic_prefixes:
            if not _PREFIX.fullmatch(prefix):
                raise ValueError(f"{prefix!r} is no topic prefix: names with / between, such as fleet/car-7")
            if self.vehicles and "/" in prefix:
                name = prefix.rpartition("/")[2]
                raise ValueError(
                    f"no bridge can have rights below {prefix!r}, but below its own name: --topic-prefix {name} "
                    f"for bridge/{name} (certificates of bridges to elsewhere belong in another directory)"
                )
        if self.port == self.guests_port:
            raise ValueError(f"port {self.port} is for guests already: write another --port or --guests-port")

    @property
    def vehicles(self) -> frozenset[str]:
        """Who comes over a bridge, each below its own name."""
        return frozenset(each.scope[0] for each in self.principals if each.kind is Person.BRIDGE)

    @property
    def configuration(self) -> MosquittoConfiguration:
        """Its rules, with paths in its folder."""
        ca_file, cert_file, key_file, guests_file = (self.folder / name for name in _FILES)
        tls = ServerTls(ca_file, cert_file, key_file, require_certificate=True)
        for_guests = (
            "# Foreign clients: one connection for each identity, and nobody else's client id.",
            f"listener {self.guests_port} {self.bind}",
            *replace(tls, ca_file=guests_file).lines(),
            "use_username_as_clientid true",
        )
        return MosquittoConfiguration(
            self.port, self.bind, acl_file=self.folder / "acl", tls=tls, extra=for_guests
        )

    @property
    def acl(self) -> str:
        """Text of the ACL file."""
        return acl_text(self.principals, self.topic_prefixes)

    @property
    def text(self) -> str:
        """Text of mosquitto.conf."""
        return self.configuration.text(self.folder / "data", self.owner)

    def write(self, certificates: Path) -> Path:
        """Write all of it, with the broker's certificate out of an authority's directory. Returns mosquitto.conf.

        What was given to somebody, such as the user of a container, stays theirs when it is written again.
        Raises CertificateError when there is none, and OSError.
        """
        source = certificates / BROKER
        missing = [str(source / name) for name in _FILES if not (source / name).is_file()]
        if missing:
            raise CertificateError(f"missing: {', '.join(missing)}; make them: piriscale certs {certificates}")
        data = self.folder / "data"
        for folder in reversed([each for each in (self.folder, *self.folder.parents) if not each.exists()]):
            folder.mkdir()
            folder.chmod(0o755)  # whatever the umask is, its owner is to come through
        data.mkdir(mode=0o700, exist_ok=True)
        give(data, self.owner)
        for name in _FILES:
            self._put(name, (source / name).read_bytes(), secret=name == "key.pem")
        self._put("acl", self.acl.encode(), secret=True)
        self._put("mosquitto.conf", self.text.encode())
        return self.folder / "mosquitto.conf"

    def _put(self, name: str, content: bytes, *, secret: bool = False) -> None:
        mode, owner = (0o600, self.owner) if secret else (0o644, None)
        put(self.folder / name, content, mode, owner)


def secured_broker(
    certificates: Path,
    more: Iterable[Principal] = (),
    *,
    into: Path | None = None,
    port: int = PORT,
    guests_port: int = GUESTS_PORT,
    bind: str = "127.0.0.1",
    topic_prefixes: tuple[str, ...] = ("",),
    owner: str | None = None,
) -> SecuredBroker:
    """The broker for all identities that an authority's directory knows, and `more`.

    Raises CertificateError for a certificate that cannot be read or is of no identity.
    """
    principals = set(more)
    for each in issued_in(certificates):
        if each.name != BROKER:
            try:
                principals.add(Principal.parse(each.name))
            except ValueError as error:
                raise CertificateError(f"{each.folder / 'cert.pem'}: {error}") from error
    folder = (into or certificates / BROKER).absolute()
    return SecuredBroker(folder, tuple(principals), port, guests_port, bind, topic_prefixes, owner)


def owner_of(folder: Path) -> str | None:
    """The user who shall run a broker in a folder, when root writes it; None: whoever writes it. Makes nothing."""
    if os.geteuid() != 0:
        return None
    folder = folder.absolute()
    account = account_for(next(each for each in (folder, *folder.parents) if each.is_dir()))
    return account.pw_name if account is not None else "root"
