"""A second instance with our client id, and how to tell it."""

from typing import Final

from broker.backoff import STEADY_S

SUDDEN_ENDS_MAX: Final = 3


def taken_over(client_id: str) -> str:
    """What to say when another connection with our client id pushed ours out."""
    return f"a second instance with the client id {client_id} took over this one's connection; stop one of the two"


class TakeoverWatch:
    """Tells a second instance with our client id from a broken line, where the broker does not say it.

    Mosquitto before 2.0.15 closes the older of two connections with one client id without a word, and the two
    instances then throw each other out for ever. From the outside that looks like nothing else: connections that
    the broker accepts and soon closes silently, one after the other, without ever being away in between.
    """

    def __init__(self) -> None:
        self._sudden_ends = 0

    def closed_silently(self, stood_s: float) -> bool:
        """An accepted connection ended without a reason; True: it must be a second instance."""
        self._sudden_ends = 1 if stood_s >= STEADY_S else self._sudden_ends + 1
        return self._sudden_ends >= SUDDEN_ENDS_MAX

    def explained(self) -> None:
        """A try ended for a known reason: the suspicion is gone."""
        self._sudden_ends = 0
