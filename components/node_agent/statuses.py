"""Requests for what is in force, and their answers."""

from typing import Final

from components.component import Call, Instant, Output
from components.node_agent.observe import Observation, Observer, Unseen
from components.node_agent.reporter import Reporter
from components.node_agent.work import StatusRead, StatusWork
from schemas.codec import BadRequest
from schemas.enums import Reason
from schemas.message import Wire
from schemas.node import ContainerReport, RuntimeStatus, StatusReply, StatusRequest

OPEN_MAX: Final = 16


class Statuses:
    """Bounded in what is open. A look has no effect, so a repeated request may be answered afresh."""

    def __init__(self, node: str, boot_id: int, observer: Observer, reporter: Reporter) -> None:
        self._node = node
        self._boot_id = boot_id
        self._observer = observer
        self._reporter = reporter
        self._open: set[str] = set()

    def request(self, request: StatusRequest, now: Instant) -> list[Output]:
        """Look, unless the same request is being answered, or too many are."""
        if request.id in self._open:
            return []
        if len(self._open) >= OPEN_MAX:
            text = f"{OPEN_MAX} requests are being answered already; ask again"
            return [self._failure(request.id, request.wire, Reason.OVERLOADED, text)]
        self._open.add(request.id)
        return [Call("status", StatusWork(request, now.monotonic, self._observer))]

    def read(self, read: StatusRead, now: Instant) -> list[Output]:
        """The answer."""
        request = read.request
        self._open.discard(request.id)
        if isinstance(read.seen, Unseen):
            return [self._failure(request.id, request.wire, read.seen.reason, read.seen.text)]
        return [self._answer(request, read.seen, self._reporter.reports(read.seen, read.asked_at, now.epoch_ms))]

    def _answer(self, request: StatusRequest, seen: Observation, reports: list[ContainerReport]) -> StatusReply:
        fitting = self._reporter.fitting(reports)
        message = seen.problem or ""
        if len(fitting) < len(reports):
            message = f"only {len(fitting)} of {len(reports)} containers fit into one message; ask for single ones"
        status = None
        if request.workload_id is not None and reports:
            actual = reports[0].actual
            status = RuntimeStatus(
                cpu_limit=None if actual is None else actual.cpu_limit,
                memory_limit=None if actual is None else actual.memory_limit,
                runtime_id=reports[0].runtime_id,
            )
            if actual is None:
                message = f"{reports[0].workload_id} does not run, so no limits are in force"
        return StatusReply(
            in_reply_to=request.id,
            node=self._node,
            success=True,
            message=message[:4096],
            boot_id=self._boot_id,
            seq=seen.seq,
            containers=tuple(fitting),
            status=status,
            wire=request.wire,
        )

    def bad(self, bad: BadRequest) -> StatusReply:
        """The answer to a request that makes no sense."""
        return self._failure(bad.identity["id"], bad.wire, bad.reason, bad.text)

    def crashed(self, work: StatusWork, error: Exception) -> StatusReply:
        """The answer after a bug."""
        self._open.discard(work.request.id)
        return self.failed(work.request, error)

    def failed(self, request: StatusRequest, error: Exception) -> StatusReply:
        """The answer to a request whose handling keeps failing."""
        text = f"the agent failed at it: {type(error).__name__}: {error}; see its log"
        return self._failure(request.id, request.wire, Reason.QUERY_FAILED, text)

    def _failure(self, request_id: str, wire: Wire | None, reason: Reason, text: str) -> StatusReply:
        return StatusReply(
            in_reply_to=request_id,
            node=self._node,
            success=False,
            reason=reason,
            message=text[:4096],
            boot_id=self._boot_id,
            wire=wire,
        )
