"""Policies made from models: a model's limits are the baseline of its containers, its requests their least."""

import logging
import math

from components.pullpiri.models import Described, read_models
from components.quantities import LimitSettings
from components.settings import PolicySettings, Settings

_log = logging.getLogger(__name__)


def with_models(settings: Settings) -> Settings:
    """The settings with a policy for every container that the configured models describe, before all others.

    What a `[[policy]]` says of a workload stands; the model fills in what it leaves open. Raises ModelError.
    """
    if not settings.pullpiri.models:
        return settings
    found = read_models(settings.pullpiri.models)
    _log.info("models of Pullpiri describe %d containers", len(found))
    own = tuple(_policy(one, settings) for one in found.values())
    return settings.model_copy(update={"policy": (*own, *settings.policy)})


def _policy(one: Described, settings: Settings) -> PolicySettings:
    given = settings.policy_of(one.workload)
    factor = settings.pullpiri.max_factor
    most = _first(given.max, _times(one.limits, factor) if factor is not None else LimitSettings())
    least = _first(given.min, one.requests)
    return given.model_copy(
        update={
            "workload": one.workload,
            "baseline": _first(given.baseline, one.limits),
            "min": LimitSettings(cpu=_lower(least.cpu, most.cpu), memory=_lower(least.memory, most.memory)),
            "max": most,
        }
    )


def _first(given: LimitSettings, else_: LimitSettings) -> LimitSettings:
    return LimitSettings(
        cpu=else_.cpu if given.cpu is None else given.cpu,
        memory=else_.memory if given.memory is None else given.memory,
    )


def _times(limits: LimitSettings, factor: float) -> LimitSettings:
    return LimitSettings(
        cpu=None if limits.cpu is None else math.floor(limits.cpu * factor),
        memory=None if limits.memory is None else math.floor(limits.memory * factor),
    )


def _lower(value: int | None, most: int | None) -> int | None:
    return value if value is None or most is None else min(value, most)
