"""What an agent keeps over its own death."""

import json
from pathlib import Path

import pytest

from components.node_agent.store import SLOTS, FileStore, StoreError

NOW = 1_700_000_000


def test_the_boot_number_grows_even_if_the_clock_goes_back(tmp_path: Path) -> None:
    assert FileStore(tmp_path).next_boot(NOW) == NOW
    assert FileStore(tmp_path).next_boot(NOW - 5000) == NOW + 1
    assert FileStore(tmp_path).next_boot(0) == NOW + 2
    assert FileStore(tmp_path).next_boot(NOW + 100) == NOW + 100


def test_an_unreadable_boot_file_is_logged_and_the_clock_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "boot").write_bytes(b"\xff\x00garbage")
    assert FileStore(tmp_path).next_boot(NOW) == NOW
    assert "counting from the clock" in caplog.text
    assert FileStore(tmp_path).next_boot(NOW) == NOW + 1, "and the file is whole again"


def test_a_boot_file_that_cannot_be_written_does_not_stop_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmp_path)
    (tmp_path / "boot.new").mkdir()
    assert store.next_boot(NOW) == NOW
    assert "the next boot may be taken for an old one" in caplog.text


def test_a_directory_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"node_agent\.state_dir"):
        FileStore(tmp_path / "file" / "agent")


def test_intents_outlive_the_agent(tmp_path: Path) -> None:
    first = FileStore(tmp_path)
    first.begin("a" * 64)
    first.begin("b" * 64)
    first.end("a" * 64)
    assert FileStore(tmp_path).pending() == ["b" * 64]


def test_an_intent_is_in_the_file_before_begin_returns(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.begin("a" * 64)
    assert json.dumps({"container": "a" * 64}).encode() in (tmp_path / "intents").read_bytes()


def test_slots_are_used_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for number in range(SLOTS + 5):
        store.begin(str(number))
        store.end(str(number))
    assert store.pending() == []
    assert (tmp_path / "intents").stat().st_size == SLOTS * 512


def test_too_many_open_ends_refuse_a_new_write(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for number in range(SLOTS):
        store.begin(str(number))
    with pytest.raises(StoreError, match="wait until some are settled"):
        store.begin("one more")
    store.end("7")
    store.begin("one more")


def test_a_spoilt_slot_is_logged_and_the_others_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FileStore(tmp_path)
    store.begin("a" * 64)
    store.begin("b" * 64)
    body = bytearray((tmp_path / "intents").read_bytes())
    body[0:4] = b"\x00\xff\x00\xff"
    (tmp_path / "intents").write_bytes(body)
    assert FileStore(tmp_path).pending() == ["b" * 64]
    assert "unreadable" in caplog.text


def test_ending_what_never_began_is_nothing(tmp_path: Path) -> None:
    FileStore(tmp_path).end("a" * 64)


def test_the_next_boot_is_above_one_that_others_know_of(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert store.next_boot(10) == 10
    assert store.outlive(2_000)
    store.close()

    again = FileStore(tmp_path)
    assert again.next_boot(10) == 2_001
    again.close()
