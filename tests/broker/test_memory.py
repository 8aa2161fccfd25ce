"""What a simulator relies on in the in-process twin: all at once, in an order that is always the same."""

from broker.bus import BusEvent, Connected, Deliver, Delivery, Disconnected, Identity, Subscription
from broker.memory import MemoryBroker, MemoryBus
from schemas.codec import Frame


class Echo:
    """Acknowledges at once and, while deliveries are made, publishes what comes on `in` again on `out`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.seen: list[str] = []
        identity = Identity("echo", (Subscription("in"), Subscription("out")))
        self.bus = MemoryBus(broker, identity, self._deliver)

    def _deliver(self, event: BusEvent) -> bool:
        if isinstance(event, Delivery):
            self.seen.append(f"{event.topic} {event.payload.decode()}")
            self.bus.ack(event)
            if event.topic == "in":
                self.bus.publish(Frame("out", event.payload))
                self.seen.append(f"done {event.payload.decode()}")
        return True


def keep_in(events: list[BusEvent]) -> Deliver:
    def deliver(event: BusEvent) -> bool:
        events.append(event)
        return True

    return deliver


def test_what_a_delivery_causes_comes_after_it_and_not_inside_it() -> None:
    broker = MemoryBroker()
    echo = Echo(broker)
    echo.bus.start()
    echo.bus.publish(Frame("in", b"1"))
    echo.bus.publish(Frame("in", b"2"))
    assert echo.seen == ["in 1", "done 1", "out 1", "in 2", "done 2", "out 2"]


def test_a_stopped_broker_is_awaited_and_said_once() -> None:
    broker = MemoryBroker()
    broker.stop()
    events: list[BusEvent] = []
    bus = MemoryBus(broker, Identity("unit"), keep_in(events))
    bus.start()
    broker.stop()
    broker.start()
    assert [type(event) for event in events] == [Disconnected, Connected]


def test_a_dropped_client_stays_away_over_a_restart_of_the_broker() -> None:
    broker = MemoryBroker()
    events: list[BusEvent] = []
    bus = MemoryBus(broker, Identity("unit"), keep_in(events))
    bus.start()
    broker.drop("unit")
    broker.stop()
    broker.start()
    assert [type(event) for event in events] == [Connected, Disconnected]
    broker.reconnect("unit")
    assert [type(event) for event in events] == [Connected, Disconnected, Connected]


def test_forgetting_everything_leaves_no_session_and_nothing_retained() -> None:
    broker = MemoryBroker()
    events: list[BusEvent] = []
    identity = Identity("unit", (Subscription("state"),), persistent=True)
    bus = MemoryBus(broker, identity, keep_in(events))
    bus.start()
    bus.publish(Frame("state", b"kept", retain=True))
    assert broker.retained == {"state": Frame("state", b"kept", retain=True)}
    broker.forget_everything()
    assert not broker.retained
    assert events[-1] == Connected(2, session_present=False)


def test_the_number_of_frames_in_flight_can_be_watched() -> None:
    broker = MemoryBroker()
    bus = MemoryBus(broker, Identity("unit"), lambda _event: True)
    bus.start()
    broker.hold_acks("unit")
    for _ in range(30):
        bus.publish(Frame("t", b""))
    assert bus.in_flight == 10
    broker.release_acks("unit")
    assert bus.in_flight == 0
    assert bus.counts.published == 30
