"""Whether there is a broker, whether it lets us in, and then all that is to be seen of it and on it."""

import time
import uuid
from collections.abc import Sequence
from typing import Final

from broker.bus import Connected, Disconnected, Identity
from broker.client import MqttBus
from broker.mosquitto import BrokerError, find_mosquitto
from broker.options import BrokerOptions
from components.cli.doctor.checks import Check, run_all
from components.cli.doctor.finding import Finding, Level, note, ok, wrong
from components.cli.doctor.fleet import check_fleet
from components.cli.doctor.losses import check_losses
from components.cli.doctor.mosquitto_conf import check_configuration
from components.cli.doctor.rights import accounts_of, ask, identity_of, judge, need_of, present_identity
from components.cli.errors import UsageError
from components.cli.identity import options_of
from components.settings import BrokerSettings, Settings
from components.shell.inbox import Inbox
from schemas.topics import Role

AREA: Final = "broker"
ANSWER_WITHIN_S: Final = 7.0
DEALINGS_WITHIN_S: Final = 20.0
STORING_WITHIN_S: Final = 5.0
FLEET_WITHIN_S: Final = 15.0
_OF_TLS: Final = ("CERTIFICATE", "SSL", "refuses us", "does not let")
_HANGS: Final = "see the broker's log: it hangs, or is overloaded"


def check_broker(settings: Settings, roles: Sequence[Role] = ()) -> list[Finding]:
    """The connection, and when it stands all that the broker would do to us, and who is on it.

    `roles`: whose rights are needed, if not those that the user's name tells.
    """
    ours = settings.broker.of(present_identity(settings))
    findings = check_connection(ours)
    if any(finding.level is not Level.OK for finding in findings):
        return findings
    options = options_of(ours)
    heard = need_of(identity_of(ours), settings.node_agent.node)
    return findings + run_all(
        [
            Check("rights", lambda: _check_dealings(settings, options, roles), DEALINGS_WITHIN_S, _HANGS),
            Check("storing", lambda: check_configuration(options.host, options.port), STORING_WITHIN_S, _HANGS),
            Check("agents", lambda: check_fleet(ours, heard), FLEET_WITHIN_S, _HANGS),
        ]
    )


def _check_dealings(settings: Settings, options: BrokerOptions, roles: Sequence[Role]) -> list[Finding]:
    """What it lets us say and hear, and then, on a topic that it lets us write, what it would lose."""
    accounts, findings = accounts_of(settings, roles)
    writable = None
    for account in accounts:
        if not account.need.roles:
            continue
        try:
            answers = ask(account.options, account.need)
        except OSError as error:
            text = f"of {account} cannot be asked for: {error}"
            findings.append(wrong("rights", text, "see the broker's log, and the certificate or password"))
            continue
        findings += judge(account, settings.broker.topic_prefix, answers)
        writable = answers.writable if account.options == options else writable
    return findings + check_losses(options, writable)


def check_connection(settings: BrokerSettings) -> list[Finding]:
    """The program, if we manage the broker ourselves, and a connection."""
    findings = []
    if settings.url is None:
        try:
            findings.append(ok(AREA, f"{find_mosquitto()} for the managed broker"))
        except BrokerError:
            remedy = "apt-get install mosquitto, or set broker.url to a broker that runs elsewhere"
            return [wrong(AREA, "mosquitto is not installed", remedy)]
    try:
        options = options_of(settings)
        findings.append(_connection(options, managed=settings.url is None))
    except (UsageError, ValueError) as error:
        findings.append(
            wrong(AREA, str(error), "mend the section [broker] of the configuration, or the file it names")
        )
    return findings


def _connection(options: BrokerOptions, *, managed: bool) -> Finding:
    inbox = Inbox()
    bus = MqttBus(options, Identity(f"piriscale-doctor-{uuid.uuid4().hex[:8]}"), inbox.deliver)
    began = time.monotonic()
    bus.start()
    event = inbox.take(ANSWER_WITHIN_S)
    elapsed_ms = (time.monotonic() - began) * 1000
    bus.stop(drain_s=0)
    if isinstance(event, Connected):
        return ok(AREA, f"{options} lets us in, after {elapsed_ms:.0f} ms")
    if not isinstance(event, Disconnected):
        return wrong(AREA, f"{options} does not answer", "see whether a firewall is between, and the broker's log")
    if options.tls is not None and any(word in event.reason for word in _OF_TLS):
        remedy = "see broker.tls: ca_file of the broker's authority, cert_file and key_file that it signed"
        return wrong(AREA, event.reason, f"{remedy} (piriscale certs makes them), and the clock")
    if event.fatal:
        remedy = (
            "set broker.username and broker.password_file to a user of the broker"
            if options.username is None
            else f"see whether broker.password_file holds the password of {options.username}"
        )
        return wrong(AREA, event.reason, remedy)
    if managed:
        return note(AREA, f"none runs at {options} now", "piriscale up starts one")
    return wrong(AREA, event.reason, "start it (systemctl start mosquitto), or mend broker.url")
