"""A provider fitted to a recording: rate limits, outages, latencies and random faults.

In a simulation it decides how each attempt ends.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from hivemind.lab.fit.latency import LatencyModel, Sample, fit_latency
from hivemind.lab.fit.limiter import FittedLimit, LimitState, amounts_of
from hivemind.lab.fit.limits import (
    Limits,
    Traffic,
    explain,
    fit_limits,
    limits_from_refusals,
    shared_limits,
    with_outside_use,
)
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.scheduler.types import Failure, FailureKind, Usage

OUTAGE_ATTEMPTS = 5
"""So many failed attempts in a row are an outage rather than chance."""
_QUICK_S = 0.02
"""The time of a refusal, if none was recorded."""
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
_TRIES = 8
"""Recorded answers drawn to find one to a request of the same kind."""


@dataclass(slots=True)
class Outage:
    """A time in which every attempt failed."""

    began_at: float
    ended_at: float
    of: dict[RequestStep, list[TracedAttempt]]
    """The attempts of each request."""
    attempts: list[TracedAttempt]


@dataclass(slots=True)
class FittedProvider:
    """The model of the provider behind one lane."""

    lane: LaneTrace
    limits: Sequence[FittedLimit]
    max_in_flight: int | None
    """Requests in process above which it refuses as overloaded; None: unknown."""
    outages: list[Outage]
    """In order; a simulation longer than the recording repeats them."""
    recorded_s: float
    """The length of the recording."""
    refused_s: float
    """The time of a refusal."""
    latency: LatencyModel
    """The latency to the first content."""
    pace: LatencyModel
    """The time from the first content to the end."""
    answered: list[RequestAttempt]
    faults: list[RequestAttempt]
    """Failures that neither limits nor outages explain."""
    fault_rate: float
    """The share of these among attempts outside of outages and without refusals."""


def fit_providers(
    trace: Trace, lanes: Mapping[str, LaneTrace], requests: Mapping[str, Sequence[RequestStep]]
) -> dict[str, FittedProvider]:
    """Fit the provider of each lane to its requests, and set the inherent attempts of each request."""
    sent = {
        key: sorted(((each, one) for each in steps for one in each.attempts), key=lambda pair: pair[1].granted_at)
        for key, steps in requests.items()
    }
    taken = {key: [(each, one) for each, one in pairs if one.complete] for key, pairs in sent.items()}
    traffic = Traffic(trace, lanes, sent)
    limits: Limits = {
        key: fit_limits(lanes[key].readings, trace.began.at) or limits_from_refusals(taken[key]) for key in requests
    }
    limits = with_outside_use(traffic, shared_limits(traffic, limits))
    refusals = explain(traffic, limits)
    recorded_s = max(1.0, trace.ends_at - trace.began.at)
    return {
        key: _fitted(lanes[key], requests[key], taken[key], limits[key], refusals[key], recorded_s) for key in requests
    }


def _fitted(
    lane: LaneTrace,
    requests: Sequence[RequestStep],
    taken: Sequence[RequestAttempt],
    limits: Sequence[FittedLimit],
    refusals: list[TracedAttempt],
    recorded_s: float,
) -> FittedProvider:
    explained = set(map(id, refusals))
    max_in_flight = _max_in_flight(taken)
    if max_in_flight is not None:
        over = [one for one, n in _in_process(taken) if one.failed_as(FailureKind.OVERLOADED) and n > max_in_flight]
        refusals += over
        explained.update(map(id, over))
    # The rest are outages and chance.
    outages = _find_outages([(each, one) for each, one in taken if id(one) not in explained])
    for outage in outages:
        explained.update(map(id, outage.attempts))
    for each in requests:
        each.inherent = [one for one in each.attempts if id(one) not in explained]
    answered = [(each, one) for each, one in taken if one.failure is None]
    faults = [(each, one) for each, one in taken if one.failure is not None and id(one) not in explained]
    return FittedProvider(
        lane,
        limits,
        max_in_flight,
        outages,
        recorded_s,
        median([one.duration_s for one in refusals] or [_QUICK_S]),
        fit_latency([Sample(t.granted_at, t.in_flight, a.arrived.size_chars, t.parts_s[0]) for a, t in answered]),
        fit_latency(
            [
                Sample(t.granted_at, t.in_flight, t.usage.output_tokens, t.duration_s - t.first_s)
                for _, t in answered
                if t.usage is not None and t.first_s is not None and t.duration_s > t.first_s
            ]
        ),
        answered,
        faults,
        len(faults) / (len(faults) + len(answered)) if faults else 0.0,
    )


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


def _max_in_flight(taken: Sequence[RequestAttempt]) -> int | None:
    """Return the number in process above which nearly all attempts were refused as overloaded, and few below."""
    over: list[int] = []
    accepted: list[int] = []
    for one, in_process in _in_process(taken):
        if one.failed_as(FailureKind.OVERLOADED):
            over.append(in_process)
        elif not one.uncharged:
            accepted.append(in_process)
    if len(over) < 3:
        return None
    for most in range(max(1, min(over) - 1), max(over)):
        above = sum(1 for each in accepted if each > most)
        refused = sum(1 for each in over if each > most)
        if refused >= 0.6 * len(over) and above <= 0.05 * (above + refused):
            return most
    return None


def _in_process(taken: Sequence[RequestAttempt]) -> Iterator[tuple[TracedAttempt, int]]:
    """Yield each attempt with the number in process at its beginning, itself included; refused ones don't count."""
    moments = [(one.granted_at, 1, one) for _, one in taken]
    moments += [(one.granted_at + one.duration_s, 0, one) for _, one in taken if not one.uncharged]
    moments.sort(key=lambda moment: moment[:2])
    in_process = 0
    for _, begins, one in moments:
        if not begins:
            in_process -= 1
            continue
        yield one, in_process + 1
        in_process += not one.uncharged


@dataclass(slots=True)
class ProviderModel:
    """The provider behind one lane in one simulation."""

    provider: FittedProvider
    limiter: LimitState
    began_at: float
    rng: random.Random
    draws: bool
    """Faults and latencies are drawn anew."""
    _in_process: int = 0
    _cycle: int = 0
    """How often the recording's outages have come again."""
    _outage: int = 0
    """The index of the present or next one."""
    _outage_attempts: int = 0
    _used: dict[RequestStep, int] = field(default_factory=dict)
    """Recorded attempts of the present outage that each request has repeated."""

    def answer(self, now: float, request: RequestStep, inherent: TracedAttempt | None, in_flight: int) -> TracedAttempt:
        """Decide how an attempt ends that begins now with so many in flight, itself included.

        `inherent` is the recorded attempt to repeat, if any.
        """
        provider = self.provider
        outage = self._outage_at(now)
        if outage is not None:
            return replace(_result_of(self._in_outage(outage, request), own=False), charged=False)
        if provider.max_in_flight is not None and self._in_process >= provider.max_in_flight:
            return self._refusal(FailureKind.OVERLOADED, 529, None)
        chosen = self._choose(request, inherent)
        if chosen is None:
            usage = Usage(request.arrived.estimated_input, 0, 0, 1)  # the recording has no answer
            return TracedAttempt(duration_s=provider.refused_s, usage=usage, charged=False)
        if not chosen.uncharged:
            family, amounts = request.arrived.family, amounts_of(request, chosen)
            wait_s = self.limiter.wait_s(now, family, amounts)
            if wait_s > 0:
                return self._refusal(FailureKind.RATE_LIMITED, 429, float(math.ceil(wait_s)))
            self.limiter.charge(now, family, amounts)
        answer = _result_of(chosen, own=chosen is inherent)
        self._in_process += answer.charged
        self._scale(answer, chosen, now, in_flight)
        return answer

    def over(self, now: float, request: RequestStep, answer: TracedAttempt) -> None:
        """End an attempt."""
        if answer.charged:
            self._in_process -= 1
            self.limiter.settle(now, request.arrived.family, answer.usage)

    def left(self, answer: TracedAttempt) -> None:
        """End an attempt whose client left."""
        self._in_process -= answer.charged

    def _outage_at(self, now: float) -> Outage | None:
        outages, recorded_s = self.provider.outages, self.provider.recorded_s
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

    def _refusal(self, kind: FailureKind, status: int, delay_s: float | None) -> TracedAttempt:
        failure = Failure(kind, True, status, delay_s)
        return TracedAttempt(duration_s=self.provider.refused_s, failure=failure, status=status, charged=False)

    def _choose(self, request: RequestStep, inherent: TracedAttempt | None) -> TracedAttempt | None:
        """Return the recorded attempt, or draw one, or None if the recording has none to draw from."""
        provider, rng = self.provider, self.rng
        if inherent is not None and not self.draws:
            return inherent
        answered = request.answered
        if (self.draws or answered is None) and provider.faults and rng.random() < provider.fault_rate:
            return rng.choice(provider.faults)[1]
        return self._answer_like(request, answered)

    def _answer_like(self, request: RequestStep, answered: TracedAttempt | None) -> TracedAttempt | None:
        """Return an answer as long as the recorded one, if any, with the latency of another request of its kind."""
        provider, rng = self.provider, self.rng
        recorded = provider.answered
        if not recorded:
            return answered
        arrived = request.arrived
        for _ in range(_TRIES):
            other, pattern = rng.choice(recorded)
            if other.arrived.stream == arrived.stream and other.arrived.model == arrived.model:
                break
        usage = pattern.usage if answered is None else answered.usage
        first_s, rest_s = pattern.parts_s
        first_s *= provider.latency.size_factor(arrived.size_chars, other.arrived.size_chars)
        if usage is not None and pattern.usage is not None:
            rest_s *= provider.pace.size_factor(usage.output_tokens, pattern.usage.output_tokens)
        status = pattern.status if answered is None else answered.status
        return TracedAttempt(
            pattern.granted_at,
            pattern.in_flight,
            first_s,
            duration_s=first_s + rest_s,
            usage=usage,
            status=status,
            complete=True,
        )

    def _scale(self, answer: TracedAttempt, chosen: TracedAttempt, now: float, in_flight: int) -> None:
        provider = self.provider
        first_s, rest_s = answer.parts_s
        slower = provider.latency.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
        first_s *= slower
        if answer.headed_s is not None:
            answer.headed_s *= slower
        if answer.first_s is not None:
            rest_s *= provider.pace.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
            answer.first_s = first_s
        answer.duration_s = first_s + rest_s


def _result_of(one: TracedAttempt, *, own: bool) -> TracedAttempt:
    """Return a recorded attempt as one to simulate. `own`: it is the request's own."""
    result = replace(one, charged=not one.uncharged)
    if not own:
        result.first_number = result.end_number = None
    if one.failure is not None:
        result.headed_s = None
    else:
        result.headed_s, result.first_s = _before(one.duration_s, one.headed_s), _before(one.duration_s, one.first_s)
    return result


def _before(end_s: float, at_s: float | None) -> float | None:
    return None if at_s is None or at_s >= end_s else at_s
