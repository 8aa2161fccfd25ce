"""`tail`: what passes, decoded."""

import json
import signal
import threading
from pathlib import Path

import pytest

from broker.plain import PlainClient
from schemas.codec import pack
from schemas.message import Wire
from tests.cli.system import Child, Configuration, configuration
from tests.fixtures.broker import RunningBroker, running_broker

ACTION = {"action_id": "a-1", "node": "hpc-1", "workload_id": "cam", "target": {"cpu_limit": 2000}, "more": True}


class Speaker:
    """Says the same messages again and again, until it is left: a listener may come late."""

    def __init__(self, broker: RunningBroker, *messages: tuple[str, bytes]) -> None:
        self._client = PlainClient(broker.host, broker.port, "speaker")
        self._messages = messages
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._speak)

    def _speak(self) -> None:
        while not self._done.wait(0.02):
            for topic, payload in self._messages:
                self._client.publish(topic, payload, 1)

    def __enter__(self) -> None:
        self._client.__enter__()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._client.__exit__(None, None, None)


def lines_of(child: Child, count: int) -> list[str]:
    lines = [child.read_line() for _ in range(count)]
    assert child.end(signal.SIGINT) == 0, child.err
    assert "Traceback" not in child.err
    return lines


def test_messages_are_shown_decoded_with_fields_of_the_future_and_without_debug(
    alone: Configuration, broker: RunningBroker
) -> None:
    said = (("debug/scaling/action", b"{}"), ("scaling/action", pack(ACTION, Wire.MSGPACK)))

    with Speaker(broker, *said), alone.child("tail") as child:
        lines = [line for line in lines_of(child, 30) if "(retained)" not in line]  # the broker is shared

    assert len(lines) >= 3
    for line in lines:
        assert " scaling/action action_id=a-1 node=hpc-1" in line
        assert 'target={"cpu_limit": 2000} more=true' in line
        assert "\x1b[" not in line


def test_as_json_every_line_is_an_object_and_rubbish_says_how_it_begins(
    alone: Configuration, broker: RunningBroker
) -> None:
    said = (
        ("scaling/action", pack(ACTION, Wire.JSON)),
        ("scaling/status", b"\xc1rubbish"),
        ("scaling/time", b"\x81\xa1a\xd6\xff\x00\x00\x00\x01"),
        ("scaling/deleted", b""),
    )

    with Speaker(broker, *said), alone.child("tail", "scaling/#", "--json") as child:
        documents = [json.loads(line) for line in lines_of(child, 8)]

    by_topic = {document["topic"]: document["message"] for document in documents}
    assert by_topic["scaling/action"] == ACTION
    assert by_topic["scaling/status"]["unreadable"] is True
    assert by_topic["scaling/status"]["head"] == b"\xc1rubbish".hex()
    assert by_topic["scaling/time"]["unreadable"] is True, "a time stamp of MessagePack, which has no JSON"
    assert by_topic["scaling/deleted"] is None


def test_debug_is_shown_when_it_is_asked_for(alone: Configuration, broker: RunningBroker) -> None:
    said = (("debug/scaling/action", b'{"a": 1}'), ("scaling/action", b'{"b": 2}'))

    with Speaker(broker, *said), alone.child("tail", "debug/#") as child:
        assert "debug/scaling/action a=1" in lines_of(child, 1)[0]


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a+/b", "a/b#"])
def test_what_is_no_filter_is_a_mistake(alone: Configuration, pattern: str) -> None:
    result = alone.cli("tail", pattern)

    assert result.exit_code == 2
    assert "topic filter" in result.stderr


def test_a_broker_that_goes_and_comes_is_told(tmp_path: Path) -> None:
    with running_broker() as own:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{own.port}")
        with settings.child("tail", "--json") as child:
            with Speaker(own, ("scaling/action", pack(ACTION, Wire.MSGPACK))):
                child.read_line()
            own.kill()
            gone = child.read_error()
            own.start()
            back = child.read_error()
            assert child.end(signal.SIGINT) == 0

    assert gone.startswith("piriscale: ")
    assert back == "piriscale: connected again\n"


def test_a_broker_that_goes_and_comes_ends_nothing_though_nobody_reads_of_it(tmp_path: Path) -> None:
    said = ("scaling/action", pack(ACTION, Wire.MSGPACK))
    with running_broker() as own:
        settings = configuration(tmp_path, url=f"mqtt://127.0.0.1:{own.port}")
        with settings.child("tail", "--json") as child:
            with Speaker(own, said):
                child.read_line()
            child.close_errors()
            own.kill()
            own.start()
            with Speaker(own, ("scaling/later", said[1])):
                while (line := child.read_line()) and "scaling/later" not in line:
                    pass
            code = child.end(signal.SIGINT)

    assert "scaling/later" in line, "it has ended"
    assert code == 0


def test_a_reader_who_has_seen_enough_ends_it_without_a_trace(alone: Configuration, broker: RunningBroker) -> None:
    with Speaker(broker, ("scaling/action", pack(ACTION, Wire.MSGPACK))), alone.child("tail", "--json") as child:
        child.read_line()
        child.close_output()
        code = child.finish()

    assert code == 0
    assert child.err == ""
