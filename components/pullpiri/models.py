"""Pullpiri's models: which containers they make, and what limits these begin with."""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from components.pullpiri.places import ModelError, Place, documents
from components.quantities import LimitSettings
from schemas.message import NAME_LENGTH_MAX, is_name
from schemas.units import format_cpu, format_memory

_log = logging.getLogger(__name__)

KINDS: Final = ("Model", "Pod")
"""Documents of other kinds (Scenario, Package, Policy, ...) describe no containers."""

ENDINGS: Final = (".yaml", ".yml")

_UNDERSTOOD: Final = {"cpu": re.compile(r"\d+(\.\d+)?"), "memory": re.compile(r"\d+(Ki|Mi|Gi|K|M|G)?")}
"""What Pullpiri's own agent can read; anything else it leaves out, and the container has no such limit."""


@dataclass(frozen=True)
class Described:
    """One container as its model describes it."""

    workload: str
    """The name Pullpiri gives it: {model}_{container}."""
    limits: LimitSettings
    """What it begins with."""
    requests: LimitSettings
    """What it needs at least."""
    place: str
    """File and line."""


def read_models(paths: Iterable[Path]) -> dict[str, Described]:
    """Every container that the models in these files and folders make, by name. Folders are read with all below.

    Raises ModelError naming file, line and field; also when two models describe one container differently.
    """
    found: dict[str, Described] = {}
    for file in _files(paths):
        for document in documents(file):
            kind = document.find("kind")
            if kind is None or kind.text not in KINDS:
                continue
            for one in _containers(document):
                before = found.setdefault(one.workload, one)
                if (before.limits, before.requests) != (one.limits, one.requests):
                    raise ModelError(f"{one.place}: {one.workload} is described differently at {before.place}")
    return found


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
        elif path.exists():
            yield path
        else:
            raise ModelError(f"{path}: there is no such file or folder")


def _containers(model: Place) -> Iterator[Described]:
    name = model.need("metadata").need("name").text
    for container in model.need("spec").need("containers").each():
        own = container.need("name")
        workload = f"{name}_{own.text}"
        if not is_name(workload):
            allowed = f"letters, digits, '.', '_' and '-', at most {NAME_LENGTH_MAX}"
            raise own.wrong(f"{workload!r} cannot be a workload's name: {allowed}")
        resources = container.find("resources")
        limits, requests = (_quantities(resources, key) for key in ("limits", "requests"))
        for resource, write in (("cpu", format_cpu), ("memory", format_memory)):
            least, most = getattr(requests, resource), getattr(limits, resource)
            if resources is not None and least is not None and most is not None and least > most:
                raise resources.wrong(
                    f"requests.{resource} {write(least)} is above limits.{resource} {write(most)}"
                )
        line = container.node.start_mark.line + 1
        yield Described(workload, limits, requests, f"{container.file}:{line}")


def _quantities(resources: Place | None, key: str) -> LimitSettings:
    """CPU and memory of `limits` or `requests`; other resources, such as GPUs, are not ours to scale."""
    part = resources.find(key) if resources is not None else None
    if part is None:
        return LimitSettings()
    return LimitSettings(cpu=_quantity(part, "cpu"), memory=_quantity(part, "memory"))


def _quantity(part: Place, resource: str) -> int | None:
    place = part.find(resource)
    if place is None:
        return None
    text = place.text.strip()
    if part.path.endswith("limits") and not _UNDERSTOOD[resource].fullmatch(text):
        _log.warning(
            "%s: %s = %s: Pullpiri's own agent does not understand this, and sets no such limit",
            place.file,
            place.path,
            text,
        )
    written = f"{text[:-1]}k" if text.endswith("K") else text
    try:
        read = LimitSettings.model_validate({resource: written})
    except ValidationError as error:
        told = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise place.wrong(told) from error
    value: int | None = getattr(read, resource)
    return value
