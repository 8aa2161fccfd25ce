"""What the contract tests say: short ways to write identities and frames."""

from typing import Final

from broker.bus import Identity, Subscription
from schemas.codec import Frame

WILL: Final = Frame("component/unit/main", b"lost", retain=True)
BIRTH: Final = Frame("component/unit/main", b"born", retain=True)
LAST: Final = Frame("component/unit/main", b"gone", retain=True)


def who(client_id: str, *filters: str, persistent: bool = False, will: bool = False) -> Identity:
    return Identity(
        client_id,
        tuple(Subscription(each) for each in filters),
        persistent,
        will=WILL if will else None,
        birth=BIRTH if will else None,
    )


def frame(topic: str, payload: bytes | str | int, *, qos: int = 1, retain: bool = False) -> Frame:
    return Frame(topic, payload if isinstance(payload, bytes) else str(payload).encode(), qos, retain)


def numbers(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last + 1)]
