"""How long the certificates of this machine's identities are valid, and the broker's."""

import logging
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from broker.access import component_identity
from broker.certificates import CertificateError, Issued, read_certificate
from broker.tls import server_valid_until
from components.cli.assembly import ROLES
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.cli.doctor.rights import present_identity
from components.cli.errors import UsageError
from components.cli.identity import EXPIRES_SOON, options_of, person
from components.settings import Settings

_log = logging.getLogger(__name__)

AREA: Final = "certs"
ANSWER_WITHIN_S: Final = 5.0


def check_certificates(settings: Settings, now: datetime | None = None) -> list[Finding]:
    """Of each identity whose certificate is here and can be read, and of the broker; nothing without TLS.

    `now` is UTC.
    """
    now = now or datetime.now(UTC)
    return [*judge(_certificates(settings), now), *_judge_broker(_broker_until(settings), now)]


def judge(certificates: Iterable[Issued], now: datetime) -> Iterator[Finding]:
    """What is not valid or ends soon, one by one; all others in one line."""
    good = []
    for each in certificates:
        renew = f"piriscale certs DIRECTORY {each.name} --force, bring its files here, and restart its owner"
        if each.until <= now:
            yield wrong(AREA, f"{each.name}: expired on {each.until:%Y-%m-%d}", renew)
        elif each.begin > now:
            text = f"{each.name}: not valid before {each.begin:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M}"
            yield wrong(AREA, text, f"set the clock of this machine; or {renew}")
        elif each.until - now < EXPIRES_SOON:
            yield note(AREA, f"{each.name}: expires on {each.until:%Y-%m-%d}, {_left(each.until, now)}", renew)
        else:
            good.append(each)
    if good:
        until = min(each.until for each in good)
        yield ok(AREA, f"{', '.join(each.name for each in good)}: valid until {until:%Y-%m-%d} at least")


def _judge_broker(until: datetime | None, now: datetime) -> Iterator[Finding]:
    """Of one that has expired the connection tells."""
    if until is not None and until - now < EXPIRES_SOON:
        text = f"the broker's own expires on {until:%Y-%m-%d}, {_left(until, now)}"
        yield note(
            AREA,
            text,
            "piriscale certs DIRECTORY broker --force --host …, piriscale broker-config, and kill -HUP the broker",
        )


def _left(until: datetime, now: datetime) -> str:
    return f"in {(until - now).days} days"


def _certificates(settings: Settings) -> list[Issued]:
    """Each once, where several connect with the same one."""
    found: dict[Path, Issued] = {}
    for identity in (*(component_identity(role, settings.node_agent.node) for role in ROLES), person()):
        tls = settings.broker.of(identity).tls
        if tls is None or tls.cert_file is None or tls.cert_file in found:
            continue
        try:
            found[tls.cert_file] = read_certificate(tls.cert_file)
        except CertificateError as error:  # of another machine, or user; who needs it here is told of it
            _log.debug("%s", error)
    return list(found.values())


def _broker_until(settings: Settings) -> datetime | None:
    """None where it has none, or is not reached."""
    try:
        options = options_of(settings.broker.of(present_identity(settings)))
    except UsageError as error:
        _log.debug("the broker cannot be asked for its certificate: %s", error)
        return None
    if options.tls is None:
        return None
    return server_valid_until(options.host, options.port, options.tls.context(), ANSWER_WITHIN_S)
