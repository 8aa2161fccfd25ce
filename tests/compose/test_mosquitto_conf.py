"""The broker of compose.yaml keeps messages as the one that `piriscale up` starts: both are written down apart."""

from pathlib import Path

import pytest

from broker.configuration import MosquittoConfiguration

MOSQUITTO = Path(__file__).parents[2] / "compose" / "mosquitto"
PLACES = {"listener", "persistence_location", "include_dir", "per_listener_settings"}
"""Options that say where things are; they differ, and may."""
OF_MESSAGES = {
    "persistence",
    "autosave_interval",
    "max_queued_messages",
    "max_queued_bytes",
    "max_inflight_messages",
    "persistent_client_expiration",
    "max_packet_size",
}


def options(text: str) -> set[tuple[str, str]]:
    """Every option with its value, but for those that say where things are."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {(name, value) for name, value in lines if name not in PLACES}


MANAGED = options(MosquittoConfiguration().text(Path("/data")))
COMPOSED = options("\n".join((MOSQUITTO / name).read_text() for name in ("mosquitto.conf", "open/listener.conf")))


@pytest.mark.parametrize("option", sorted(OF_MESSAGES))
def test_both_lose_and_keep_the_same_messages(option: str) -> None:
    """Mosquitto's default would take the place of a line that is missing in either, and lose messages."""
    assert option in dict(MANAGED)
    assert {value for name, value in COMPOSED if name == option} == {dict(MANAGED)[option]}


def test_nothing_else_is_set_in_one_of_them_only() -> None:
    """Two brokers with different options are two systems, of which one was tried."""
    assert sorted(COMPOSED) == sorted(MANAGED)
