"""The settings of a run that differ from the defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hivemind.providers.profiles import GENERIC, PROFILES
from hivemind.scheduler.config import LaneConfig, SchedulerConfig

_FEATURES = ("admission", "rate_windows", "backpressure")
_NOT_SET = frozenset({"upstream", "provider", "rpm_binding", "tpm_binding", "reserve_max_tokens", "count_cache_reads"})
"""Settings of a lane that follow from other ones."""


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting that differs from its default."""

    name: str
    """As in the settings file: `aimd.beta`."""
    value: str
    default: str
    """Of a lane, the value of the provider's profile."""
    upstream: str = ""
    """Empty: for all upstreams."""


def changed_settings(config: SchedulerConfig, lanes: Iterable[LaneConfig]) -> list[ChangedSetting]:
    """Return the scheduler's settings, then each upstream's, by its first lane."""
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
