"""What changed settings promise: by how much they reduce the goal's figure, and why they aren't recommended.

Nothing is promised that the recording can't show: the whole interval has to be a gain, nobody may pay for it, and no
more may be in flight than was recorded, because a provider's limit just beyond would show in no draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal

from msgspec import Struct

from hivemind.journal.figures import Figures
from hivemind.lab.fit.failures import Failures
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.foresight.heldout import UNCHECKED, Figure, HeldOut
from hivemind.lab.foresight.prediction import Prediction, predict
from hivemind.lab.foresight.ranges import Evidence, Range
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.simulations import Runs, runs_of
from hivemind.lab.tune.space import Changes
from hivemind.scheduler.types import FailureKind, Price

Goal = Literal["wall_time", "p95_wait", "dollars"]
WhyNot = Literal["", "agents", "failures", "errors", "beyond", "refused", "unclear", "little", "small"]
"""Why settings aren't recommended: `agents`: fewer finish; `failures`: more requests stay unanswered; `errors`: many
more attempts fail; `beyond`: more is in flight than was recorded; `refused`: more is in flight on average, and refusals
came with more in flight for a reason that isn't known; `unclear`: the interval of the gain contains 0; `little`: the
gain is no more than noise; `small`: the figure is too small for shares."""
LEAST_GAIN = 0.01
"""A smaller gain is no reason to change a setting."""
_FEW_DRAWS = 0.1
"""What happens in at most this share of the draws is luck."""
_OF_GAIN, _LEAST_ERROR = 0.25, 0.02
"""What a gain is off besides luck, as standard deviations of its logarithm: a share of it, and at least.

The share is for providers that no model describes: of seven gains that `benchmarks.foresight.tuned --strange --seeds
0:40` found without it five were promised too large by 0.2 to 0.4 of their logarithms, which it covers, one by 0.6, and
one came to nothing. The other is the likeliest one for the gains of the worlds of the seeds 0:74 and 240:320.
"""
_MORE_ERRORS, _ERRORS = 0.2, 0.02
"""Failed attempts may rise by this share, or by this share of the requests."""


class Reduced(Struct, frozen=True):
    """The figure of a run that a goal reduces."""

    of: Figure
    adds_up: bool
    least: float
    """Below this it is too small for shares."""


REDUCED: Mapping[Goal, Reduced] = {
    "wall_time": Reduced(lambda run: run.wall_s, True, 0.1),
    "p95_wait": Reduced(lambda run: run.together.p95_s, False, 0.2),
    "dollars": Reduced(lambda run: run.dollars, True, 0.001),
}


class Promise(Struct, frozen=True):
    """What changes do to recordings, on draws that the search hasn't seen."""

    goal: Goal
    changes: Changes
    predictions: tuple[Prediction, ...]
    """By recording."""
    gains: tuple[Range | None, ...]
    """By recording, the share that the changes take off the goal's figure; None: the figure is too small."""
    gain: Range | None
    """The same of all recordings together."""
    why_not: WhyNot
    """Why they aren't recommended; empty: they are."""


def promised(
    goal: Goal,
    changes: Changes,
    recordings: Sequence[Recording],
    simulate: Runs,
    *,
    price: Price | None = None,
    draws: int | None = None,
    checked: Sequence[HeldOut] = (),
) -> Promise:
    """Foretell what changes do to each recording. Takes seconds. Raises: UsageError: the changes don't go together."""
    checks = checked or [UNCHECKED] * len(recordings)
    found = tuple(
        predict(each, changes, price=price, runs=runs_of(simulate, number), draws=draws, checked=check)
        for number, (each, check) in enumerate(zip(recordings, checks, strict=True))
    )
    gains = [_gain(goal, each) for each in found]
    gain = _together(goal, found, gains)
    why_not = _why_not(found, gains, gain)
    fuller = [recording for recording, each in zip(recordings, found, strict=True) if _fills(each)]
    if not why_not and any(unexplained(each.providers.values()) for each in fuller):
        why_not = "refused"
    return Promise(goal, changes, found, tuple(gains), gain, why_not)


def harm(before: Sequence[Figures], after: Sequence[Figures]) -> Literal["", "agents", "failures", "errors"]:
    """Return what gets worse from the first runs to the second, draw by draw, that no gain is worth."""
    if _more(before, after, lambda run: -run.finished):
        return "agents"
    if _more(before, after, unanswered):
        return "failures"
    errors, more = (sum(run.attempts - run.answered for run in runs) for runs in (before, after))
    allowed = max(_MORE_ERRORS * errors, _ERRORS * sum(run.requests for run in before))
    return "errors" if more - errors > allowed else ""


def unanswered(run: Figures) -> int:
    """Return how many requests weren't answered."""
    return run.failed + run.refused + run.left + run.open


def _more(before: Sequence[Figures], after: Sequence[Figures], of: Figure) -> bool:
    """Return whether a figure rises in more than a few draws, and on average."""
    rises = [(of(two) or 0) - (of(one) or 0) for one, two in zip(before, after, strict=True)]
    return sum(rises) > 0 and sum(each > 0 for each in rises) > _FEW_DRAWS * len(rises)


def _gain(goal: Goal, prediction: Prediction) -> Range | None:
    """Return the share that the changes take off the goal's figure of one recording; None: it is too small."""
    reduced = REDUCED[goal]
    found = prediction.evidence(reduced.of, adds_up=reduced.adds_up, least=reduced.least)
    return None if found is None else gained(found)


def gained(evidence: Evidence) -> Range | None:
    """Return the share that changes take off a figure; None: it is too small for shares.

    The recorded run and the draws have the prompts, pauses and turns of the recording in common, and the settings were
    chosen by these. Another run has others, so the gain is as uncertain as it differs from draw to draw, however many
    draws agree on its mean; and as the recorded luck and the draws disagree. What models get wrong counts as a share of
    the gain, because what they get wrong of the figure itself is in both runs.
    """
    drawn = min(*evidence.before, *evidence.after) / evidence.scale
    if min(evidence.recorded, evidence.own, drawn) < evidence.least:
        return None
    pairs = [math.log(one / two) for one, two in zip(evidence.before, evidence.after, strict=True)]
    own, mean = math.log(evidence.recorded / evidence.own), fmean(pairs)
    middle = (own + mean) / 2
    luck = math.hypot(math.sqrt(evidence.variance(pairs) * evidence.share), stdev(pairs) / math.sqrt(len(pairs)))
    error = math.hypot(_LEAST_ERROR, (_OF_GAIN + evidence.error) * middle)
    half = evidence.quantile * math.hypot(luck, (own - mean) / 2, error)
    return Range(*(-math.expm1(-each) for each in (middle, middle - half, middle + half)))


def _together(goal: Goal, predictions: Sequence[Prediction], gains: Sequence[Range | None]) -> Range | None:
    """Return the gain of all recordings together: what the models get wrong in one they may get wrong in all."""
    known = [(REDUCED[goal].of(each.recorded) or 0.0, gain) for each, gain in zip(predictions, gains, strict=True)]
    parts = [(weight, gain) for weight, gain in known if gain is not None]
    whole = sum(weight for weight, _ in parts)
    if not whole:
        return None
    value, low, high = (
        sum(weight * getattr(gain, name) for weight, gain in parts) / whole for name in ("value", "low", "high")
    )
    return Range(value, low, high)


def _why_not(predictions: Sequence[Prediction], gains: Sequence[Range | None], gain: Range | None) -> WhyNot:
    if gain is None:
        return "small"
    if gain.value <= LEAST_GAIN or any(each is not None and each.value < -LEAST_GAIN for each in gains):
        return "little"
    for each in predictions:
        if each.finishes_less:
            return "agents"
        if found := harm(each.drawn.before, each.drawn.after):
            return found
    if any(goes_beyond(each.recorded, each.drawn.before, (each.own, *each.drawn.after)) for each in predictions):
        return "beyond"
    if gain.low <= 0:
        return "unclear"
    return "little" if gain.low < LEAST_GAIN / 2 else ""


def _fills(prediction: Prediction) -> bool:
    """Return whether more is in flight on average."""
    before, after = (run.served_s / run.wall_s if run.wall_s else 0.0 for run in (prediction.replayed, prediction.own))
    return after > before


def goes_beyond(recorded: Figures, before: Sequence[Figures], after: Sequence[Figures]) -> bool:
    """Return whether more is in flight than was recorded, or than with the recorded settings."""
    return max(run.busiest for run in after) > max(recorded.busiest, *(run.busiest for run in before))


_REFUSED = (FailureKind.OVERLOADED, FailureKind.RATE_LIMITED)
_FEW = 3
"""Fewer refusals tell nothing."""
_SURE = 2.33
"""Standard errors by which refusals come with more in flight in one of a hundred recordings by chance."""


def unexplained(providers: Iterable[FittedProvider]) -> int:
    """Return how many refusals came with more in flight without a cause in the models: some limit isn't known.

    A simulation refuses no more with more in flight then, and what it gains by that may be lost to refusals.
    """
    return sum(_unexplained(each.failures) for each in providers)


def _unexplained(failures: Failures) -> int:
    if failures.load is not None:
        return 0
    refused = [one.in_flight for _, one in failures.chance if one.failure is not None and one.failure.kind in _REFUSED]
    taken = [one.in_flight for request in failures.requests for one in request.unrefused if one.failure is None]
    return len(refused) if len(refused) >= _FEW and larger_by(refused, taken) > _SURE else 0


def larger_by(ones: Sequence[int], others: Sequence[int]) -> float:
    """Return by how many standard errors numbers are larger than others, by their ranks (Mann and Whitney's test)."""
    mine, their = Counter(ones), Counter(others)
    below, larger, ties = 0, 0.0, 0
    for value in sorted({*mine, *their}):
        larger += mine[value] * (below + their[value] / 2)
        below += their[value]
        together = mine[value] + their[value]
        ties += together**3 - together
    pairs, count = len(ones) * len(others), len(ones) + len(others)
    variance = pairs / 12 * (count + 1 - ties / (count * (count - 1))) if count > 1 else 0.0
    return (larger - pairs / 2) / math.sqrt(variance) if variance > 0 else 0.0
