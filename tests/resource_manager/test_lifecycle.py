"""The synchronization state moves only as the lifecycle says."""

import itertools

import pytest

from components.resource_manager.lifecycle import IllegalTransitionError, SyncEvent, transition
from schemas.enums import SyncState

S, E = SyncState, SyncEvent

ALWAYS = {E.RECORDED: S.PENDING, E.RELEASED: S.UNKNOWN, E.FAILED: S.FAILED, E.CONFIRMED: S.SYNCHRONIZED}
SOMETIMES = {
    (S.PENDING, E.HANDED_OVER): S.APPLYING,
    (S.APPLYING, E.HANDED_OVER): S.APPLYING,
    (S.UNKNOWN, E.DRIFTED): S.DRIFT_DETECTED,
    (S.SYNCHRONIZED, E.DRIFTED): S.DRIFT_DETECTED,
    (S.DRIFT_DETECTED, E.DRIFTED): S.DRIFT_DETECTED,
    (S.FAILED, E.DRIFTED): S.FAILED,
    (S.FAILED, E.REAPPEARED): S.DRIFT_DETECTED,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(SyncState, SyncEvent)))
def test_every_event_leads_where_the_lifecycle_says_or_is_a_bug(state: SyncState, event: SyncEvent) -> None:
    expected = ALWAYS.get(event) or SOMETIMES.get((state, event))
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=event.name):
            transition(state, event)
    else:
        assert transition(state, event) is expected


def test_an_update_under_way_is_never_called_drift() -> None:
    for state in (S.PENDING, S.APPLYING):
        with pytest.raises(IllegalTransitionError):
            transition(state, E.DRIFTED)
