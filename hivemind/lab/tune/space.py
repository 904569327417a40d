"""The search space of tuning, each knob with a range around its recorded values, and the optimiser.

Only this module imports Optuna, which is an optional dependency.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change, setting_named, value_in
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.text.humanise import did_you_mean

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

_RANDOM_TRIALS = 12
"""Random trials before the sampler learns from results."""


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
"""The knobs searched by default, without limits of the provider (rpm, tpm) and those that refuse requests."""
_FACTOR = 8.0
"""Knobs on a logarithmic scale are tried down to 1/8 and up to 8 times their recorded values."""
_EXTRAPOLATED = 4.0
"""Concurrency is tried up to so many times its recorded value, because latencies beyond are unknown."""
_LINEAR: Mapping[str, tuple[float, float]] = {
    "aimd.beta": (0.3, 0.95),
    "circuit.threshold": (0.2, 1.0),
    "retry.budget_ratio": (0.0, 1.0),
}
"""Ranges of knobs on a linear scale."""
_DIGITS = 2
"""Significant digits of values; more would overfit the recording."""
_SAME = 0.1
"""Values that differ from the recorded one by at most this share are the same."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A knob and its range."""

    name: str
    low: float
    high: float
    whole: bool
    log: bool
    start: float
    """The recorded value, or the nearest one in the range."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """The settings of a recording."""

    scheduler: SchedulerConfig
    lanes: tuple[LaneConfig, ...]
    busiest: int
    """Most requests in flight at once."""


Params = Mapping[str, float]
"""Values by knob."""


def knobs_named(text: str) -> tuple[str, ...]:
    """Parse a list of knobs such as `aimd.beta,max_concurrency`. Raises: UsageError."""
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
    """Return the ranges of these knobs for recordings with at least one lane each."""
    return tuple(_dimension(KNOBS[name], recorded) for name in names)


def _dimension(knob: Knob, recorded: Sequence[RecordedSettings]) -> Dimension:
    values = values_of(knob.name, recorded)
    if knob.name in _LINEAR:
        low, high = _LINEAR[knob.name]
        low, high = min(low, *values), max(high, *values)
        return Dimension(knob.name, low, high, knob.whole, False, values[0])
    factor, unlimited = _FACTOR, 1000.0
    if knob.name == "max_concurrency":
        factor, unlimited = _EXTRAPOLATED, float(max(each.busiest for each in recorded))
    if knob.zero_is_none:
        values = [value or max(1.0, unlimited) for value in values]
    low = max(knob.lowest, min(values) / _FACTOR)
    high = min(knob.highest, max(values) * factor)
    if knob.name == "aimd.floor":
        high = min(high, max(2.0, *values))
    if knob.whole:
        low, high = max(knob.lowest, math.floor(low)), max(2.0, math.ceil(high))
    return Dimension(knob.name, low, high, knob.whole, True, min(max(values[0], low), high))


def changes_of(params: Params, dimensions: Sequence[Dimension]) -> tuple[Change, ...]:
    """Return parameters as changes: rounded, and with lower bounds not above upper ones."""
    values = {each.name: rounded(params[each.name], each) for each in dimensions}
    for smaller, larger in (("retry.base_s", "retry.max_s"), ("aimd.floor", "max_concurrency")):
        if smaller in values and larger in values:
            values[smaller] = min(values[smaller], values[larger])
    return tuple(Change(name, value) for name, value in values.items())


def significant_changes(changes: Iterable[Change], recorded: Sequence[RecordedSettings]) -> tuple[Change, ...]:
    """Return the changes that differ noticeably from some recording."""
    return tuple(
        change
        for change in changes
        if isinstance(change.value, int | float)
        and any(abs(change.value - was) > _SAME * abs(was) for was in values_of(change.name, recorded))
    )


def rounded(value: float, dimension: Dimension) -> float:
    """Round a value to two digits within the range."""
    within = min(max(float(f"{value:.{_DIGITS}g}"), dimension.low), dimension.high)
    return round(within) if dimension.whole else within


def values_of(name: str, recorded: Sequence[RecordedSettings]) -> list[float]:
    """Return the recorded values of a knob in every lane of every recording."""
    return [float(value_in(name, each.scheduler, lane) or 0) for each in recorded for lane in each.lanes]


class Search:
    """A search by tree-structured Parzen estimators, deterministic for a seed, a space and results.

    It begins with the start of each dimension. Raises: UsageError: Optuna isn't installed.
    """

    def __init__(self, dimensions: Sequence[Dimension], seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(
                f"tuning needs the library Optuna ({error}): pip install 'hivemind-tui[lab]', or make setup"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._ranges: dict[str, BaseDistribution] = {}
        for each in dimensions:
            if each.whole:
                whole = optuna.distributions.IntDistribution(int(each.low), int(each.high), log=each.log)
                self._ranges[each.name] = whole
            else:
                self._ranges[each.name] = optuna.distributions.FloatDistribution(each.low, each.high, log=each.log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS, multivariate=True)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._study.enqueue_trial({each.name: int(each.start) if each.whole else each.start for each in dimensions})
        self._asked: list[Trial] = []

    def ask(self, count: int) -> list[Params]:
        """Return the next parameters to try."""
        self._asked = [self._study.ask(self._ranges) for _ in range(count)]
        return [dict(trial.params) for trial in self._asked]

    def tell(self, answers: Sequence[tuple[float, Mapping[str, float]] | None]) -> None:
        """Report for each of these its cost and by how much it violates each constraint (at most 0: it doesn't).

        None: it can't be simulated.
        """
        for trial, answer in zip(self._asked, answers, strict=True):
            if answer is None:
                self._study.tell(trial, state=self._failed)
                continue
            cost, violations = answer
            for name, amount in violations.items():
                trial.set_constraint(name, amount)
            self._study.tell(trial, cost)
