"""What each reason means, in words for people. The numbers are in the message beside it."""

from typing import Final

from schemas.enums import Reason

MEANING: Final[dict[Reason, str]] = {
    Reason.INSUFFICIENT_CPU: "The node has not enough free CPU at this moment.",
    Reason.INSUFFICIENT_MEMORY: "The node has not enough free memory at this moment.",
    Reason.INFEASIBLE: "This can never be granted here: the node is too small, or its maximum lower.",
    Reason.INVALID_TARGET: "The limits that were asked for make no sense.",
    Reason.UNSUPPORTED: "This limit cannot be changed while a container runs, or not on this node.",
    Reason.UNKNOWN_NODE: "No node of this name is known.",
    Reason.UNKNOWN_WORKLOAD: "No container of this name is known on the node.",
    Reason.NOT_RUNNING: "The container does not run.",
    Reason.BELOW_USAGE: "The container uses more memory than it would be left with.",
    Reason.PARENT_LIMIT: "The container's pod or slice has a lower limit.",
    Reason.RUNTIME_ERROR: "Podman could not do it.",
    Reason.RUNTIME_TIMEOUT: "Podman did not answer in time.",
    Reason.VERIFY_FAILED: "The kernel enforces something else than what was asked for.",
    Reason.PARTIAL: "Some of the limits were changed, others not.",
    Reason.NODE_UNAVAILABLE: "The node's agent cannot be reached.",
    Reason.QUERY_FAILED: "The node's agent could not tell what is in force.",
    Reason.STORAGE_ERROR: "The ledger cannot be written, so nothing is granted.",
    Reason.SUPERSEDED: "A newer action took its place.",
    Reason.EXPIRED: "It came too late: the agent or the reservation is not the same any more.",
    Reason.OVERLOADED: "Another action is under way on this workload.",
    Reason.COOLDOWN: "It was scaled a moment ago; its effect is awaited first.",
    Reason.AT_MAXIMUM: "It has the maximum that its policy allows.",
    Reason.NO_BOTTLENECK: "Neither CPU nor memory is near its limit, so more of them would not help.",
    Reason.UNLIMITED: "It has no limit, so there is nothing to raise.",
    Reason.NO_DATA: "Its use or its limits are not known at this moment.",
    Reason.PAUSED: "Automatic scaling is paused.",
}
"""One sentence each."""
