"""The synchronization states of a workload, and the one function that moves between them."""

from enum import Enum, auto
from typing import Final

from schemas.enums import SyncState


class SyncEvent(Enum):
    """What happens to the desired or the actual state of a workload."""

    RECORDED = auto()
    """A new desired state was recorded."""
    HANDED_OVER = auto()
    """The desired state went out to be applied."""
    CONFIRMED = auto()
    """The kernel shows the desired state."""
    DRIFTED = auto()
    """The kernel shows something else, though nobody of ours is at work."""
    REAPPEARED = auto()
    """What was not known is known again, and the kernel shows something else; nothing will be done about it."""
    FAILED = auto()
    """It could not be applied, or is not known."""
    RELEASED = auto()
    """Nobody asks for limits any more."""


class IllegalTransitionError(RuntimeError):
    """A rule asked for a change of state that has no meaning: a bug."""


_S, _E = SyncState, SyncEvent
_TRANSITIONS: Final = {
    **{(state, _E.RECORDED): _S.PENDING for state in SyncState},
    **{(state, _E.RELEASED): _S.UNKNOWN for state in SyncState},
    **{(state, _E.FAILED): _S.FAILED for state in SyncState},
    **{(state, _E.CONFIRMED): _S.SYNCHRONIZED for state in SyncState},
    (_S.PENDING, _E.HANDED_OVER): _S.APPLYING,
    (_S.APPLYING, _E.HANDED_OVER): _S.APPLYING,
    (_S.UNKNOWN, _E.DRIFTED): _S.DRIFT_DETECTED,
    (_S.SYNCHRONIZED, _E.DRIFTED): _S.DRIFT_DETECTED,
    (_S.DRIFT_DETECTED, _E.DRIFTED): _S.DRIFT_DETECTED,
    (_S.FAILED, _E.REAPPEARED): _S.DRIFT_DETECTED,
    (_S.FAILED, _E.DRIFTED): _S.FAILED,  # its cause was told already, and is not mended by a difference
}


def transition(state: SyncState, event: SyncEvent) -> SyncState:
    """Return the state after an event. Raises IllegalTransitionError when there is none."""
    try:
        return _TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(f"{event.name} cannot happen in {state}") from None
