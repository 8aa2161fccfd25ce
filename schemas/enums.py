"""The closed vocabularies of the wire. Names and values are part of the contract."""

from enum import StrEnum


class Reason(StrEnum):
    """Why something was refused, failed or not done. The message beside it carries the numbers."""

    INSUFFICIENT_CPU = "INSUFFICIENT_CPU"
    INSUFFICIENT_MEMORY = "INSUFFICIENT_MEMORY"
    INFEASIBLE = "INFEASIBLE"
    INVALID_TARGET = "INVALID_TARGET"
    UNSUPPORTED = "UNSUPPORTED"
    UNKNOWN_NODE = "UNKNOWN_NODE"
    UNKNOWN_WORKLOAD = "UNKNOWN_WORKLOAD"
    NOT_RUNNING = "NOT_RUNNING"
    BELOW_USAGE = "BELOW_USAGE"
    PARENT_LIMIT = "PARENT_LIMIT"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    RUNTIME_TIMEOUT = "RUNTIME_TIMEOUT"
    VERIFY_FAILED = "VERIFY_FAILED"
    PARTIAL = "PARTIAL"
    NODE_UNAVAILABLE = "NODE_UNAVAILABLE"
    QUERY_FAILED = "QUERY_FAILED"
    STORAGE_ERROR = "STORAGE_ERROR"
    SUPERSEDED = "SUPERSEDED"
    EXPIRED = "EXPIRED"
    OVERLOADED = "OVERLOADED"
    COOLDOWN = "COOLDOWN"
    AT_MAXIMUM = "AT_MAXIMUM"
    NO_BOTTLENECK = "NO_BOTTLENECK"
    UNLIMITED = "UNLIMITED"
    NO_DATA = "NO_DATA"
    PAUSED = "PAUSED"


class SyncState(StrEnum):
    """How the desired and the actual limits of a workload relate (ResourceSyncState)."""

    UNKNOWN = "UNKNOWN"
    PENDING = "PENDING"
    APPLYING = "APPLYING"
    SYNCHRONIZED = "SYNCHRONIZED"
    DRIFT_DETECTED = "DRIFT_DETECTED"
    FAILED = "FAILED"


class UpdateState(StrEnum):
    """How one update of a container went, as its NodeAgent tells it (ResourceUpdateState)."""

    UNKNOWN = "UNKNOWN"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class TaskState(StrEnum):
    """State of a scaling action, owned by ActionController."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class Phase(StrEnum):
    """Step of a scaling action."""

    ACCEPTED = "accepted"
    WAITING = "waiting"
    VALIDATING = "validating"
    RECORDING = "recording"
    UPDATING = "updating"
    CONFIRMING = "confirming"
    DONE = "done"


class ActionOutcome(StrEnum):
    """How a scaling action ended."""

    COMPLETED = "COMPLETED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    INCONSISTENT = "INCONSISTENT"


class EventOutcome(StrEnum):
    """What came of a performance event."""

    NOT_REQUIRED = "NOT_REQUIRED"
    COMPLETED = "COMPLETED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    INCONSISTENT = "INCONSISTENT"


class PerfStatus(StrEnum):
    """What a performance event says of a workload."""

    DEGRADED = "DEGRADED"
    RECOVERED = "RECOVERED"


class CauseType(StrEnum):
    """Who or what asked for a scaling action."""

    PERF = "PERF"
    CLI = "CLI"
    EXTERNAL = "EXTERNAL"
    RECONCILE = "RECONCILE"
    RESTORE = "RESTORE"


class ReconcileCause(StrEnum):
    """What made ResourceManager restore a desired state."""

    UPDATE = "UPDATE"
    PERIODIC = "PERIODIC"
    AGENT_START = "AGENT_START"
    CONTAINER_START = "CONTAINER_START"
    ROLLBACK = "ROLLBACK"
    STARTUP = "STARTUP"


class SnapshotTrigger(StrEnum):
    """Why a NodeAgent published its snapshot."""

    START = "START"
    PERIODIC = "PERIODIC"
    UPDATE = "UPDATE"
    CONTAINER = "CONTAINER"


class DesiredOperation(StrEnum):
    """What ActionController asks of the desired state."""

    RECORD = "RECORD"
    ABANDON = "ABANDON"


class UpdateResult(StrEnum):
    """What ActionController reports of an update to ResourceManager."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"


class Verdict(StrEnum):
    """ResourceManager's judgement of a report; SYNCHRONIZED and FAILED are final."""

    SYNCHRONIZED = "SYNCHRONIZED"
    RETRY = "RETRY"
    FAILED = "FAILED"


class OnShortage(StrEnum):
    """What becomes of an action for which there is no room now."""

    REJECT = "reject"
    WAIT = "wait"


class ConnectionState(StrEnum):
    """State of a component as its retained status topic tells it; `lost` is said by the broker (the will)."""

    INIT = "init"
    READY = "ready"
    DISCONNECTED = "disconnected"
    LOST = "lost"
