"""What can be tuned while everything runs: each knob's range and scope.

A knob has the name of the setting that gives its value at the start, so a value found by hand can be written down. It
applies to all lanes of an upstream and to later ones, because a renewed credential opens a new lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.config import LaneConfig, RetryConfig


class Knob(Struct, frozen=True):
    """A number that :class:`~hivemind.scheduler.commands.Tune` may change."""

    name: str
    lowest: float
    highest: float
    whole: bool = False  # takes whole numbers only
    shared: bool = False  # one value for the whole scheduler rather than one for each upstream's lanes
    zero_is_none: bool = False  # 0 takes the limit away


KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("aimd.alpha", 0.01, 100),
        Knob("aimd.beta", 0.05, 0.99),
        Knob("aimd.latency_target_s", 0.05, 600),
        Knob("aimd.floor", 1, 10_000),
        Knob("max_concurrency", 1, 10_000, whole=True, zero_is_none=True),
        Knob("circuit.threshold", 0.01, 1),
        Knob("circuit.window", 1, 10_000, whole=True),
        Knob("circuit.cooldown_s", 0.1, 3600),
        Knob("rpm", 1, 1_000_000, whole=True, zero_is_none=True),
        Knob("tpm", 1, 1_000_000_000, whole=True, zero_is_none=True),
        Knob("retry.max_attempts", 1, 1000, whole=True, shared=True),
        Knob("retry.base_s", 0.01, 600, shared=True),
        Knob("retry.max_s", 0.01, 3600, shared=True),
        Knob("retry.deadline_s", 1, 86_400, shared=True),
        Knob("retry.budget_ratio", 0, 100, shared=True),
    )
}
"""By name: the paper's alpha, beta, L_target, C_min, C_max, tau, N, T_cool, RPM and TPM, and the limits of retry."""


def turned(config: LaneConfig, name: str, value: float) -> LaneConfig:
    """Return the lane's configuration with this knob, which isn't a shared one, at this value."""
    section, key, number = parsed(name, value)
    if section:
        return replace(config, **{section: replace(getattr(config, section), **{key: number})})
    fields = {key: number}
    if key in ("rpm", "tpm"):
        fields[f"{key}_binding"] = number > 0
    return replace(config, **fields)


@lru_cache(maxsize=1024)
def readings(config: LaneConfig, retry: RetryConfig, superseded: tuple[str, ...]) -> Mapping[str, float]:
    """Return every knob's value; `superseded` are limits that were only assumed until the provider stated its own."""
    sections: Mapping[str, object] = {"": config, "aimd": config.aimd, "circuit": config.circuit, "retry": retry}
    values = {}
    for name in KNOBS:
        section, _, key = name.rpartition(".")
        values[name] = float(getattr(sections[section], key))
    return values | dict.fromkeys(superseded, 0.0)


def parsed(name: str, value: float) -> tuple[str, str, Any]:
    """Return the section and the key of the knob's setting, and the value as the setting takes it."""
    section, _, key = name.rpartition(".")
    return section, key, int(value) if KNOBS[name].whole else float(value)


def check_range(knob: Knob, value: float) -> None:
    """Raises: Rejected: the knob can't be turned to that."""
    whole = not knob.whole or value % 1 == 0
    if (knob.zero_is_none and value == 0) or (knob.lowest <= value <= knob.highest and whole):
        return
    kind, end = "a whole number" if knob.whole else "a number", ", or 0 for no limit" if knob.zero_is_none else ""
    raise Rejected(wrong(knob, value, f"{kind} from {plain(knob.lowest)} to {plain(knob.highest)}{end}"))


def wrong(knob: Knob, value: float, right: str) -> str:
    """Say that a knob's value must be another one."""
    return f"{knob.name} {plain(value)}: must be {right}"


def plain(value: float) -> str:
    """Return a knob's value as it is shown."""
    return f"{value:,.10g}"
