"""The figures of a prediction side by side: as recorded, with the changes and their interval, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hivemind.journal.figures import Figures
from hivemind.lab.comparison import Measure, Unit, Verdict, judged, run_measures
from hivemind.lab.foresight import ranges
from hivemind.lab.foresight.prediction import Prediction, loses
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.foresight.told import Foretold

WALL, WAITED, FINISHED = "wall time", "wait, total", "agents finished"
_MOST = "most in flight"
_ADDS_UP = frozenset({WALL, WAITED, "retries", "tokens", "tokens wasted", "dollars", "failed", "refused", "given up"})
"""Figures of a whole run that are the sums of its parts'."""
_OF_REQUESTS = frozenset({"failed", "refused", "given up"})
_ROUNDING = 1e-9
_LEAST: Mapping[Unit, float] = {"count": 5.0, "seconds": 0.5, "tokens": 100.0, "dollars": 0.001, "share": 0.01}
"""Figures below this are compared by difference, not by share."""


def foretold(prediction: Prediction) -> list[Foretold]:
    """Return every figure of a prediction, with the waits by priority where there are several."""
    runs = (shown_base(prediction), prediction.own, *prediction.drawn.after)
    return [_foretold(prediction, measure) for measure in run_measures(runs)]


def shown_base(prediction: Prediction) -> Figures:
    """Return the run in the first column: where nothing is changed the recorded one, also if HiveMind had no part in
    it."""
    return prediction.recorded if prediction.changes else prediction.real


def named(figures: Sequence[Foretold], name: str) -> Foretold:
    """Return the figure of a name, which is always there."""
    return next(each for each in figures if each.name == name)


def _foretold(prediction: Prediction, measure: Measure[Figures]) -> Foretold:
    base = shown_base(prediction)
    recorded, own = measure.of(base), measure.of(prediction.own)
    adds_up = measure.name in _ADDS_UP
    least = prediction.least_wait_s if measure.name == WAITED else _LEAST[measure.unit]
    evidence = prediction.evidence(measure.of, adds_up=adds_up, least=least)
    changed = None if own is None else Range(own, own, own)
    if evidence is not None:
        changed = ranges.changed(evidence)
    low, high = _bounds(measure, prediction)
    changed = None if changed is None else _within(changed, low, high)
    difference, by_share = None, False
    if measure.name == _MOST:
        if prediction.changes and recorded is not None and changed is not None:
            difference = Range(*(each - recorded for each in (changed.value, changed.low, changed.high)))
    elif prediction.changes:
        difference = None if evidence is None else ranges.difference(evidence)
        by_share = difference is not None
        if difference is None and evidence is not None and recorded is not None:
            difference = _within(ranges.shift(evidence), low - recorded, high - recorded)
    elif prediction.simulated and recorded is not None and changed is not None:
        by_share = recorded >= least
        by = recorded if by_share else 1.0
        difference = Range(*((each - recorded) / by for each in (changed.value, changed.low, changed.high)))
    verdict: Verdict = ""
    if not prediction.asks_for_agents:  # otherwise the runs do other work
        verdict = _verdict(measure, difference, 1.0 if by_share else recorded or 0.0, _more_work(prediction))
    unpriced = measure.unit == "dollars" and bool(base.unpriced_tokens or prediction.own.unpriced_tokens)
    return Foretold(measure.name, measure.unit, recorded, changed, difference, by_share, verdict, unpriced)


def _bounds(measure: Measure[Figures], prediction: Prediction) -> tuple[float, float]:
    """Return what a figure can't be below and above, whatever the model's error."""
    own = prediction.own
    if measure.unit == "share":
        return 0.0, 1.0
    if measure.name == FINISHED:
        return 0.0, own.agents
    if measure.name in _OF_REQUESTS:
        return 0.0, own.requests
    if measure.name == _MOST:
        seen = [own.busiest, *(run.busiest for run in prediction.drawn.after)]
        return min(seen), max(seen)
    return 0.0, float("inf")


def _within(found: Range, low: float, high: float) -> Range:
    return Range(*(min(high, max(low, each)) for each in (found.value, found.low, found.high)))


def _more_work(prediction: Prediction) -> int:
    """Return 1 if more is done with the changes, -1 if less is, 0 if the same."""
    if less_is_done(prediction):
        return -1
    return 1 if loses(prediction.own, prediction.replayed if prediction.changes else prediction.real) else 0


def less_is_done(prediction: Prediction) -> bool:
    """Return whether fewer agents finish or fewer requests are answered than in the run in the first column."""
    if not prediction.changes:
        return prediction.simulated and loses(prediction.real, prediction.own)
    return prediction.finishes_less


def _verdict(measure: Measure[Figures], difference: Range | None, base: float, more_work: int) -> Verdict:
    if difference is None or not measure.better:
        return ""
    if max(-difference.low, difference.high) <= _ROUNDING * base:
        return "same"
    return judged(measure, difference.value, difference.low, difference.high, base, more_work=more_work)
