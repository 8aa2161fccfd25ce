"""What the Mosquitto of this machine was told in its configuration, for what a broker says to nobody."""

import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from broker.configuration import is_loopback
from components.cli.doctor.finding import Finding, note, ok, wrong

_log = logging.getLogger(__name__)

AREA: Final = "storing"
QUEUE_MIN: Final = 10_000
"""Messages for one client that is away: some hours of a fleet's requests."""
QUEUE_BYTES_MIN: Final = 16 * 2**20
AUTOSAVE_S_MAX: Final = 60
_DEFAULTS: Final = {
    "persistence": "false",
    "autosave_interval": "1800",
    "autosave_on_changes": "false",
    "max_queued_messages": "1000",
    "max_queued_bytes": "0",
}


@dataclass(frozen=True)
class Configured:
    """A running Mosquitto: its configuration file, if it has one, and the last value of each option."""

    file: Path | None
    options: dict[str, str]

    def get(self, option: str) -> str:
        """What is in force."""
        return self.options.get(option, _DEFAULTS[option])

    def number(self, option: str) -> int:
        """The same, of an option that is a number; 0, which means unlimited or never, if it is none."""
        value = self.get(option)
        return int(value) if value.isdigit() else 0


def check_configuration(host: str, port: int) -> list[Finding]:
    """Whether the broker keeps what it took over its own end."""
    configured = running_at(host, port)
    if configured is None:
        text = "whether the broker keeps messages over a restart cannot be seen from here"
        return [note(AREA, text, "see that mosquitto.conf there says: persistence true, autosave_interval 10")]
    return judge(configured)


def judge(configured: Configured) -> list[Finding]:
    """What it was told, or not told."""
    where = f"in {configured.file or 'a configuration file (it has none)'} and restart the broker"
    findings = []
    if configured.get("persistence") != "true":
        text = "the broker keeps nothing over a restart: what waits and what is retained is lost"
        findings.append(wrong(AREA, text, f"set persistence true and autosave_interval 10 {where}"))
    elif configured.get("autosave_on_changes") != "true" and (
        not 0 < (interval_s := configured.number("autosave_interval")) <= AUTOSAVE_S_MAX
    ):
        how = f"every {interval_s} s" if interval_s else "at its orderly end"
        text = f"the broker saves {how} only: killed, it forgets all since"
        findings.append(wrong(AREA, text, f"set autosave_interval 10 {where}"))
    for option, least in (("max_queued_messages", QUEUE_MIN), ("max_queued_bytes", QUEUE_BYTES_MIN)):
        if 0 < (value := configured.number(option)) < least:
            text = f"{option} is {value}: what is above that for one who is away is dropped"
            findings.append(wrong(AREA, text, f"set {option} to {least} or more {where}"))
    return findings or [ok(AREA, f"{configured.file} keeps messages over a restart, and enough of them")]


def running_at(host: str, port: int) -> Configured | None:
    """The Mosquitto that listens there; None when it is none, elsewhere, or hidden from this user."""
    if not _is_here(host):
        return None
    try:
        pids = {
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port and each.pid
        }
        for pid in pids:
            process = psutil.Process(pid)
            if process.name() == "mosquitto":
                return _read(process.cmdline(), Path(process.cwd()))
    except (psutil.Error, OSError) as error:
        _log.debug("who listens on port %d cannot be told: %s", port, error)
    return None


def _is_here(host: str) -> bool:
    if is_loopback(host):
        return True
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    try:
        return bool(own & {str(info[4][0]) for info in socket.getaddrinfo(host, None)})
    except OSError:
        return False


def _read(command: list[str], folder: Path) -> Configured | None:
    """From its command line; None when the file may not be read."""
    names = [value for flag, value in pairwise(command) if flag in ("-c", "--config-file")]
    if not names:
        return Configured(None, {})
    file = folder / names[0]
    return Configured(file, dict(_options(file, folder)))


def _options(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Option and value of each line, those of included folders in their place; the last of an option counts.

    As Mosquitto does, which includes from its main file only, and by names in which case hardly counts.
    """
    for option, value in _lines(file):
        yield option, value
        if option == "include_dir":
            pieces = (folder / value).glob("*.conf")
            for piece in sorted(pieces, key=lambda each: (each.name.upper(), each.name)):
                yield from _lines(piece)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split(maxsplit=1)
        if len(words) == 2 and not words[0].startswith("#"):
            yield words[0], words[1].strip()
