"""`status` knows from journals on this machine what the broker does not keep: waiting actions, and all pauses."""

from pathlib import Path

import pytest

from components.action_controller.journal import Journal as Inbox
from components.cli.journals import add_journals
from components.overview.attention import attention
from components.overview.overview import Overview
from components.pauses import Pause
from components.policy_manager.journal import Journal as Decisions
from components.settings import Settings, load_settings
from schemas.codec import Frame, encode
from schemas.scaling import ScalingControl
from tests.cli.fleet import NOW_MS, action, picture, well
from tests.cli.system import Configuration, configuration, publish
from tests.fixtures.broker import RunningBroker

PART = ScalingControl(paused=False, node="hpc-1")


def open_action(folder: Path, accepted_ms: int = NOW_MS - 9_000) -> None:
    inbox = Inbox(folder / "action_controller.sqlite3")
    inbox.accept(action("cam"), accepted_ms)
    inbox.close()


def paused(folder: Path, *pauses: Pause) -> None:
    decisions = Decisions(folder / "policy_manager.sqlite3")
    decisions.pause(pauses)
    decisions.close()


def settings_of(folder: Path, url: str = "mqtt://127.0.0.1:1") -> Settings:
    return load_settings(configuration(folder, url=url).path)


def needs(seen: Overview, settings: Settings) -> list[str]:
    add_journals(seen, settings)
    return [need.text for need in attention(seen, NOW_MS)]


def test_an_action_that_waits_is_seen_by_who_comes_late(tmp_path: Path) -> None:
    open_action(tmp_path)

    (text,) = needs(picture(well("hpc-1")), settings_of(tmp_path))

    assert text == "an action for cam on hpc-1 waits for 9 s: accepted, and not ended"


def test_a_general_pause_before_a_word_about_a_part_is_not_all_is_well(tmp_path: Path) -> None:
    paused(tmp_path, Pause(True), Pause(False, "hpc-1"))

    (text,) = needs(picture([*well("hpc-1"), PART]), settings_of(tmp_path))

    assert "paused everywhere, except on hpc-1" in text


def test_a_word_about_a_part_alone_is_all_is_well_when_the_journal_says_so(tmp_path: Path) -> None:
    paused(tmp_path)

    assert needs(picture([*well("hpc-1"), PART]), settings_of(tmp_path)) == []


def test_a_word_that_policy_manager_has_not_heard_yet_counts(tmp_path: Path) -> None:
    paused(tmp_path)
    said = ScalingControl(paused=True, node="hpc-1")

    (text,) = needs(picture([*well("hpc-1"), said]), settings_of(tmp_path))

    assert "paused on hpc-1" in text


def test_without_journals_the_picture_says_what_it_does_not_know(tmp_path: Path) -> None:
    (text,) = needs(picture([*well("hpc-1"), PART]), settings_of(tmp_path))

    assert "an earlier pause" in text


def test_a_journal_that_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    for name in ("action_controller", "policy_manager"):
        (tmp_path / f"{name}.sqlite3").write_text("this is no database, but long enough to look like one" * 50)

    (text,) = needs(picture([*well("hpc-1"), PART]), settings_of(tmp_path))

    assert "an earlier pause" in text


def test_journals_where_they_are_by_default_are_not_those_of_a_distant_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.cli.assembly.state_directory", lambda: tmp_path)
    open_action(tmp_path)
    path = tmp_path / "other.toml"
    seen = {}
    for url in ("mqtt://127.0.0.1:1", "mqtt://vehicle.example:1883"):
        path.write_text(f'[broker]\nurl = "{url}"\n')
        seen[url] = needs(picture(well("hpc-1")), load_settings(path))

    assert len(seen["mqtt://127.0.0.1:1"]) == 1
    assert seen["mqtt://vehicle.example:1883"] == []


def test_status_shows_all_of_it(alone: Configuration, broker: RunningBroker, tmp_path: Path) -> None:
    open_action(tmp_path, 1_700_000_000_000)
    paused(tmp_path, Pause(True), Pause(False, "hpc-1"))
    messages = [encode(message) for message in (*well("hpc-1"), PART)]
    publish(broker.port, *messages)
    try:
        shown = alone.cli("status").stdout
    finally:
        publish(broker.port, *(Frame(one.topic, b"", retain=True) for one in messages))

    assert shown.startswith("✗ 2 things need attention\n")
    assert "cam on hpc-1 waits for" in shown
    assert "paused everywhere, except on hpc-1" in shown
    assert "3000m" in shown
