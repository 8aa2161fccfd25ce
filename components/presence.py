"""Who is there: reading the retained status topics of components without being fooled by a late will."""

from schemas.enums import ConnectionState
from schemas.operations import ComponentStatus


def supersedes(known: ComponentStatus | None, said: ComponentStatus) -> bool:
    """Whether what is said of a component replaces what is known of it.

    The broker may publish the will of an earlier life after the birth of the present one: a `lost` of another
    boot_id than the known one is of the past.
    """
    if known is None or said.state is not ConnectionState.LOST:
        return True
    return said.boot_id == known.boot_id
