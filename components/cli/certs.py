"""`certs` and `broker-config`: certificates for a bench, and the broker that heeds them."""

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from broker.access import COMPONENTS, GUESTS, Principal
from broker.certificates import BROKER, DAYS, BenchAuthority, CertificateError, Issued, issued_in
from broker.secured import SecuredBroker, owner_of, secured_broker
from components.cli.errors import EXIT_OK, CliError, UsageError
from components.cli.screen import console, table
from schemas.topics import Role

DAYS_MAX: Final = 3650


def make_certificates(
    directory: Path, names: Sequence[str], hosts: Sequence[str], *, days: int = DAYS, force: bool = False
) -> int:
    """Make what is missing, and what is asked for. Returns the exit code."""
    if not 1 <= days <= DAYS_MAX:
        raise UsageError(f"--days {days}: write 1 to {DAYS_MAX}")
    asked = [each for each in dict.fromkeys(names) if each != BROKER]
    principals = [_principal(each) for each in asked]
    if force and not names:
        raise UsageError("--force makes certificates anew: say of whom, for example `broker` or node_agent/hpc-1")
    if hosts and BROKER not in names and (directory / BROKER / "cert.pem").exists():
        raise UsageError(
            "--host is for the broker, which has a certificate; `broker --force --host …` makes it anew"
        )
    try:
        authority = BenchAuthority(directory)
        made = []
        if BROKER in names or not authority.has(BROKER):
            made.append(authority.issue_broker(hosts or _hosts_of_this_machine(), days, force=force))
        usual = [Principal(role) for role in COMPONENTS if not authority.has(role)]
        made += [authority.issue(each, days, force=force) for each in dict.fromkeys([*usual, *principals])]
        _show(console(), authority, made)
    except CertificateError as error:
        raise CliError(str(error)) from error
    return EXIT_OK


def _hosts_of_this_machine() -> list[str]:
    name = socket.gethostname()
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", name, name.partition(".")[0]]))


def _principal(name: str) -> Principal:
    try:
        return Principal.parse(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _show(screen: Console, authority: BenchAuthority, made: Sequence[Issued]) -> None:
    if authority.made:
        screen.print(
            f"made an authority, valid until {authority.until:%Y-%m-%d}; keep its key here, and secret: "
            f"{authority.directory / 'ca' / 'ca.key'}",
            soft_wrap=True,
        )
    rows = table("IDENTITY", "VALID UNTIL", "", "FOLDER")
    new = {each.name for each in made}
    for each in issued_in(authority.directory):
        hosts = f", for {', '.join(each.hosts)}" if each.hosts else ""
        mark = "new" if each.name in new else ""
        rows.add_row(f"{each.name}{hosts}", f"{each.until:%Y-%m-%d}", mark, str(each.folder))
    screen.print(rows)
    print(_USE.format(directory=authority.directory))


_USE: Final = """
Give each machine only the folders of its own identities. In the configuration there:

  [broker]
  url = "mqtts://HOST:8883"
  [broker.tls]
  ca_file = "{directory}/{{identity}}/ca.pem"
  cert_file = "{directory}/{{identity}}/cert.pem"
  key_file = "{directory}/{{identity}}/key.pem"

{{identity}} is written as it stands: each component puts its own name there, commands cli/USER. Then, and each
time an identity is added: piriscale broker-config {directory}"""


def configure_broker(
    directory: Path,
    names: Sequence[str],
    *,
    into: Path | None,
    port: int,
    guests_port: int,
    bind: str,
    topic_prefixes: Sequence[str],
    show: bool,
) -> int:
    """Write, or print, mosquitto.conf and the ACL. Returns the exit code."""
    more = [_principal(each) for each in names]
    try:
        folder = (into or directory / BROKER).absolute()
        broker = secured_broker(
            directory,
            more,
            into=folder,
            port=port,
            guests_port=guests_port,
            bind=bind,
            topic_prefixes=tuple(topic_prefixes) or ("",),
            owner=owner_of(folder),
        )
        if show:
            sys.stdout.write(f"{broker.text}\n# --- {folder / 'acl'}\n{broker.acl}")
        else:
            _explain(broker, broker.write(directory))
    except (ValueError, OSError) as error:
        raise CliError(str(error)) from error
    return EXIT_OK


def _explain(broker: SecuredBroker, written: Path) -> None:
    names = sorted(map(str, broker.principals))
    guests = f"port {broker.guests_port} for {', '.join(sorted(GUESTS))}"
    agents = any(each.kind is Role.NODE_AGENT for each in broker.principals)
    print(f"{written}: mutual TLS on {broker.bind}, port {broker.port}; {guests}")
    print(f"{broker.folder / 'acl'}: {len(names)} identities: {', '.join(names)}")
    if not agents:
        print("no node has an identity yet: piriscale certs DIRECTORY node_agent/NODE")
    if broker.vehicles:
        for vehicle in sorted(broker.vehicles - set(broker.topic_prefixes)):
            print(f"for people to look at {vehicle} here, over its bridge: --topic-prefix {vehicle}")
        for prefix in sorted(set(broker.topic_prefixes) - broker.vehicles - {""}):
            print(f"no bridge may speak below {prefix}/ yet: piriscale certs DIRECTORY bridge/{prefix}")
    if broker.owner == "root":
        print(
            f"it will run as root, since the user mosquitto does not reach {broker.folder}; --into another folder"
        )
    print(f"start it: mosquitto -c {written}; tell a running one of the change: kill -HUP its process id")
