"""The settings of a run that weren't left at their defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hivemind.providers.profiles import GENERIC, PROFILES
from hivemind.scheduler.config import LaneConfig, SchedulerConfig

_FEATURES = ("admission", "rate_windows", "backpressure")
_NOT_SET = frozenset({"upstream", "provider", "rpm_binding", "tpm_binding", "reserve_max_tokens", "count_cache_reads"})
"""Of a lane's those that follow from something else."""


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """One of them."""

    name: str
    """As settings are called: `aimd.beta`."""
    value: str
    default: str
    """What it would have been: the provider's profile's, for a lane's."""
    upstream: str = ""
    """Whose it is; empty: everybody's."""


def changed_settings(config: SchedulerConfig, lanes: Iterable[LaneConfig]) -> list[ChangedSetting]:
    """All of them, the scheduler's first; of several lanes to one upstream those of the first."""
    found = list(_between(config, SchedulerConfig(), "", ""))
    seen: set[str] = set()
    for lane in lanes:
        if lane.upstream not in seen:
            seen.add(lane.upstream)
            found += _between(lane, _usual(lane), "", lane.upstream)
    return found


def _usual(lane: LaneConfig) -> LaneConfig:
    profile = PROFILES.get(lane.provider, GENERIC)
    return LaneConfig(
        lane.upstream,
        lane.provider,
        max_concurrency=profile.max_concurrency,
        rpm=profile.rpm,
        tpm=profile.tpm,
        aimd=profile.aimd,
    )


def _between(one: Any, usual: Any, prefix: str, upstream: str) -> Iterator[ChangedSetting]:
    for field in fields(one):
        value, default = getattr(one, field.name), getattr(usual, field.name)
        if is_dataclass(value):
            yield from _between(value, default, f"{field.name}.", upstream)
        elif value != default and field.name not in _NOT_SET:
            name = f"features.{field.name}" if field.name in _FEATURES else f"{prefix}{field.name}"
            yield ChangedSetting(name, _shown(value), _shown(default), upstream)


def _shown(value: object) -> str:
    named: Mapping[object, str] = {None: "unset", True: "on", False: "off"}
    if value is None or isinstance(value, bool):
        return named[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
