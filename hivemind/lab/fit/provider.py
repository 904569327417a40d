"""A provider fitted to a recording: places, rate limits, failures and the time of answers.

In a simulation it decides how each attempt ends.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from hivemind.errors import UsageError
from hivemind.lab.fit.failures import Failures, FailureState, fit_failures
from hivemind.lab.fit.limiter import FittedLimit, LimitState, amounts_of
from hivemind.lab.fit.limits import Limits, Traffic, explain, fit_limits, shared_limits, with_outside_use
from hivemind.lab.fit.places import Places, fit_places
from hivemind.lab.fit.service import Service, ServiceState
from hivemind.lab.fit.service_clock import ServiceClock
from hivemind.lab.fit.untold import limits_from_refusals
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.scheduler.types import Failure, FailureKind, Usage

_QUICK_S = 0.02
"""The time of a refusal, if none was recorded."""


@dataclass(frozen=True, slots=True)
class FittedProvider:
    """The model of the provider behind one lane."""

    lane: LaneTrace
    places: Places | None
    limits: Sequence[FittedLimit]
    failures: Failures
    service: Service
    refused_s: float
    """The time of a refusal."""

    def drawn(self, rng: random.Random) -> FittedProvider:
        """Return another provider that the recording allows as well."""
        return replace(self, failures=self.failures.drawn(rng))

    def sentences(self) -> Iterator[str]:
        """Say what was found, a sentence for each cause."""
        if self.places is not None:
            yield from self.places.sentences()
        yield from self.failures.sentences()
        yield from self.service.sentences()


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
    recorded = (trace.began.at, max(1.0, trace.ends_at - trace.began.at))
    services = _fit_services(lanes, sent, trace.began.at, trace.ends_at)
    return {
        key: _fitted(lanes[key], requests[key], taken[key], limits[key], refusals[key], services[key], recorded)
        for key in requests
    }


def _fit_services(
    lanes: Mapping[str, LaneTrace], sent: Mapping[str, Sequence[RequestAttempt]], began_at: float, ends_at: float
) -> dict[str, Service]:
    """Fit the time of answers of each lane to all its attempts; lanes of one upstream share it and its load.

    Raises: UsageError: numpy isn't installed.
    """
    try:
        from hivemind.lab.fit.answers import Answers
        from hivemind.lab.fit.service_fit import fit_answers
    except ImportError as error:
        raise UsageError(f"simulating needs numpy ({error}): pip install 'hivemind-tui[lab]', or make setup") from None
    by_upstream: dict[str, list[str]] = {}
    for key in sent:
        by_upstream.setdefault(lanes[key].upstream, []).append(key)
    found = {}
    for keys in by_upstream.values():
        service = fit_answers(Answers([each for key in keys for each in sent[key]], began_at, ends_at))
        found.update(dict.fromkeys(keys, service))
    return found


def _fitted(
    lane: LaneTrace,
    requests: Sequence[RequestStep],
    taken: Sequence[RequestAttempt],
    limits: Sequence[FittedLimit],
    refusals: Sequence[TracedAttempt],
    service: Service,
    recorded: tuple[float, float],
) -> FittedProvider:
    places = fit_places(taken)
    refusals = [*refusals, *(places.refusals if places is not None else ())]
    explained = set(map(id, refusals))
    failures = fit_failures([(each, one) for each, one in taken if id(one) not in explained], *recorded)
    explained.update(id(one) for _, one in failures.in_spells)
    for each in requests:
        each.inherent = [one for one in each.attempts if id(one) not in explained]
    return FittedProvider(
        lane, places, limits, failures, service, median([one.duration_s for one in refusals] or [_QUICK_S])
    )


@dataclass(slots=True)
class ProviderModel:
    """The provider behind one lane in one simulation."""

    provider: FittedProvider
    limiter: LimitState
    began_at: float
    rng: random.Random
    draws: bool
    """Faults and latencies are drawn anew."""
    failures: FailureState = field(init=False)
    service: ServiceState = field(init=False)
    clock: ServiceClock | None = None
    """Shared by the lanes of one upstream; None: the times of answers depend on nothing but the answers."""
    _in_process: int = 0

    def __post_init__(self) -> None:
        self.service = ServiceState(self.provider.service, random.Random(self.rng.random()))
        self.failures = FailureState(self.provider.failures, self.rng, self.draws)

    def answer(self, now: float, request: RequestStep, inherent: TracedAttempt | None, in_flight: int) -> TracedAttempt:
        """Decide how an attempt ends that begins now with so many in flight, itself included.

        `inherent` is the recorded attempt to repeat, if any.
        """
        provider = self.provider
        failed = self.failures.in_spell(now, request)
        if failed is not None and failed.uncharged:
            self.failures.tried(request)
            return _result_of(failed, own=failed is inherent)
        if provider.places is not None and self._in_process >= provider.places.most:
            return self._refusal(provider.places.failure)
        if failed is None:
            failed = self.failures.by_chance(request, in_flight)
        chosen = failed or self._choose(request, inherent)
        if chosen is None:
            usage = Usage(request.arrived.estimated_input, 0, 0, 1)  # the recording has no answer
            return TracedAttempt(duration_s=provider.refused_s, usage=usage, charged=False)
        if not chosen.uncharged:
            family, amounts = request.arrived.family, amounts_of(request, chosen)
            wait_s = self.limiter.wait_s(now, family, amounts)
            if wait_s > 0:
                return self._refusal(Failure(FailureKind.RATE_LIMITED, True, 429, float(math.ceil(wait_s))))
            self.limiter.charge(now, family, amounts)
        self.failures.tried(request)
        answer = _result_of(chosen, own=chosen is inherent)
        self._in_process += answer.charged
        self.service.begin(answer, chosen)
        return answer

    def clock_of(self, _: TracedAttempt) -> ServiceClock | None:
        """Return the clock by which an answer ends."""
        return self.clock

    def over(self, now: float, request: RequestStep, answer: TracedAttempt) -> None:
        """End an attempt."""
        if answer.charged:
            self._in_process -= 1
            self.limiter.settle(now, request.arrived.family, answer.usage)

    def left(self, answer: TracedAttempt) -> None:
        """End an attempt whose client left."""
        self._in_process -= answer.charged

    def _refusal(self, failure: Failure) -> TracedAttempt:
        status = failure.status or 0
        return TracedAttempt(duration_s=self.provider.refused_s, failure=failure, status=status, charged=False)

    def _choose(self, request: RequestStep, inherent: TracedAttempt | None) -> TracedAttempt | None:
        """Return the recorded answer, or draw one, or None if the recording has none to draw from."""
        if inherent is not None and not self.draws:
            if inherent.failure is None:
                return inherent
            if request.answered is not None:
                return request.answered
        return self.service.answer_like(request, request.answered)


def _result_of(one: TracedAttempt, *, own: bool) -> TracedAttempt:
    """Return a recorded attempt as one to simulate. `own`: it is the request's own."""
    result = one.copied()
    result.charged = not one.uncharged
    if not own:
        result.first_number = result.end_number = None
    if one.failure is not None:
        result.headed_s = None
    else:
        result.headed_s, result.first_s = _before(one.duration_s, one.headed_s), _before(one.duration_s, one.first_s)
    return result


def _before(end_s: float, at_s: float | None) -> float | None:
    return None if at_s is None or at_s >= end_s else at_s
