"""A second instance with our client id, and how to tell it from a broken line.

A broker says so when it closes the older of two connections with one client id; but Mosquitto before 2.0.15 closes
it without a word, and the two instances then throw each other out for ever. So after a silent end we look, under
another client id, at the retained topic on which we say that we live: does somebody else speak there?
"""

from collections import deque
from typing import Final

from broker.bus import Delivery, Identity, Subscription
from schemas.codec import Frame

SETTLED_S: Final = 10.0
"""From then on a client is no newcomer."""
SILENT_ENDS_MAX: Final = 3
WORDS_MAX: Final = 64


def taken_over(client_id: str) -> str:
    """What to say when another connection with our client id pushed ours out."""
    return f"a second instance with the client id {client_id} took over this one's connection; stop one of the two"


class TakeoverWatch:
    """Says when to look, and knows our own words from another's. Works if the identity has a retained birth.

    Times are in seconds, of any one clock.
    """

    def __init__(self, identity: Identity) -> None:
        birth = identity.birth
        self._topic = birth.topic if birth is not None and birth.retain else None
        self._words = deque((each.payload for each in (birth, identity.will) if each), maxlen=WORDS_MAX)
        self._granted_first: float | None = None
        self._silent_ends = 0

    @property
    def subscription(self) -> Subscription | None:
        """Where to look; None: nowhere."""
        return Subscription(self._topic, qos=0) if self._topic is not None else None

    def said(self, frame: Frame) -> None:
        """We published this, with a topic as components know it."""
        if frame.topic == self._topic:
            self._words.append(frame.payload)

    def granted(self, now: float) -> None:
        """A connection stands, and so what we said on it."""
        if self._granted_first is None:
            self._granted_first = now

    def ended_silently(self, now: float) -> bool:
        """An accepted connection ended without a reason; True: it is time to look.

        The first instance is to give way. So a newcomer, which may be the second, first insists.
        """
        self._silent_ends += 1
        if self._granted_first is None:
            return False
        return now - self._granted_first >= SETTLED_S or self._silent_ends >= SILENT_ENDS_MAX

    def explained(self) -> None:
        """A try ended for a known reason."""
        self._silent_ends = 0

    def is_foreign(self, delivery: Delivery) -> bool:
        """Whether neither we, nor the broker for us, nor somebody who cleans up, said this."""
        return bool(delivery.payload) and delivery.payload not in self._words
