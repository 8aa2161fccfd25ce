"""Who is there: reading the retained status topics of components without being fooled by a late will."""

from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus


def away(status: ComponentStatus) -> bool:
    """Whether the component cannot be reached."""
    return status.state in (ConnectionState.LOST, ConnectionState.DISCONNECTED)


def supersedes(known: ComponentStatus | None, said: ComponentStatus) -> bool:
    """Whether what is said of a component replaces what is known of it.

    The broker may publish the will of an earlier life after the birth of the present one: a `lost` of another
    boot_id than the known one is of the past, and so is the goodbye of an earlier one.
    """
    if known is None:
        return True
    if said.state is ConnectionState.LOST:
        return said.boot_id == known.boot_id
    return said.state is not ConnectionState.DISCONNECTED or said.boot_id >= known.boot_id
