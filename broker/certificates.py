"""A certificate authority for a bench: who is trusted, the broker's certificate, and one for each identity.

Files, below one directory: `ca/` with two authorities, which stay there, and a folder for each identity
(`broker`, `resource_manager`, `node_agent/hpc-1`) with `ca.pem`, `cert.pem` and `key.pem`, for its owner.
The common name of a certificate is the identity's name, by which the broker's ACL knows it. Foreign clients, the
guests, have an authority of their own, so that no listener but theirs lets them in.
"""

import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker.access import GUESTS, Principal
from broker.files import put

CA_FILE: Final = "ca.pem"
"""The authority of the broker, of components and of people, which all trust."""
GUESTS_FILE: Final = "guests.pem"
"""The authority of foreign clients, which the broker trusts on their listener."""
BROKER: Final = "broker"
"""Folder of the broker's own certificate."""
CA_DAYS: Final = 3650
DAYS: Final = 397
"""A little over a year, the most that is usual for certificates."""
CLOCK_SKEW: Final = timedelta(days=1)
"""Certificates are valid from so long ago, since a vehicle's clock may be slow."""
_HOST: Final = re.compile(r"[!-~]+")
NAME_MAX: Final = 64
"""Characters of a certificate's common name, by X.520."""


class CertificateError(ValueError):
    """A certificate cannot be made or read; the text says why and what to do."""


@dataclass(frozen=True)
class Issued:
    """A certificate in its folder."""

    name: str
    folder: Path
    begin: datetime
    until: datetime
    """From when to when it is valid; UTC."""
    hosts: tuple[str, ...] = ()
    """Names and addresses under which a broker is reached."""


class _Authority:
    """One authority: its certificate, and the key that signs."""

    def __init__(self, file: Path, now: datetime) -> None:
        """Make or read it. Raises CertificateError."""
        self.file = file
        self._now = now
        key_file = file.with_suffix(".key")
        self.made = not file.exists() and not key_file.exists()
        try:
            if self.made:
                self._make(key_file)
            self._certificate = x509.load_pem_x509_certificate(file.read_bytes())
            self._key = _load_key(key_file)
        except (OSError, ValueError) as error:
            raise CertificateError(f"no usable authority {file}: {error}") from error
        if self.until <= now:
            raise CertificateError(
                f"the authority {file} has expired on {self.until:%Y-%m-%d}; make a new one in another directory, "
                "and with it all certificates"
            )

    @property
    def until(self) -> datetime:
        """When it, and with it every certificate of it, ends to be valid."""
        return self._certificate.not_valid_after_utc

    def _make(self, key_file: Path) -> None:
        key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = generate_private_key(SECP256R1())
        name = _name(f"piriscale bench {key_file.stem} {os.urandom(4).hex()}")
        builder = (
            self._builder(key, name, name, self._now + timedelta(days=CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        put(key_file, _private(key), 0o600)
        put(self.file, builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), 0o644)

    def sign(self, key: EllipticCurvePrivateKey, name: str, until: datetime, hosts: Sequence[str]) -> bytes:
        """A certificate for `name`: of a server if it has hosts, else of a client."""
        use = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            self._builder(key, _name(name), self._certificate.subject, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _builder(
        self, key: EllipticCurvePrivateKey, subject: x509.Name, issuer: x509.Name, until: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - CLOCK_SKEW)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


class BenchAuthority:
    """The authorities in a directory. They are made if there are none, and never replaced."""

    def __init__(self, directory: Path, now: datetime | None = None) -> None:
        """Make or read them; `now` is UTC. Raises CertificateError."""
        self.directory = directory.absolute()
        self._now = now or datetime.now(UTC)
        self._ours = _Authority(self.directory / "ca" / CA_FILE, self._now)
        self._guests = _Authority(self.directory / "ca" / GUESTS_FILE, self._now)
        self.made = self._ours.made

    @property
    def until(self) -> datetime:
        """When the authorities, and with them every certificate, end to be valid."""
        return min(self._ours.until, self._guests.until)

    def has(self, name: str) -> bool:
        """Whether this identity has a certificate."""
        return (self.directory / name / "cert.pem").exists()

    def issue(self, principal: Principal, days: int = DAYS, *, force: bool = False) -> Issued:
        """Make key and certificate of an identity. Raises CertificateError when it has one, unless forced."""
        authority = self._guests if principal.kind in GUESTS else self._ours
        return self._issue(authority, str(principal), days, force=force)

    def issue_broker(self, hosts: Sequence[str], days: int = DAYS, *, force: bool = False) -> Issued:
        """Make those of the broker, for these names and addresses. Raises CertificateError."""
        issued = self._issue(self._ours, BROKER, days, hosts, force=force)
        put(issued.folder / GUESTS_FILE, self._guests.file.read_bytes(), 0o644)
        return issued

    def _issue(
        self, authority: _Authority, name: str, days: int, hosts: Sequence[str] = (), *, force: bool
    ) -> Issued:
        folder = self.directory / name
        if self.has(name) and not force:
            until = read_certificate(folder / "cert.pem").until
            raise CertificateError(
                f"{name} has a certificate, valid until {until:%Y-%m-%d}; --force makes a new one"
            )
        if {".", ".."} & set(name.split("/")):
            raise CertificateError(f"{name!r} cannot be the name of a folder")
        if len(name) > NAME_MAX:
            raise CertificateError(
                f"{name} has {len(name)} characters, and a certificate's name at most {NAME_MAX}"
            )
        key = generate_private_key(SECP256R1())
        until = min(self._now + timedelta(days=days), self.until)
        certificate = authority.sign(key, name, until, hosts)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            put(folder / "key.pem", _private(key), 0o600)
            put(folder / "cert.pem", certificate, 0o644)
            put(folder / CA_FILE, self._ours.file.read_bytes(), 0o644)  # by which all know the broker
        except OSError as error:
            raise CertificateError(f"cannot write the certificate of {name}: {error}") from error
        return Issued(name, folder, self._now - CLOCK_SKEW, until, tuple(hosts))


def issued_in(directory: Path) -> Iterator[Issued]:
    """The certificates in an authority's directory, by name. Raises CertificateError for an unreadable one."""
    for file in sorted(directory.absolute().rglob("cert.pem")):
        yield read_certificate(file)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return _dns_name(host)


def _dns_name(host: str) -> x509.DNSName:
    try:
        name = x509.DNSName(host) if _HOST.fullmatch(host) else None
    except ValueError:
        name = None
    if name is None:
        raise CertificateError(f"{host!r} is neither a host's name nor an address")
    return name


def _private(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load_key(file: Path) -> EllipticCurvePrivateKey:
    key = load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise CertificateError(f"{file} holds another kind of key")
    return key


def read_certificate(file: Path) -> Issued:
    """What a certificate says. Raises CertificateError."""
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        begin, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return Issued(str(name.value), file.parent, begin, until, _hosts(certificate))
    except (OSError, ValueError) as error:
        raise CertificateError(f"{file} cannot be read as a certificate: {error}") from error


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)
