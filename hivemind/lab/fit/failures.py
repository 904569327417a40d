"""Failures that neither rate limits nor places explain: by request, in spells, by load, and by chance.

Spells, load and chance are compared by how likely each makes parts of the recording that it wasn't fitted to. In a
simulation an attempt fails if its luck, a number between 0 and 1, is below the share that fails at that time with so
many in flight. The luck of recorded attempts is such that they end as recorded under recorded conditions.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from hivemind.lab.fit.chain import Outcome, fit_chain, log_likelihood, share_failed
from hivemind.lab.fit.load import Load, Spells, fit_load, spells_of, timeline
from hivemind.lab.fit.luck import luck
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler.types import FailureKind
from hivemind.text.humanise import count, duration, percent, plural

_PARTS = 4
"""Of a recording, each of which is predicted from the others."""
_MARGIN = 4.0
"""A cause must make them more likely by this much in logarithms than a simpler one."""
_FEW = 3
"""Fewer failures are chance."""
_POISONED = 0.01
"""A request that failed always is at fault if so many or fewer were expected to by chance."""


class Failures(Struct, frozen=True):
    """What fails besides refusals."""

    rate: float
    """The share of attempts that fails outside of spells."""
    load: Load | None
    """That share by the number in flight, where it depends on it."""
    spells: Spells | None
    chance: Sequence[RequestAttempt]
    """Failures outside of spells."""
    in_spells: Sequence[RequestAttempt]
    requests: Sequence[RequestStep]
    tried: int
    """Attempts outside of spells."""
    recorded: tuple[float, float]
    """When the recording began and ended."""

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        yield from _said_of_requests(self.requests)
        if self.spells is not None:
            yield _said_of_spells(self.spells, [one for _, one in self.in_spells])
        if self.load is not None:
            low, high = _usual_in_flight(self.requests)
            by_load = f"{percent(self.load.share(low))} at {low}, {percent(self.load.share(high))} at {high}"
            yield f"the more in flight, the more fail: {by_load}"
        elif self.chance:
            other = "other " if self.spells is not None else ""
            yield f"{percent(self.rate)} of {other}attempts failed by chance{_mostly([one for _, one in self.chance])}"

    def share(self, at: float, in_flight: int) -> float:
        """Return the share that failed at a time of the recording with so many in flight."""
        if self.spells is not None and self.spells.within(at):
            return self.spells.share
        return self.outside(in_flight)

    def outside(self, in_flight: int) -> float:
        """Return the share that fails outside of spells with so many in flight."""
        return self.rate if self.load is None else self.load.share(in_flight)

    def drawn(self, rng: random.Random) -> Failures:
        """Return others that the recording allows as well."""
        failed = len(self.chance)
        return replace(
            self,
            rate=rng.betavariate(failed + 0.5, max(0, self.tried - failed) + 0.5) if failed else 0.0,
            load=self.load and self.load.drawn(rng),
            spells=self.spells and self.spells.drawn(rng),
        )


def fit_failures(taken: Sequence[RequestAttempt], began_at: float, recorded_s: float) -> Failures:
    """Fit them to complete attempts that nothing else explains, in order of their beginnings.

    Also sets these attempts of each request, and whether it is at fault.
    """
    requests = list(dict.fromkeys(request for request, _ in taken))
    for request in requests:
        request.unrefused, request.at_fault = [], False
    for request, one in taken:
        request.unrefused.append(one)
    _find_faults(requests)
    others = [(request, one) for request, one in taken if not request.at_fault and not _is_own_fault(one)]
    outcomes = [Outcome(one.granted_at, one.failure is not None, one.in_flight) for _, one in others]

    load, spells = _explanation(outcomes, began_at, recorded_s)
    inside = [spells is not None and spells.within(one.granted_at) for _, one in others]
    failed = [(pair, within) for pair, within in zip(others, inside, strict=True) if pair[1].failure is not None]
    chance = [pair for pair, within in failed if not within]
    tried = len(inside) - sum(inside)
    return Failures(
        rate=len(chance) / max(1, tried),
        load=load,
        spells=spells,
        chance=chance,
        in_spells=[pair for pair, within in failed if within],
        requests=requests,
        tried=tried,
        recorded=(began_at, began_at + recorded_s),
    )


# --- By request ---------------------------------------------------------------------------------------------------


def _is_own_fault(one: TracedAttempt) -> bool:
    return one.failed_as(FailureKind.CLIENT_ERROR)


def _find_faults(requests: Sequence[RequestStep]) -> None:
    """Set which requests are at fault themselves: by what they failed with, or by how often."""
    by_original: dict[RequestStep, list[RequestStep]] = {}
    for request in requests:
        if _is_own_fault(request.unrefused[-1]):
            request.at_fault = True
            continue
        original = request
        while original.repeats is not None:
            original = original.repeats
        by_original.setdefault(original, []).append(request)
    everything = [one for request in requests for one in request.unrefused]
    answered_at = sorted(one.granted_at for one in everything if one.failure is None)
    for same in by_original.values():
        mine = [one for request in same for one in request.unrefused]
        if len(mine) < _FEW or not all(one.failure is not None for one in mine):
            continue
        others = len(everything) - len(mine)
        share = (others - len(answered_at) + 0.5) / (others + 1.0)
        between = bisect_left(answered_at, mine[-1].granted_at) - bisect_right(answered_at, mine[0].granted_at)
        if between >= _FEW and len(by_original) * share ** len(mine) < _POISONED:
            for request in same:
                request.at_fault = True


def _said_of_requests(requests: Sequence[RequestStep]) -> Iterator[str]:
    at_fault = [request for request in requests if request.at_fault]
    if not at_fault:
        return
    fine = [request.arrived.size_chars for request in requests if request.answered is not None]
    sizes = [request.arrived.size_chars for request in at_fault]
    mostly = _mostly([request.unrefused[-1] for request in at_fault])
    if len(sizes) >= _FEW and fine and min(sizes) > max(fine):
        yield f"requests above about {count(round((min(sizes) + max(fine)) / 2, -2))} characters always fail{mostly}"
    else:
        yield f"{plural(len(at_fault), 'request')} always {'fails' if len(at_fault) == 1 else 'fail'}{mostly}"


# --- Explanations -------------------------------------------------------------------------------------------------


class _Chance(Struct, frozen=True):
    """The same share fails always."""

    share: float

    def score(self, segments: Sequence[Sequence[Outcome]]) -> float:
        return sum(log_likelihood(each, [self.share] * len(each)) for each in segments)


def _explanation(outcomes: Sequence[Outcome], began_at: float, recorded_s: float) -> tuple[Load | None, Spells | None]:
    """Return the load or the spells that explain failures best; neither where chance does."""
    if sum(one.failed for one in outcomes) < _FEW:
        return None, None
    folds = [_split(outcomes, part) for part in range(_PARTS)]
    scores = [0.0] * 3
    for train, test in folds:
        chance = _Chance(share_failed([one for each in train for one in each]))
        for index, model in enumerate((chance, fit_load(train), fit_chain(train, recorded_s))):
            scores[index] += (model or chance).score([test])
    best = scores[0] + _MARGIN
    chain = fit_chain([outcomes], recorded_s) if scores[2] > best else None
    spells = None if chain is None else spells_of(chain, outcomes, began_at)
    if spells is not None:
        best = scores[2]
    load = fit_load([outcomes]) if scores[1] > best else None
    return (load, None) if load is not None else (None, spells)


def _split(outcomes: Sequence[Outcome], part: int) -> tuple[list[Sequence[Outcome]], Sequence[Outcome]]:
    """Return what is before and after a part, and that part."""
    low, high = len(outcomes) * part // _PARTS, len(outcomes) * (part + 1) // _PARTS
    return [each for each in (outcomes[:low], outcomes[high:]) if each], outcomes[low:high]


# --- Sentences ----------------------------------------------------------------------------------------------------


def _said_of_spells(spells: Spells, failed: Sequence[TracedAttempt]) -> str:
    share = "everything failed" if spells.share > 0.99 else f"{percent(spells.share)} of attempts failed"
    number = len(spells.recorded)
    return f"{share}{_mostly(failed)} in {plural(number, 'spell')} of about {_about(spells.lasts_s)}"


def _about(seconds: float) -> str:
    return duration(round(seconds)) if seconds >= 10 else duration(float(f"{seconds:.2g}"))


def _mostly(failed: Sequence[TracedAttempt]) -> str:
    names = Counter(
        "" if one.failure is None else str(one.failure.status or one.failure.kind.value.replace("_", " "))
        for one in failed
    )
    if not names:
        return ""
    name, most = names.most_common(1)[0]
    return f" with {name}" if most == len(failed) else f", mostly {name}" if most > len(failed) / 2 else ""


def _usual_in_flight(requests: Sequence[RequestStep]) -> tuple[int, int]:
    """Return a small and a large number in flight of the recording."""
    each = sorted(one.in_flight for request in requests for one in request.unrefused)
    return max(1, each[len(each) // 10]), max(1, each[-1 - len(each) // 10])


# --- In a simulation ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FailureState:
    """The failures of one lane in one simulation."""

    fitted: Failures
    rng: random.Random
    """Only its beginning is used, so that simulations with the same seed have the same spells and luck."""
    draws: bool
    """Failures are drawn anew, rather than as recorded."""
    _seed: int = field(init=False)
    _spells: Iterator[tuple[float, float]] | None = None
    _spell: tuple[float, float] = (-math.inf, -math.inf)
    """The present spell or the next one."""
    _made: dict[RequestStep, int] = field(default_factory=dict)
    """Attempts that got as far as to have luck."""

    def __post_init__(self) -> None:
        self._seed = self.rng.getrandbits(62)
        spells = self.fitted.spells
        if spells is not None:
            own = random.Random(self._seed)
            redrawn = self.draws and own.random() < 0.5
            # Spells are the provider's: they would have come at the same times, or they are as random as luck.
            self._spells = timeline(spells, *self.fitted.recorded, own, redrawn=redrawn)

    def in_spell(self, now: float, request: RequestStep) -> TracedAttempt | None:
        """Return how an attempt fails that begins in a spell; None: it doesn't, or there is no spell."""
        fitted = self.fitted
        if fitted.spells is None or not self._within(now) or self._luck(request) >= fitted.spells.share:
            return None
        return self._failure(request, fitted.in_spells)

    def by_chance(self, request: RequestStep, in_flight: int) -> TracedAttempt | None:
        """Return how an attempt fails that no spell lets fail, if it does."""
        fitted = self.fitted
        if request.at_fault:
            recorded = self._recorded(request)
            return recorded if recorded is not None and recorded.failure is not None else request.unrefused[-1]
        if fitted.chance and self._luck(request) < fitted.outside(in_flight):
            return self._failure(request, fitted.chance)
        return None

    def tried(self, request: RequestStep) -> None:
        """Count an attempt that the provider's limits didn't refuse."""
        self._made[request] = self._made.get(request, 0) + 1

    def _within(self, now: float) -> bool:
        if self._spells is None:
            return False
        while self._spell[1] <= now:
            self._spell = next(self._spells)
        return self._spell[0] <= now

    def _recorded(self, request: RequestStep) -> TracedAttempt | None:
        made = self._made.get(request, 0)
        recorded = request.unrefused
        return recorded[made] if made < len(recorded) and not self.draws else None

    def _luck(self, request: RequestStep) -> float:
        made = self._made.get(request, 0)
        drawn = luck(self._seed, request.number, made)
        if self.draws:
            return drawn
        recorded = self._recorded(request)
        if recorded is None:
            # The last recorded attempt may have been under way when its client left: it hadn't failed.
            mine = request.attempts
            under_way = mine and not mine[-1].complete and made == len(request.unrefused)
            recorded = mine[-1] if under_way else None
        if recorded is None:
            return drawn
        share = self.fitted.share(recorded.granted_at, recorded.in_flight)
        return drawn * share if recorded.failure is not None else share + drawn * (1.0 - share)

    def _failure(self, request: RequestStep, others: Sequence[RequestAttempt]) -> TracedAttempt | None:
        """Return the request's own failure, or else another one."""
        recorded = self._recorded(request)
        if recorded is not None and recorded.failure is not None:
            return recorded
        if not others:
            return None
        drawn = luck(self._seed + 1, request.number, self._made.get(request, 0))
        return others[int(drawn * len(others))][1]
