"""The search space of tuning: for each knob, values around the recorded one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change, setting_named, value_in
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.text.humanise import instead_of

DEFAULT_KNOBS = (
    "max_concurrency",
    "aimd.latency_target_s",
    "aimd.beta",
    "retry.base_s",
    "circuit.cooldown_s",
    "circuit.threshold",
    "aimd.alpha",
    "aimd.floor",
    "retry.max_s",
    "retry.budget_ratio",
)
"""The knobs searched by default, without limits of the provider (rpm, tpm) and those that refuse requests."""
_FACTORS = (0.5, 2.0, 0.25, 4.0)
"""Knobs on a logarithmic scale are tried at so many times their recorded value, in this order."""
_PLACES = (0.5, 1.5, 0.75, 2.0, 0.33)
"""The same for concurrency, on which most depends."""
_LINEAR: Mapping[str, tuple[float, ...]] = {
    "aimd.beta": (0.85, 0.3, 0.7),
    "circuit.threshold": (0.9, 0.25),
    "retry.budget_ratio": (1.0, 0.05),
}
"""Values of knobs on a linear scale."""
_BETWEEN = (0.7, 1.4)
"""A value that serves well is refined by its neighbours, so many times as large."""
_BY_ONE = 8
"""Smaller whole numbers are refined by one, because factors would skip some: the best of 4 and 6 may be 5."""
_DIGITS = 2
"""Significant digits of values; more would overfit the recording."""
_SAME = 0.1
"""Values that differ from the recorded one by at most this share are the same."""
_TINY = 0.01
"""Keeps logarithms of values that may be 0 finite."""
_AT_MOST = (("retry.base_s", "retry.max_s"), ("aimd.floor", "max_concurrency"))
"""Of two knobs, the first is at most as large as the second."""


class RecordedSettings(Struct, frozen=True):
    """The settings of a recording."""

    scheduler: SchedulerConfig
    lanes: tuple[LaneConfig, ...]
    busiest: int
    """Most requests in flight at once."""


Changes = tuple[Change, ...]


def knobs_named(text: str) -> tuple[str, ...]:
    """Parse a list of knobs such as `aimd.beta,max_concurrency`. Raises: UsageError."""
    found: dict[str, None] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name = setting_named(part)
        if name not in KNOBS:
            raise UsageError(f"{part}: can't be tuned{instead_of(name, KNOBS)}")
        found[name] = None
    if not found:
        raise UsageError("--knobs: name at least one, as in aimd.beta,max_concurrency")
    return tuple(found)


def single_changes(names: Iterable[str], recorded: Sequence[RecordedSettings]) -> list[Change]:
    """Return the changes of one knob to try, the most promising of each knob first."""
    by_knob = [
        [change for value in _values(KNOBS[name], recorded) if (change := _change(name, value, recorded)) is not None]
        for name in names
    ]
    most = max((len(each) for each in by_knob), default=0)
    turn_by_turn = [each[place] for place in range(most) for each in by_knob if place < len(each)]
    return list(dict.fromkeys(turn_by_turn))


def neighbours(change: Change, recorded: Sequence[RecordedSettings]) -> list[Change]:
    """Return the changes of the same knob to nearby values."""
    assert isinstance(change.value, int | float)
    knob, middle = KNOBS[change.name], float(change.value)
    if change.name in _LINEAR:
        values = [(middle + _start(knob, recorded)) / 2]
    elif knob.whole and middle < _BY_ONE:
        values = [middle - 1, middle + 1]
    else:
        values = [middle * by for by in _BETWEEN]
    found = [_change(change.name, value, recorded) for value in values]
    return [each for each in dict.fromkeys(found) if each is not None and each != change]


def agree(changes: Changes, recorded: Sequence[RecordedSettings]) -> bool:
    """Return whether changes go together, and with what was recorded: no lower bound is above its upper one."""
    values = {each.name: each.value for each in changes}
    for smaller, larger in _AT_MOST:
        lows = [values[smaller]] if smaller in values else values_of(smaller, recorded)
        highs = [values[larger]] if larger in values else [each or math.inf for each in values_of(larger, recorded)]
        changed = smaller in values or larger in values
        if changed and max(map(float, lows)) > min(map(float, highs)):  # type: ignore[arg-type]
            return False
    return True


def distance(changes: Changes, recorded: Sequence[RecordedSettings]) -> float:
    """Return how far changes are from what was recorded: the sum of the logarithms of the knobs' factors."""
    far = 0.0
    for each in changes:
        assert isinstance(each.value, int | float)
        far += abs(math.log((each.value + _TINY) / (_start(KNOBS[each.name], recorded) + _TINY)))
    return far


def values_of(name: str, recorded: Sequence[RecordedSettings]) -> list[float]:
    """Return the recorded values of a knob in every lane of every recording."""
    return [float(value_in(name, each.scheduler, lane) or 0) for each in recorded for lane in each.lanes]


def _values(knob: Knob, recorded: Sequence[RecordedSettings]) -> list[float]:
    if knob.name in _LINEAR:
        return list(_LINEAR[knob.name])
    start = _start(knob, recorded)
    if knob.name == "max_concurrency":
        # The recording tells of what was in flight at most, whatever the limit was.
        return [float(max(each.busiest for each in recorded)), *(start * by for by in _PLACES)]
    return [start * by for by in _FACTORS]


def _start(knob: Knob, recorded: Sequence[RecordedSettings]) -> float:
    """Return the value that others are tried around: the recorded one, or where there was no limit what was used."""
    values = values_of(knob.name, recorded)
    unlimited = float(max(each.busiest for each in recorded)) if knob.name == "max_concurrency" else 1000.0
    return max(each or max(1.0, unlimited) for each in values) if knob.zero_is_none else values[0]


def _change(name: str, value: float, recorded: Sequence[RecordedSettings]) -> Change | None:
    """Return a change to a value that people would write; None: it is as recorded, or the knob doesn't take it."""
    knob = KNOBS[name]
    rounded = float(f"{value:.{_DIGITS}g}")
    number: float = round(rounded) if knob.whole else rounded
    if not knob.lowest <= number <= knob.highest:
        return None
    if all(abs(number - was) <= _SAME * abs(was) for was in values_of(name, recorded)):
        return None
    change = Change(name, number)
    return change if agree((change,), recorded) else None
