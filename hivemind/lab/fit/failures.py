"""Failures that neither rate limits nor places explain: outages, and chance."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.scheduler.types import FailureKind
from hivemind.text.humanise import percent, plural

OUTAGE_ATTEMPTS = 5
"""So many failed attempts in a row are an outage rather than chance."""
_OUTAGE_KINDS = frozenset(
    {
        FailureKind.OVERLOADED,
        FailureKind.SERVER_ERROR,
        FailureKind.CONNECT,
        FailureKind.DISCONNECTED,
        FailureKind.TIMEOUT,
        FailureKind.RATE_LIMITED,
    }
)


@dataclass(slots=True)
class Outage:
    """A time in which every attempt failed."""

    began_at: float
    ended_at: float
    of: dict[RequestStep, list[TracedAttempt]]
    """The attempts of each request."""
    attempts: list[TracedAttempt]


@dataclass(frozen=True, slots=True)
class Failures:
    """What fails besides refusals."""

    outages: Sequence[Outage]
    """In order; a simulation longer than the recording repeats them."""
    chance: Sequence[RequestAttempt]
    """Failures that no outage explains."""
    rate: float
    """The share of these among attempts outside of outages and without refusals."""
    recorded_s: float
    """The length of the recording."""

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        if self.outages:
            yield f"every attempt failed in {plural(len(self.outages), 'outage')}"
        if self.chance:
            yield f"{percent(self.rate)} of the other attempts failed by chance"


def fit_failures(taken: Sequence[RequestAttempt], recorded_s: float) -> Failures:
    """Fit them to attempts that nothing else explains, in order of their beginnings."""
    outages = _find_outages(taken)
    explained = {id(one) for outage in outages for one in outage.attempts}
    answered = sum(one.failure is None for _, one in taken)
    chance = [(each, one) for each, one in taken if one.failure is not None and id(one) not in explained]
    return Failures(outages, chance, len(chance) / (len(chance) + answered) if chance else 0.0, recorded_s)


def _find_outages(taken: Sequence[RequestAttempt]) -> list[Outage]:
    """Return the runs of failed attempts, ordered by their beginnings."""
    outages: list[Outage] = []
    run: list[RequestAttempt] = []
    before_at: float | None = None
    for request, one in taken:
        if one.failure is not None and one.failure.kind in _OUTAGE_KINDS:
            run.append((request, one))
            continue
        if len(run) >= OUTAGE_ATTEMPTS:
            outages.append(_outage(run, before_at, one.granted_at))
        run.clear()
        before_at = one.granted_at
    if len(run) >= OUTAGE_ATTEMPTS:
        outages.append(_outage(run, before_at, None))
    return outages


def _outage(run: Sequence[RequestAttempt], before_at: float | None, after_at: float | None) -> Outage:
    """Return the outage, which begins between the last good attempt and the first failed one, and ends likewise."""
    first, last = run[0][1].granted_at, run[-1][1].granted_at
    began = first if before_at is None else max((before_at + first) / 2, first - (last - first) / len(run))
    ended = last if after_at is None else (last + after_at) / 2
    of: dict[RequestStep, list[TracedAttempt]] = {}
    for request, one in run:
        of.setdefault(request, []).append(one)
    return Outage(began, max(ended, last + 1e-6), of, [one for _, one in run])


@dataclass(slots=True)
class FailureState:
    """The failures of one lane in one simulation."""

    fitted: Failures
    began_at: float
    rng: random.Random
    _cycle: int = 0
    """How often the recording's outages have come again."""
    _outage: int = 0
    """The index of the present or next one."""
    _outage_attempts: int = 0
    _used: dict[RequestStep, int] = field(default_factory=dict)
    """Recorded attempts of the present outage that each request has repeated."""

    def in_outage(self, now: float, request: RequestStep) -> TracedAttempt | None:
        """Return how an attempt fails that begins in an outage; None: there is none now."""
        outage = self._outage_at(now)
        return None if outage is None else self._in_outage(outage, request)

    def by_chance(self) -> TracedAttempt | None:
        """Return how an attempt fails by chance, if it does."""
        fitted = self.fitted
        if fitted.chance and self.rng.random() < fitted.rate:
            return self.rng.choice(fitted.chance)[1]
        return None

    def _outage_at(self, now: float) -> Outage | None:
        outages, recorded_s = self.fitted.outages, self.fitted.recorded_s
        if not outages:
            return None
        cycle = int((now - self.began_at) / recorded_s)
        at = now - cycle * recorded_s
        if cycle != self._cycle:
            self._cycle, self._outage = cycle, 0
            self._used.clear()
        while self._outage < len(outages) and outages[self._outage].ended_at <= at:
            self._outage += 1
            self._used.clear()
        if self._outage < len(outages) and outages[self._outage].began_at <= at:
            return outages[self._outage]
        return None

    def _in_outage(self, outage: Outage, request: RequestStep) -> TracedAttempt:
        """Return the request's own recorded attempts in the outage, then those of others."""
        inherent = outage.of.get(request)
        if inherent is not None:
            used = self._used.get(request, 0)
            if used < len(inherent):
                self._used[request] = used + 1
                return inherent[used]
        self._outage_attempts += 1
        return outage.attempts[self._outage_attempts % len(outage.attempts)]
