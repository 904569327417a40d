"""A fitted provider at work: what becomes of each attempt of a simulation."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from hivemind.lab.fit.limits import Amounts, Limiter, Pools
from hivemind.lab.fit.provider import FittedProvider, Outage
from hivemind.lab.fit.refusals import amounts_of, uncharged
from hivemind.lab.simulate.steps import Attempt, RequestStep
from hivemind.scheduler.types import Failure, FailureKind, Usage, WindowReading

_NOTHING = Amounts(0, 0)
_LIKE_IT = 8
"""Answers that are looked at to find one to a request of the same kind."""


@dataclass(slots=True)
class AttemptResult:
    """What becomes of one attempt."""

    duration_s: float
    first_s: float | None = None
    """To the first content, where that comes before the end."""
    headed_s: float | None = None
    """To the head, where that comes before the end."""
    usage: Usage | None = None
    failure: Failure | None = None
    """None: it is answered."""
    status: int = 200
    charged: bool = True
    recorded: Attempt | None = None
    """What was recorded of this very attempt, where it is that."""


class Upstream:
    """The upstream of one lane in one simulation."""

    def __init__(
        self,
        provider: FittedProvider,
        began_at: float,
        wall_offset: float,
        rng: random.Random,
        *,
        draws: bool,
        pools: Pools | None = None,
    ) -> None:
        """`wall_offset` is added to a moment to have the time of day; `draws`: faults and latencies are drawn anew;
        `pools` is what the upstreams of a simulation share."""
        self._provider = provider
        self._rng = rng
        self._draws = draws
        self._limiter = Limiter(provider.limits, began_at, wall_offset, reserves=provider.reserves, pools=pools)
        self._began_at = began_at
        self._at_work = 0
        self._again = self._outage = 0
        self._outage_attempts = 0
        self._used: dict[RequestStep, int] = {}
        """How many of its tries in the present spell each request has had."""

    def answer(self, now: float, request: RequestStep, inherent: Attempt | None, in_flight: int) -> AttemptResult:
        """What becomes of an attempt that begins now with so many in flight, itself included; `own` is what was
        recorded of it, None where nothing was."""
        provider = self._provider
        outage = self._outage_at(now)
        if outage is not None:
            answer = _as(self._in_outage(outage, request))
            answer.charged = False
            return answer
        if provider.max_in_flight is not None and self._at_work >= provider.max_in_flight:
            return self._refusal(FailureKind.OVERLOADED, 529, None)
        chosen = self._drawn(request, inherent)
        if chosen is None:
            return AttemptResult(
                provider.refused_s, usage=Usage(request.arrived.estimated_input, 0, 0, 1), charged=False
            )  # nothing was ever answered
        if not uncharged(chosen):
            family, amounts = request.arrived.family, amounts_of(request, chosen)
            wait_s = self._limiter.wait_s(now, family, amounts)
            if wait_s > 0:
                return self._refusal(FailureKind.RATE_LIMITED, 429, float(math.ceil(wait_s)))
            self._limiter.charge(now, family, amounts)
        answer = _as(chosen)
        answer.recorded = chosen if chosen is inherent else None
        self._at_work += answer.charged
        self._scale(answer, chosen, now, in_flight)
        return answer

    def over(self, now: float, request: RequestStep, answer: AttemptResult) -> None:
        """The attempt has ended."""
        if answer.charged:
            self._at_work -= 1
            self._limiter.settle(now, request.arrived.family, answer.usage)

    def left(self, answer: AttemptResult) -> None:
        """The attempt was given up."""
        self._at_work -= answer.charged

    def readings(self, now: float, family: str) -> tuple[WindowReading, ...]:
        """What a reply says of the rate windows."""
        return self._limiter.readings(now, family)

    def _outage_at(self, now: float) -> Outage | None:
        outages, recorded_s = self._provider.outages, self._provider.recorded_s
        if not outages:
            return None
        again = int((now - self._began_at) / recorded_s)
        at = now - again * recorded_s
        if again != self._again:
            self._again, self._outage = again, 0
            self._used.clear()
        while self._outage < len(outages) and outages[self._outage].ended_at <= at:
            self._outage += 1
            self._used.clear()
        if self._outage < len(outages) and outages[self._outage].began_at <= at:
            return outages[self._outage]
        return None

    def _in_outage(self, outage: Outage, request: RequestStep) -> Attempt:
        """What befell this very request in the spell, as long as that lasts; then what befell others."""
        inherent = outage.of.get(request)
        if inherent is not None:
            used = self._used.get(request, 0)
            if used < len(inherent):
                self._used[request] = used + 1
                return inherent[used]
        self._outage_attempts += 1
        return outage.attempts[self._outage_attempts % len(outage.attempts)]

    def _refusal(self, kind: FailureKind, status: int, delay_s: float | None) -> AttemptResult:
        failure = Failure(kind, True, status, delay_s)
        return AttemptResult(self._provider.refused_s, failure=failure, status=status, charged=False)

    def _drawn(self, request: RequestStep, inherent: Attempt | None) -> Attempt | None:
        """What was recorded, or, where nothing was or it is to be drawn anew, what might have been."""
        provider, rng = self._provider, self._rng
        if inherent is not None and not self._draws:
            return inherent
        answered = request.answered
        if (self._draws or answered is None) and provider.faults and rng.random() < provider.fault_rate:
            return rng.choice(provider.faults)[1]
        return self._like(request, answered)

    def _like(self, request: RequestStep, answered: Attempt | None) -> Attempt | None:
        """An answer as long as this one was, if it was answered, with the luck of another request of its kind."""
        provider, rng = self._provider, self._rng
        good = provider.good
        if not good:
            return answered
        arrived = request.arrived
        for _ in range(_LIKE_IT):
            other, pattern = rng.choice(good)
            if other.arrived.stream == arrived.stream and other.arrived.model == arrived.model:
                break
        usage = pattern.usage if answered is None else answered.usage
        first_s = pattern.duration_s if pattern.first_s is None else pattern.first_s
        rest_s = pattern.duration_s - first_s
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

    def _scale(self, answer: AttemptResult, chosen: Attempt, now: float, in_flight: int) -> None:
        provider = self._provider
        first_s = answer.duration_s if answer.first_s is None else answer.first_s
        rest_s = answer.duration_s - first_s
        slower = provider.latency.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
        first_s *= slower
        if answer.headed_s is not None:
            answer.headed_s *= slower
        if answer.first_s is not None:
            rest_s *= provider.pace.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
            answer.first_s = first_s
        answer.duration_s = first_s + rest_s


def _as(one: Attempt) -> AttemptResult:
    """What was recorded, once more."""
    told = one.failure
    if told is None:
        first_s = one.first_s if one.first_s is not None and one.first_s < one.duration_s else None
        headed_s = one.headed_s if one.headed_s is not None and one.headed_s < one.duration_s else None
        return AttemptResult(one.duration_s, first_s, headed_s, one.usage, None, one.status)
    failure = Failure(told.kind, told.retryable, told.status, told.delay_s, told.message)
    return AttemptResult(
        one.duration_s,
        one.first_s,  # once content has come, nobody tries again
        usage=one.usage,
        failure=failure,
        status=one.status,
        charged=not uncharged(one),
    )
