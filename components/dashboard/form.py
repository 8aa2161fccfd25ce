"""The form on the page: what a person wrote, and the action it means."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.enums import CauseType, OnShortage
from schemas.limits import Limits
from schemas.message import NAME_PATTERN
from schemas.scaling import Cause, ScalingAction
from schemas.units import parse_cpu, parse_memory

WAIT_MAX_S: Final = 3600.0

_Quantity = Annotated[str, Field(max_length=32)]


class FormError(ValueError):
    """The form cannot be meant; the text says what to write."""


class ScaleForm(BaseModel):
    """As the browser sends it; empty texts are not asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: Annotated[str, Field(pattern=NAME_PATTERN)]
    workload: Annotated[str, Field(pattern=NAME_PATTERN)]
    cpu: _Quantity = ""
    memory: _Quantity = ""
    dry_run: bool
    on_shortage: OnShortage = OnShortage.REJECT
    wait_s: Annotated[float, Field(ge=0, le=WAIT_MAX_S)] = 60.0

    def action(self, action_id: str) -> ScalingAction:
        """The action it means. Raises FormError."""
        try:
            target = Limits(
                cpu_limit=parse_cpu(self.cpu) if self.cpu.strip() else None,
                memory_limit=parse_memory(self.memory) if self.memory.strip() else None,
            )
        except ValidationError as error:
            raise FormError(_words(error)) from error
        except ValueError as error:
            raise FormError(str(error)) from error
        if target.empty:
            raise FormError("write a CPU limit, a memory limit, or both")
        return ScalingAction(
            action_id=action_id,
            node=self.node,
            workload_id=self.workload,
            target=target,
            dry_run=self.dry_run,
            on_shortage=self.on_shortage,
            wait_s=self.wait_s,
            cause=Cause(type=CauseType.EXTERNAL),
        )


def read_form(body: Any) -> ScaleForm:
    """The form in a JSON value. Raises FormError."""
    try:
        return ScaleForm.model_validate(body)
    except ValidationError as error:
        raise FormError(_words(error)) from error


def _words(error: ValidationError) -> str:
    mistakes = error.errors(include_url=False)[:8]
    return "; ".join(f"{'.'.join(map(str, m['loc'])) or 'form'}: {m['msg']}" for m in mistakes)
