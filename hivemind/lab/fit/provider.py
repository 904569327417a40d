"""A provider fitted to a recording: places, rate limits, failures and the time of answers.

In a simulation it decides how each attempt ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.lab.fit.cache import Cache, CacheState, fit_cache
from hivemind.lab.fit.failures import Failures, FailureState, fit_failures
from hivemind.lab.fit.limiter import FittedLimit, LimitState, amounts_of
from hivemind.lab.fit.limits import (
    Limits,
    Traffic,
    explain,
    fit_limits,
    formed_limits,
    shared_limits,
    stated_by_refusals,
    with_answers,
    with_outside_use,
)
from hivemind.lab.fit.pressure import Places
from hivemind.lab.fit.service import Service, ServiceState
from hivemind.lab.fit.service_clock import ServiceClock
from hivemind.lab.fit.untold import NOTHING_UNTOLD, Untold, fit_untold
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind, Usage

_QUICK_S = 0.02
"""The time of a refusal, if none was recorded."""
_OUT = Failure(FailureKind.SERVER_ERROR, True, 503, None)


class FittedProvider(Struct, frozen=True):
    """The model of the provider behind one lane."""

    lane: LaneTrace
    places: Places | None
    limits: Sequence[FittedLimit]
    failures: Failures
    service: Service
    refused_s: float
    """The time of a refusal."""
    cache: Cache | None = None
    untold: Untold = NOTHING_UNTOLD
    """Where places and unreported limits come from, with what else they may be."""
    latency: float = 1.0
    """Asked is what would be if answers took so many times as long."""
    outage: tuple[float, float] | None = None
    """Asked is what would be if every attempt between these times failed."""

    def drawn(self, rng: random.Random) -> FittedProvider:
        """Return another provider that the recording allows as well, which answers as fast."""
        failures = self.failures.drawn(rng)
        cache = self.cache and self.cache.drawn(rng)
        untold = self.untold.drawn(rng)
        inferred = list(self.untold.limits)
        limits = [each.drawn(rng) for each in self.limits if each.reported and each not in inferred]
        if self.places is self.untold.places and self.limits[len(limits) :] == inferred:
            limits.extend(untold.limits)
            return replace(self, failures=failures, cache=cache, limits=limits, places=untold.places)
        # What was asked about them holds.
        limits.extend(each for each in self.limits if not each.reported)
        return replace(self, failures=failures, cache=cache, limits=limits)

    def sentences(self) -> Iterator[str]:
        """Say what was found, a sentence for each cause."""
        for limit in self.limits:
            yield from limit.sentences()
        if self.places is not None:
            yield from self.places.sentences()
        yield from self.failures.sentences()
        if self.cache is not None:
            yield from self.cache.sentences()
        yield from self.service.sentences()


def draw_providers(providers: Mapping[str, FittedProvider], rng: random.Random) -> dict[str, FittedProvider]:
    """Return other providers that the recording allows as well; lanes of one upstream still share its speed."""
    services = {id(each.service): each.service.drawn(rng) for each in providers.values()}
    return {key: replace(each.drawn(rng), service=services[id(each.service)]) for key, each in providers.items()}


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
    told: Limits = {key: fit_limits(lanes[key].readings, trace.began.at) for key in requests}
    told = with_outside_use(traffic, shared_limits(traffic, formed_limits(traffic, told)))
    refusals = explain(traffic, told)
    told = {key: with_answers(mine, refusals[key]) for key, mine in told.items()}
    recorded = (trace.began.at, max(1.0, trace.ends_at - trace.began.at))

    def find_untold(key: str) -> Untold:
        explained = set(map(id, refusals[key]))
        stated = [*stated_by_refusals(lanes[key].readings)]
        find = partial(fit_untold, sent[key], reserves=lanes[key].reserves, told=bool(told[key]), stated=stated)
        found = find(explained, trace.ends_at)
        if found.refusals:
            return found
        # Spells hide a limit that refuses as they do, and the limit is found in what they leave.
        failures = fit_failures([(each, one) for each, one in taken[key] if id(one) not in explained], *recorded)
        in_spells = {id(one) for _, one in failures.in_spells}
        return find(explained | in_spells, trace.ends_at) if in_spells else found

    untold = {key: find_untold(key) for key in requests}
    services = _fit_services(lanes, sent, trace.began.at, trace.ends_at)
    return {
        key: _fitted(
            *(lanes[key], requests[key], taken[key], told[key], refusals[key], untold[key]),
            *(services[key], fit_cache(sent[key]), recorded),
        )
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
    untold: Untold,
    service: Service,
    cache: Cache | None,
    recorded: tuple[float, float],
) -> FittedProvider:
    refusals = [*refusals, *untold.refusals]
    explained = {id(one) for _, one in taken if one.failure is not None and one.failure.kind is FailureKind.CUT}
    explained.update(map(id, refusals))  # what an operator ended tells nothing of the provider
    failures = fit_failures([(each, one) for each, one in taken if id(one) not in explained], *recorded)
    explained.update(id(one) for _, one in failures.in_spells)
    for each in requests:
        each.inherent = [one for one in each.attempts if id(one) not in explained]
    refused_s = median([one.duration_s for one in refusals] or [_QUICK_S])
    limits = [*limits, *untold.limits]
    return FittedProvider(lane, untold.places, limits, failures, service, refused_s, cache, untold)


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
    cache: CacheState = field(init=False)
    clock: ServiceClock | None = None
    """Shared by the lanes of one upstream; None: the times of answers depend on nothing but the answers."""
    _in_process: int = 0

    def __post_init__(self) -> None:
        self.service = ServiceState(self.provider.service, self.rng.getrandbits(62))
        self.failures = FailureState(self.provider.failures, self.rng, self.draws)
        self.cache = CacheState(self.provider.cache)

    def answer(self, now: float, request: RequestStep, inherent: TracedAttempt | None, in_flight: int) -> TracedAttempt:
        """Decide how an attempt ends that begins now with so many in flight, itself included.

        `inherent` is the recorded attempt to repeat, if any.
        """
        provider = self.provider
        if provider.outage is not None and provider.outage[0] <= now < provider.outage[1]:
            return self._refusal(_OUT)
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
        used = chosen.usage
        if not chosen.uncharged:
            used = self.cache.usage(now, request, chosen)
            family, amounts = request.arrived.family, amounts_of(request, used)
            wait_s, delay_s = self.limiter.refuses(now, family, amounts)
            if wait_s > 0:
                return self._refusal(Failure(FailureKind.RATE_LIMITED, True, 429, delay_s))
            self.limiter.charge(now, family, amounts)
        self.failures.tried(request)
        answer = _result_of(chosen, own=chosen is inherent)
        self._in_process += answer.charged
        self.service.begin(answer, chosen)
        if used is not chosen.usage:
            self.service.resize(request, answer, used)
        if provider.latency != 1.0 and answer.charged:
            answer.slow_down(provider.latency)
        return answer

    def over(self, now: float, request: RequestStep, answer: TracedAttempt) -> None:
        """End an attempt."""
        self._in_process -= answer.charged
        if answer.charged:
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
    result = replace(one)
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
