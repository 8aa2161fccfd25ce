"""Who is there, told from retained status topics."""

import pytest

from components.presence import supersedes
from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus


def said(state: ConnectionState, boot_id: int) -> ComponentStatus:
    return ComponentStatus(component="node_agent", instance="hpc-1", state=state, boot_id=boot_id)


@pytest.mark.parametrize(
    ("known", "news", "counts"),
    [
        (None, said(ConnectionState.LOST, 1), True),
        (said(ConnectionState.READY, 2), said(ConnectionState.LOST, 2), True),
        (said(ConnectionState.READY, 2), said(ConnectionState.LOST, 1), False),
        (said(ConnectionState.READY, 2), said(ConnectionState.INIT, 3), True),
        (said(ConnectionState.LOST, 2), said(ConnectionState.READY, 2), True),
    ],
    ids=["unknown", "its-own-will", "will-of-an-earlier-life", "restarted", "back-again"],
)
def test_only_a_will_of_another_life_is_ignored(
    known: ComponentStatus | None, news: ComponentStatus, *, counts: bool
) -> None:
    assert supersedes(known, news) is counts
