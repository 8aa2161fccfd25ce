"""What only the real client can get wrong: sockets, threads, and a broker that hangs."""

import ctypes
import os
import resource
import signal
import socket
import statistics
import threading
import time
from dataclasses import replace
from typing import Final

import pytest

from broker import client as broker_client
from broker.bus import Identity, Subscription
from broker.connection import Connection
from broker.options import BrokerOptions
from schemas.codec import Frame
from tests.broker.proxy import PUBLISH
from tests.broker.started import UNIT, Started, bus_of, socket_of
from tests.broker.worlds import RealWorld
from tests.fixtures.broker import RunningBroker

LISTENER: Final = Identity("listener", (Subscription("#"),))


class TestLatency:
    def test_small_packets_leave_at_once(self, broker: RunningBroker, started: Started) -> None:
        client = started.client(broker, UNIT)
        client.wait_connected()
        assert socket_of(client).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def test_a_ping_pong_is_not_slowed_by_nagle_or_by_polling(
        self, broker: RunningBroker, started: Started
    ) -> None:
        one = started.client(broker, Identity("one", (Subscription("pong"),)))
        two = started.client(broker, Identity("two", (Subscription("ping"),)))
        one.wait_connected()
        two.wait_connected()
        times = []
        for number in range(1, 101):
            began = time.perf_counter()
            one.bus.publish(Frame("ping", b""))
            two.wait(lambda number=number: len(two.deliveries) == number)  # type: ignore[misc] # bound at once
            two.bus.publish(Frame("pong", b""))
            one.wait(lambda number=number: len(one.deliveries) == number)  # type: ignore[misc] # bound at once
            times.append(time.perf_counter() - began)
        assert statistics.median(times) < 0.02  # with Nagle it is above 0.04


class TestWindow:
    def test_after_a_reconnect_birth_and_repeated_frames_stay_within_it(self, real_world: RealWorld) -> None:
        listener = real_world.connect(LISTENER)
        listener.wait_connected()
        unit = real_world.connect(UNIT)
        unit.wait_connected()
        unit.round_trip()
        proxy = real_world.proxies["unit"]
        for _ in range(3):
            proxy.hold_acks()
            for number in range(50):
                unit.bus.publish(Frame("u", b"%d" % number))
            unit.wait(lambda: proxy.most_in_flight == 10)
            proxy.cut()
            connections = len(unit.connections)
            unit.wait(lambda connections=connections: proxy.connects > connections)  # type: ignore[misc] # at once
            proxy.release_acks()
            unit.wait(lambda connections=connections: len(unit.connections) > connections)  # type: ignore[misc]
        unit.bus.publish(Frame("u", b"end"))
        listener.wait(lambda: b"end" in [payload for _, payload in listener.messages])
        assert proxy.most_in_flight == 10
        with_a_will = [following for connect, following in proxy.openings if b"lost" in connect]
        assert with_a_will == [PUBLISH] * 4
        assert {payload for topic, payload in listener.messages if topic == "u"} >= {b"%d" % n for n in range(50)}


class TestNetworkThread:
    def test_whatever_kills_the_network_thread_costs_a_connection_only(
        self, broker: RunningBroker, started: Started
    ) -> None:
        client = started.client(broker, UNIT)
        client.wait_connected()
        for times in range(2, 5):
            thread = bus_of(client)._thread
            assert thread.ident is not None
            killed = ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
            assert ctypes.pythonapi.PyThreadState_SetAsyncExc(*killed) == 1
            client.bus.publish(Frame("t", b"wakes it"))
            client.wait_connected(times)
        client.bus.publish(Frame("t", b"alive"))
        client.wait(lambda: b"alive" in [payload for _, payload in client.messages])

    @pytest.mark.parametrize("broken", ["_mid_generate_mutex", "_in_packet"])
    def test_an_error_in_the_library_costs_a_connection_only(
        self, broker: RunningBroker, started: Started, broken: str
    ) -> None:
        client = started.client(broker, UNIT)
        client.wait_connected()
        connection = bus_of(client)._connection
        assert connection is not None
        setattr(connection._client, broken, None)
        assert client.bus.publish(Frame("t", b"kept"))
        client.wait_connected(2)
        client.wait_messages(b"kept")

    def test_stopping_while_deliveries_pour_in_never_looks_like_a_crash(
        self, broker: RunningBroker, started: Started
    ) -> None:
        listener = started.client(broker, Identity("listener", (Subscription("component/#"),)))
        listener.wait_connected()
        source = started.client(broker, Identity("source"))
        source.wait_connected()
        enough = threading.Event()

        def pour() -> None:
            while not enough.wait(0.001):
                source.bus.publish(Frame("t", bytes(2000), qos=0))

        pouring = threading.Thread(target=pour)
        pouring.start()
        try:
            for _ in range(10):
                unit = started.client(broker, replace(UNIT, persistent=False))
                unit.takes_s = 0.002
                unit.wait_connected()
                unit.wait(lambda unit=unit: len(unit.messages) > 20)  # type: ignore[misc] # bound at once
                unit.bus.stop(Frame("component/unit", b"gone", retain=True), drain_s=10)
        finally:
            enough.set()
            pouring.join()
        listener.wait(lambda: [payload for _, payload in listener.messages].count(b"gone") == 10)
        listener.round_trip()
        assert b"lost" not in [payload for _, payload in listener.messages]

    def test_a_frame_too_large_for_one_write_goes_out_without_waiting_for_the_next_event(
        self, broker: RunningBroker, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = started.client(broker, Identity("listener", (Subscription("large"),)))
        listener.wait_connected()
        monkeypatch.setattr(broker_client, "IDLE_S", 60.0)
        client = started.client(broker, UNIT)
        client.wait_connected()
        client.round_trip()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            for _ in range(10):
                client.bus.publish(Frame("large", bytes(2_000_000), qos=0))
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        listener.wait(lambda: len(listener.messages) == 10)


class TestWhatCannotBeWritten:
    def test_a_frame_that_paho_refuses_is_dropped_and_counted_and_the_next_goes_out(
        self, broker: RunningBroker, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = Connection.send

        def refusing(self: Connection, frame: Frame) -> int:
            if frame.payload == b"bad":
                raise ValueError("no such packet")
            return send(self, frame)

        monkeypatch.setattr(Connection, "send", refusing)
        client = started.client(broker, UNIT)
        client.wait_connected()
        for payload in (b"bad", b"good"):
            client.bus.publish(Frame("t", payload))
        client.wait(lambda: ("t", b"good") in client.messages)
        assert client.bus.counts.dropped_out == 1
        assert len(client.connections) == 1

    def test_a_bug_costs_the_connection_but_neither_the_caller_nor_the_frame(
        self, broker: RunningBroker, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, bugs = Connection.send, [RuntimeError("a bug")]

        def failing(self: Connection, frame: Frame) -> int:
            if frame.topic == "t" and bugs:
                raise bugs.pop()
            return send(self, frame)

        monkeypatch.setattr(Connection, "send", failing)
        client = started.client(broker, UNIT)
        client.wait_connected()
        client.bus.publish(Frame("t", b"kept"))
        client.wait(lambda: ("t", b"kept") in client.messages)
        assert client.bus.counts.dropped_out == 0
        assert len(client.connections) == 2


class TestTwoInstances:
    def test_of_two_that_start_at_the_same_time_one_stays(self, broker: RunningBroker, started: Started) -> None:
        births = [Frame("component/unit", b"born %d" % number, retain=True) for number in (1, 2)]
        rivals = [started.client(broker, replace(UNIT, birth=birth)) for birth in births]
        rivals[0].wait(lambda: any(event.fatal for each in rivals for event in each.disconnections))
        (winner,) = (each for each in rivals if not any(event.fatal for event in each.disconnections))
        winner.bus.publish(Frame("t", b"alive"))
        winner.wait(lambda: b"alive" in [payload for _, payload in winner.messages])


class TestHangingBroker:
    def test_it_is_noticed_and_left_and_found_again(self, broker: RunningBroker, started: Started) -> None:
        client = started.client(broker, UNIT, BrokerOptions(keepalive_s=1, connect_timeout_s=0.5))
        client.wait_connected()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            client.wait(lambda: len(client.disconnections) > 0)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        client.wait_connected(2)

    def test_publishing_to_it_neither_blocks_nor_burns_nor_piles_up(
        self, broker: RunningBroker, started: Started
    ) -> None:
        client = started.client(broker, UNIT, BrokerOptions(queue_bytes=2_000_000))
        client.wait_connected()
        frame = Frame("u", bytes(100_000), qos=0)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            for _ in range(300):
                client.bus.publish(frame)
            assert time.monotonic() - began < 5
            assert client.bus.counts.dropped_out > 0
            used = resource.getrusage(resource.RUSAGE_SELF)
            time.sleep(0.5)
            after = resource.getrusage(resource.RUSAGE_SELF)
            assert after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime < 0.25
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        client.bus.publish(Frame("t", b"after it woke"))
        client.wait_messages(b"after it woke")
        all_frames = 302  # with the birth
        client.wait(lambda: client.bus.counts.published + client.bus.counts.dropped_out == all_frames)

    def test_a_stop_does_not_wait_for_it(self, broker: RunningBroker, started: Started) -> None:
        client = started.client(broker, UNIT)
        client.wait_connected()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            client.bus.publish(Frame("t", b"in vain"))
            began = time.monotonic()
            client.bus.stop(Frame("component/unit", b"gone"), drain_s=0.2)
            assert time.monotonic() - began < 3
        finally:
            os.kill(broker.pid, signal.SIGCONT)
