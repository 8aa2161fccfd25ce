"""Who a command or a component is to the broker, and how it reaches it as that."""

import getpass
import logging
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from broker.bus import Deliver, Identity
from broker.client import MqttBus
from broker.configuration import is_loopback
from broker.options import BrokerOptions, TlsFiles
from components.cli.errors import UsageError
from components.settings import BrokerSettings
from components.shell.shell import Connect
from schemas.topics import Role

_log = logging.getLogger(__name__)

EXPIRES_SOON: Final = timedelta(days=30)
IDENTITY_VARIABLE: Final = "PIRISCALE_IDENTITY"


def person() -> str:
    """The identity of whoever runs a command: what PIRISCALE_IDENTITY says, or cli/USER."""
    try:
        return os.environ.get(IDENTITY_VARIABLE) or f"{Role.CLI}/{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return f"{Role.CLI}/{os.getuid()}"


_HINT: Final = (
    "; commands use the identity {identity}: make its certificate (piriscale certs), or name another identity in "
    f"the environment variable {IDENTITY_VARIABLE}"
)


def options_of(settings: BrokerSettings, identity: str | None = None) -> BrokerOptions:
    """How an identity, by default that of the person, reaches the configured broker.

    Raises UsageError when a file that the settings name cannot be used.
    """
    named = settings
    settings = settings.of(identity or person())
    host, port, secure = settings.address
    tls = None
    if settings.tls is not None:
        tls = TlsFiles(settings.tls.ca_file, settings.tls.cert_file, settings.tls.key_file)
        try:
            tls.context()
        except ValueError as error:
            hint = "" if identity or named == settings else _HINT.format(identity=person())
            raise UsageError(f"broker.tls: {error}{hint}") from error
    elif secure:
        raise UsageError("broker.url is mqtts://, so [broker.tls] ca_file must name the file of who is trusted")
    password = _password(settings)
    if password is not None and not secure and not is_loopback(host):
        _log.warning("the password goes to %s:%d in clear; use mqtts://", host, port)
    for secret in (settings.password_file, settings.tls.key_file if settings.tls else None):
        if secret is not None and secret.stat().st_mode & stat.S_IROTH:
            _log.warning("%s can be read by everybody on this machine: chmod 600 %s", secret, secret)
    return BrokerOptions(
        host=host,
        port=port,
        tls=tls if secure else None,
        username=settings.username,
        password=password,
        topic_prefix=settings.topic_prefix,
    )


def _password(settings: BrokerSettings) -> str | None:
    if settings.password_file is None:
        return None
    try:
        return settings.password_file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"broker.password_file = {str(settings.password_file)!r}: {error}") from error


def connector_for(settings: BrokerSettings, expiries: dict[str, float] | None = None) -> Connect:
    """What gives each component its own connection, under its own identity. What it gives raises UsageError.

    It notes in `expiries`, by component and as Unix time, when the certificate ends with which it connects:
    a running component goes on with the certificate that it read, whatever is put in its place.
    """

    def connect(identity: Identity, deliver: Deliver) -> MqttBus:
        options = options_of(settings, identity.principal)
        until = _end_of(options.tls.cert_file) if options.tls and options.tls.cert_file else None
        if until is not None and expiries is not None:
            expiries[identity.principal.partition("/")[0]] = until.timestamp()
        return MqttBus(options, identity, deliver)

    return connect


def _end_of(cert_file: Path) -> datetime | None:
    """When a certificate ends to be valid. That this is soon is told in the log, too."""
    from broker.certificates import CertificateError, read_certificate  # heavy, and not needed by most

    try:
        until = read_certificate(cert_file).until
    except CertificateError as error:
        _log.warning("%s", error)
        return None
    if (left := until - datetime.now(UTC)) < EXPIRES_SOON:
        _log.warning("the certificate %s is valid for %d more days", cert_file, left.days)
    return until


def connector(options: BrokerOptions) -> Connect:
    """What gives everybody a connection with the same options."""

    def connect(identity: Identity, deliver: Deliver) -> MqttBus:
        return MqttBus(options, identity, deliver)

    return connect
