"""Where tuning looks: each knob with the range in which it makes sense to try it, round what was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hivemind.errors import UsageError
from hivemind.lab.tune.overrides import Change, setting_named, value_in
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.text.suggest import did_you_mean

DEFAULT_KNOBS = (
    "max_concurrency",
    "aimd.alpha",
    "aimd.beta",
    "aimd.latency_target_s",
    "aimd.floor",
    "circuit.threshold",
    "circuit.cooldown_s",
    "retry.base_s",
    "retry.max_s",
    "retry.budget_ratio",
)
"""What is searched unless somebody says otherwise. Limits that the provider sets (rpm, tpm), and those by which
requests are given up, aren't ours to turn."""
_FACTOR = 8.0
"""Knobs on a logarithmic scale are tried up to so many times smaller and larger."""
_EXTRAPOLATED = 4.0
"""So many times more in flight than the recording allowed is tried at most: nobody knows how more would fare."""
_LINEAR: Mapping[str, tuple[float, float]] = {
    "aimd.beta": (0.3, 0.95),
    "circuit.threshold": (0.2, 1.0),
    "retry.budget_ratio": (0.0, 1.0),
}
"""Shares, by the range that is tried."""
_DIGITS = 2
"""Of a number that is tried: more would only fit one recording."""
_ALIKE = 0.1
"""A value that differs from the recorded one by no more than this share of it is the same."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A knob, and where to look."""

    name: str
    low: float
    high: float
    whole: bool
    log: bool
    start: float
    """What was recorded, or what in the range is nearest to it."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """What a recording began with."""

    scheduler: SchedulerConfig
    lanes: tuple[LaneConfig, ...]
    busiest: int
    """Most requests in flight at once."""


Params = Mapping[str, float]
"""A value by knob."""


def knobs_named(text: str) -> tuple[str, ...]:
    """Knobs as a command line lists them, `aimd.beta,max_concurrency`.

    Raises: UsageError: one isn't a knob.
    """
    found: dict[str, None] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name = setting_named(part)
        if name not in KNOBS:
            hint = did_you_mean(name, KNOBS) or f"; there are {', '.join(KNOBS)}"
            raise UsageError(f"{part}: can't be tuned{hint}")
        found[name] = None
    if not found:
        raise UsageError("--knobs: name at least one, as in aimd.beta,max_concurrency")
    return tuple(found)


def space(names: Iterable[str], recorded: Sequence[RecordedSettings]) -> tuple[Dimension, ...]:
    """The ranges of these knobs for these recordings, which have a lane each at least."""
    return tuple(_dimension(KNOBS[name], recorded) for name in names)


def changes_of(params: Params, dimensions: Sequence[Dimension]) -> tuple[Change, ...]:
    """What somebody would write down: few digits, and what must not be larger than another isn't."""
    values = {each.name: rounded(params[each.name], each) for each in dimensions}
    for smaller, larger in (("retry.base_s", "retry.max_s"), ("aimd.floor", "max_concurrency")):
        if smaller in values and larger in values:
            values[smaller] = min(values[smaller], values[larger])
    return tuple(Change(name, value) for name, value in values.items())


def rounded(value: float, dimension: Dimension) -> float:
    """Two digits, and within the range."""
    short = float(f"{value:.{_DIGITS}g}")
    within = min(max(short, dimension.low), dimension.high)
    return round(within) if dimension.whole else within


def significant_changes(changes: Iterable[Change], recorded: Sequence[RecordedSettings]) -> tuple[Change, ...]:
    """Those of the changes that change anything to speak of, in any recording."""

    def differs(change: Change) -> bool:
        value = change.value
        assert isinstance(value, int | float)
        return any(abs(value - was) > _ALIKE * abs(was) for was in values_of(change.name, recorded))

    return tuple(filter(differs, changes))


def values_of(name: str, recorded: Sequence[RecordedSettings]) -> list[float]:
    """What a knob was, in every lane of every recording."""
    return [float(value_in(name, each.scheduler, lane) or 0) for each in recorded for lane in each.lanes]


def _dimension(knob: Knob, recorded: Sequence[RecordedSettings]) -> Dimension:
    values = values_of(knob.name, recorded)
    if knob.name in _LINEAR:
        low, high = _LINEAR[knob.name]
        low, high = min(low, *values), max(high, *values)
        return Dimension(knob.name, low, high, knob.whole, False, values[0])
    if knob.zero_is_none:
        none = float(max((each.busiest for each in recorded), default=1) if knob.name == "max_concurrency" else 1000)
        values = [value or max(1.0, none) for value in values]
    low = max(knob.lowest, min(values) / _FACTOR)
    factor = _EXTRAPOLATED if knob.name == "max_concurrency" else _FACTOR
    high = min(knob.highest, max(values) * factor)
    if knob.name == "aimd.floor":
        high = min(high, max(2.0, *values))
    if knob.whole:
        low, high = max(knob.lowest, math.floor(low)), max(2.0, math.ceil(high))
    return Dimension(knob.name, low, high, knob.whole, True, min(max(values[0], low), high))
