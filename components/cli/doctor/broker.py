"""Whether there is a broker, and whether it lets us in."""

import time
import uuid
from typing import Final

from broker.bus import Connected, Disconnected, Identity
from broker.client import MqttBus
from broker.mosquitto import BrokerError, find_mosquitto
from broker.options import BrokerOptions
from components.cli.connection import options_of
from components.cli.doctor.finding import Finding, note, ok, wrong
from components.cli.errors import UsageError
from components.settings import BrokerSettings
from components.shell.inbox import Inbox

AREA: Final = "broker"
ANSWER_WITHIN_S: Final = 8.0


def check_broker(settings: BrokerSettings) -> list[Finding]:
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
