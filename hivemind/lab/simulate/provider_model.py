"""The fitted provider in a simulation, which decides how each attempt ends."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

from hivemind.lab.fit.limiter import Limiter, amounts_of
from hivemind.lab.fit.provider import FittedProvider, Outage
from hivemind.lab.trace.steps import Attempt, RequestStep
from hivemind.scheduler.types import Failure, FailureKind, Usage

_TRIES = 8
"""Recorded answers drawn to find one to a request of the same kind."""


@dataclass(slots=True)
class ProviderModel:
    """The provider behind one lane in one simulation."""

    provider: FittedProvider
    limiter: Limiter
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

    def answer(self, now: float, request: RequestStep, inherent: Attempt | None, in_flight: int) -> Attempt:
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
            return Attempt(duration_s=provider.refused_s, usage=usage, charged=False)
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

    def over(self, now: float, request: RequestStep, answer: Attempt) -> None:
        """End an attempt."""
        if answer.charged:
            self._in_process -= 1
            self.limiter.settle(now, request.arrived.family, answer.usage)

    def left(self, answer: Attempt) -> None:
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

    def _in_outage(self, outage: Outage, request: RequestStep) -> Attempt:
        """Return the request's own recorded attempts in the outage, then those of others."""
        inherent = outage.of.get(request)
        if inherent is not None:
            used = self._used.get(request, 0)
            if used < len(inherent):
                self._used[request] = used + 1
                return inherent[used]
        self._outage_attempts += 1
        return outage.attempts[self._outage_attempts % len(outage.attempts)]

    def _refusal(self, kind: FailureKind, status: int, delay_s: float | None) -> Attempt:
        failure = Failure(kind, True, status, delay_s)
        return Attempt(duration_s=self.provider.refused_s, failure=failure, status=status, charged=False)

    def _choose(self, request: RequestStep, inherent: Attempt | None) -> Attempt | None:
        """Return the recorded attempt, or draw one, or None if the recording has none to draw from."""
        provider, rng = self.provider, self.rng
        if inherent is not None and not self.draws:
            return inherent
        answered = request.answered
        if (self.draws or answered is None) and provider.faults and rng.random() < provider.fault_rate:
            return rng.choice(provider.faults)[1]
        return self._answer_like(request, answered)

    def _answer_like(self, request: RequestStep, answered: Attempt | None) -> Attempt | None:
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
        return Attempt(
            pattern.granted_at,
            pattern.in_flight,
            first_s,
            duration_s=first_s + rest_s,
            usage=usage,
            status=status,
            complete=True,
        )

    def _scale(self, answer: Attempt, chosen: Attempt, now: float, in_flight: int) -> None:
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


def _result_of(one: Attempt, *, own: bool) -> Attempt:
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
