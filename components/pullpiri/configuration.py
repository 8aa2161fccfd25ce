"""The section `[pullpiri]` of the configuration."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class PullpiriSettings(BaseModel):
    """Models of Eclipse Pullpiri, read by PolicyManager and ResourceManager when they start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[Path, ...] = ()
    """YAML files, or folders of them."""
    max_factor: Annotated[float, Field(ge=1, le=1000)] | None = None
    """Where the policy has no maximum: the model's limit times this."""
