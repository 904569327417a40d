"""What refuses requests without a word in its headers: a limit of requests in process, or a rate limit.

Each explanation gives every attempt a pressure: the number in process with it, or what was used in the last minute with
it. An attempt above the limit is refused. Explanations are compared by how likely they make what was refused and what
wasn't, and by the Retry-After of the refusals.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from hivemind.lab.fit.chain import Outcome, fit_chain, log_likelihood, share_failed
from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.load import fit_load
from hivemind.lab.fit.pressure import USUAL_S, Candidate, Case, Places, charges, in_process_by_attempt, pressures
from hivemind.lab.trace.steps import RequestAttempt, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind, WindowKind

_FEW = 2
"""Fewer refusals tell nothing."""
_MOST = 4000
"""Attempts that explanations are compared by, the last ones."""
_SPANS_S = (1.0, 10.0, 20.0, 30.0, 60.0, 300.0, 3600.0)
_KINDS = (WindowKind.REQUESTS, WindowKind.INPUT, WindowKind.TOKENS)
_SHARES = (0.25, 0.5, 0.75, 0.95)
"""Rates of buckets are tried that so large shares of those seen are below."""
_FINER = (2.0, 1.0, 0.5, 0.25, 0.12)
"""Steps by which the best of these is made better, in requests over the recording."""
_SURE = 0.6
"""A limit refuses at least this share of what is above it, which is at least this share of all refusals."""
_MARGIN = 4.0
"""A limit must make what was refused more likely by this much in logarithms than chance or spells do."""
_LEAST_WEIGHT = 0.02
_MOST_ALTERNATIVES = 6
_OFF = 5.0
"""A Retry-After that is further off by more seconds says nothing more."""
_SILENT = 6.0
"""By so many logarithms a rate limit that isn't told is less likely where others are."""
_ALWAYS = 3.0
"""That a rate limit asks for the same time always is less likely by so many logarithms before anything is seen."""
_ROUNDED_S = 1.0
_WIDE = 0.03
"""A gap between what was taken and what was refused that is wider, as a share of the limit, makes it uncertain."""
_NEVER = 1e-4
"""What is above a limit may be taken, and what is below refused for another cause, with at least this probability."""


class Untold(Struct, frozen=True):
    """What was found for one lane."""

    places: Places | None = None
    limits: tuple[FittedLimit, ...] = ()
    refusals: tuple[TracedAttempt, ...] = ()
    """The recorded refusals that it explains."""
    alternatives: tuple[tuple[float, Untold], ...] = ()
    """Other explanations that are about as good, each with its likelihood relative to this one's."""

    @property
    def askable(self) -> tuple[bool, set[WindowKind]]:
        """What of it can be changed in a simulation; alternatives have the same."""
        return self.places is not None, {each.kind for each in self.limits}

    def reported(self, *, whole_seconds: bool) -> Untold:
        """Return the same of a provider whose headers and refusals tell of its limits, though the recording doesn't."""
        limits = (replace(each, reported=True, says_when=True, whole_seconds=whole_seconds) for each in self.limits)
        others = ((weight, each.reported(whole_seconds=whole_seconds)) for weight, each in self.alternatives)
        return replace(self, limits=tuple(limits), alternatives=tuple(others))

    def drawn(self, rng: random.Random) -> Untold:
        """Return another one that the recording allows as well."""
        weights = [1.0, *(weight for weight, _ in self.alternatives)]
        (chosen,) = rng.choices([self, *(each for _, each in self.alternatives)], weights)
        return chosen


NOTHING_UNTOLD = Untold()


Stated = tuple[float, str, WindowKind, int]
"""When a refusal stated a limit a minute: the time, the family of models, what is counted, and how much of it."""


def fit_untold(
    sent: Sequence[RequestAttempt],
    explained: set[int],
    ends_at: float,
    *,
    reserves: bool,
    told: bool = False,
    stated: Sequence[Stated] = (),
) -> Untold:
    """Find what refused attempts of a lane that limits in headers don't explain (`explained`: identities).

    `sent`: all attempts, in order of their beginnings; `ends_at`: the end of the recording; `reserves`: the provider
    charges the longest possible answer in advance; `told`: headers tell of limits; `stated`: what refusals themselves
    do.
    """
    counts = in_process_by_attempt(sent, ends_at)
    untold = Untold()
    for kind in (FailureKind.OVERLOADED, FailureKind.RATE_LIMITED):
        families = dict.fromkeys(request.arrived.family for request, _ in sent)
        for family in families if kind is FailureKind.RATE_LIMITED else (None,):
            mine = [
                (request, one)
                for request, one in sent
                if id(one) not in explained and family in (None, request.arrived.family)
            ]
            case = Case(family or "", kind, mine[-_MOST:], ends_at, told, counts)
            by_limit = list(_by_stated(case, [each for each in stated if each[1] == family]))
            for each in by_limit or ([case] if sum(case.refused) >= _FEW else []):
                untold = _with(untold, _explained(each, reserves=reserves))
    return untold


def _by_stated(case: Case, stated: Sequence[Stated]) -> Iterator[Case]:
    """Yield for each limit that refusals state a case without those that state another one."""
    limits: dict[WindowKind, Counter[int]] = {}
    kinds: dict[float, set[WindowKind]] = {}
    for at, _, kind, limit in stated:
        limits.setdefault(kind, Counter())[limit] += 1
        kinds.setdefault(round(at, 3), set()).add(kind)
    for kind, counts in limits.items():
        mine = [
            (request, one)
            for request, one in case.each
            if not one.failed_as(case.kind) or kind in kinds.get(round(one.granted_at + one.duration_s, 3), {kind})
        ]
        ((limit, _),) = counts.most_common(1)
        yield Case(case.family, case.kind, mine, case.ends_at, case.told, case.in_process, (kind, limit))


def _with(untold: Untold, more: Untold) -> Untold:
    """Return both; alternatives of each with the other as it is."""
    if not more.refusals:
        return untold

    def joined(one: Untold, two: Untold) -> Untold:
        places = one.places or two.places
        return Untold(places, (*one.limits, *two.limits), (*one.refusals, *two.refusals))

    alternatives = [(weight, joined(each, more)) for weight, each in untold.alternatives]
    alternatives += [(weight, joined(untold, each)) for weight, each in more.alternatives]
    return replace(joined(untold, more), alternatives=tuple(alternatives))


def _explained(case: Case, *, reserves: bool) -> Untold:
    """Return the best explanation of refusals with its alternatives; an empty one if chance is about as good."""
    least = _by_other_causes(case) if case.stated is None else -math.inf
    scored = [each for of in _candidates(case) for each in _scored(case, of, least, reserves=reserves)]
    for bucket in _buckets(case) if case.stated is None else ():
        likeliest = _likeliest_bucket(case, bucket, reserves=reserves)
        scored += _scored(case, likeliest, least, reserves=reserves) if likeliest is not None else ()
    if not scored:
        return Untold()
    scored.sort(key=lambda each: each[0], reverse=True)
    most = scored[0][0]
    some = [(math.exp(score - most), of, limit) for score, of, limit in scored[: _MOST_ALTERNATIVES + 1]]
    explained = [
        (weight, _made(case, of, limit, reserves=reserves)) for weight, of, limit in some if weight >= _LEAST_WEIGHT
    ]
    first = explained[0][1]
    alike = tuple((weight, each) for weight, each in explained[1:] if each.askable == first.askable)
    return replace(first, alternatives=alike)


def _prior(case: Case, of: Candidate) -> float:
    return of.prior - _SILENT * (case.told and of.what != "places")


def _scored(case: Case, of: Candidate, least: float, *, reserves: bool) -> Iterator[tuple[float, Candidate, float]]:
    """Yield how good an explanation is with each of its likeliest limits, if it is good enough."""
    limits = _limits(case, pressures(case, of, reserves=reserves), of)
    if limits and limits[0][0] + _prior(case, of) > least:
        prior = _prior(case, of) - _retry_after(case, of, limits[0][1], reserves=reserves)[0]
        yield from ((likely + prior, of, limit) for likely, limit in limits if likely + prior > least)


def _by_other_causes(case: Case) -> float:
    """Return how likely a limit must make what was refused to explain it better than chance, load and spells do."""
    outcomes = [
        Outcome(one.granted_at, refused, one.in_flight)
        for (_, one), refused, unknown in zip(case.each, case.refused, case.unknown, strict=True)
        if not unknown
    ]
    likelihood = log_likelihood(outcomes, [share_failed(outcomes)] * len(outcomes))
    chain = fit_chain([outcomes], max(1.0, outcomes[-1].at - outcomes[0].at))
    if chain is not None:
        likelihood = max(likelihood, chain.score([outcomes]) - 3.0)
    load = fit_load([outcomes])
    # A limit of requests in process is a load that has no effect below it and a full one above.
    return likelihood + _MARGIN if load is None else max(likelihood + _MARGIN, load.score([outcomes]) - 1.0)


def _candidates(case: Case) -> Iterator[Candidate]:
    """Yield explanations without a rate, or with the one that refusals state."""
    if case.stated is not None:
        kind, limit = case.stated
        for cached in (
            (False, True) if not kind.counts_requests and any(each.cached for each in case.amounts) else (False,)
        ):
            yield Candidate("fixed", kind, cached=cached)
            yield Candidate("sliding", kind, cached=cached)
            yield Candidate("bucket", kind, cached=cached, per_s=limit / USUAL_S)
        return
    yield Candidate("places")
    recorded_s = case.each[-1][1].granted_at - case.each[0][1].granted_at
    for bucket in _buckets(case):
        for span_s in _SPANS_S:
            if span_s <= max(USUAL_S, recorded_s):
                yield replace(bucket, what="fixed", span_s=span_s)
                yield replace(bucket, what="sliding", span_s=span_s)


def _buckets(case: Case) -> Iterator[Candidate]:
    """Yield buckets of everything that may be counted, without their rates; none of refusals that no rate causes."""
    if case.kind is not FailureKind.RATE_LIMITED:
        return
    caches = any(each.cached for each in case.amounts)
    for window in _KINDS:
        yield Candidate("bucket", window)
        if caches and window is not WindowKind.REQUESTS:
            yield Candidate("bucket", window, cached=True)


def _likeliest_bucket(case: Case, of: Candidate, *, reserves: bool) -> Candidate | None:
    """Return the bucket with the rate that explains best what was refused; None: no rate does at all."""

    def likely(per_s: float) -> float:
        limits = _limits(case, pressures(case, replace(of, per_s=per_s), reserves=reserves), of)
        return limits[0][0] if limits else -math.inf

    best, rate = max(((likely(each), each) for each in _rates(case, of)), default=(-math.inf, 0.0))
    if math.isinf(best):
        return None
    step = case.step_per_s(of)
    for by in _FINER:
        near = [each for each in (rate - by * step, rate + by * step) if each > 0]
        best, rate = max((best, rate), *((likely(each), each) for each in near))
    return replace(of, per_s=rate)


def _rates(case: Case, of: Candidate) -> list[float]:
    """Return rates at which a bucket may be filled: at refusals it is nearly empty, so what was taken between two of
    them came in meanwhile, unless it was full in between."""
    empty: list[tuple[float, float]] = []
    taken = 0.0
    for at, place, amount in charges(case, of, reserves=False):
        if place >= 0 and case.refused[place]:
            empty.append((at, taken))
        elif case.charged(place):
            taken += amount
    if len(empty) < _FEW:
        return []
    rates: list[float] = []
    lasted_s = empty[-1][0] - empty[0][0]
    for apart_s in (lasted_s / 2, lasted_s / 6, lasted_s / 20):
        slopes, later = [], 0
        for at, before in empty:
            while later < len(empty) and empty[later][0] < at + max(apart_s, 1.0):
                later += 1
            if later < len(empty) and empty[later][1] > before:
                slopes.append((empty[later][1] - before) / (empty[later][0] - at))
        slopes.sort()
        rates += [slopes[int(share * len(slopes))] for share in _SHARES if slopes]
    return rates


def _limits(case: Case, pressure: Sequence[float], of: Candidate) -> list[tuple[float, float]]:
    """Return limits with the logarithms of their likelihoods, the likeliest first; none if they refuse too little.

    A stated limit is taken as it is; only how much of it a bucket holds isn't known.
    """
    most = math.inf if case.stated is None else float(case.stated[1])
    counts: dict[float, list[int]] = {}
    for each, one_refused, unknown in zip(pressure, case.refused, case.unknown, strict=True):
        if not unknown:
            counts.setdefault(each, [0, 0])[one_refused] += 1
    levels = sorted(counts)
    refused = sum(case.refused)
    taken = len(case.refused) - refused - sum(case.unknown)
    below_taken = below_refused = 0
    limits: list[tuple[float, float]] = []
    for level, after in pairwise(levels):
        below_taken += counts[level][0]
        below_refused += counts[level][1]
        above_taken, above_refused = taken - below_taken, refused - below_refused
        likely = _likely(above_refused, above_taken) + _likely(below_refused, below_taken)
        if level <= most < after:
            limits.append((likely, most))
        if above_refused < _SURE * max(refused, above_taken + above_refused):
            continue
        if case.stated is None or (of.what == "bucket" and after <= most):
            limits += [(likely, limit) for limit in _between(level, after)]
    if case.stated is not None and not limits:
        limits.append((_likely(refused, taken), most))
    limits.sort(key=lambda each: -each[0])
    return limits[:_MOST_ALTERNATIVES]


def _between(level: float, after: float) -> Iterator[float]:
    """Yield limits between two levels that occurred, the middle one first."""
    least = math.ceil(level)
    yield float(least) if after - level <= 1.0 and least < after else (level + after) / 2
    if after - level > max(1.0, _WIDE * level):
        yield level + (after - level) * 0.15
        yield level + (after - level) * 0.85


def _likely(refused: int, taken: int) -> float:
    share = min(max(refused / max(1, refused + taken), _NEVER), 1 - _NEVER)
    return refused * math.log(share) + taken * math.log(1 - share)


def _made(case: Case, of: Candidate, limit: float, *, reserves: bool) -> Untold:
    pressure = pressures(case, of, reserves=reserves)
    above = [
        one
        for (_, one), each, refused, unknown in zip(case.each, pressure, case.refused, case.unknown, strict=True)
        if (refused or unknown) and each > limit
    ]
    told = [one.failure.delay_s for one in above if one.failure is not None and one.failure.delay_s is not None]
    says_when = 2 * len(told) >= len(above)
    if of.what != "places":
        made = _limit_of(case, of, limit)
        _, always_s = _retry_after(case, of, limit, reserves=reserves)
        return Untold(None, (replace(made, says_when=says_when, always_s=always_s),), tuple(above))
    failures = (one.failure for one in above if one.failure is not None and one.failed_as(case.kind))
    status = next((each.status for each in failures), None)
    failure = Failure(case.kind, True, status, median(told) if says_when and told else None)
    places = Places(max(1, math.floor(limit)), tuple(above), failure)
    return Untold(places, (), tuple(above))


def _limit_of(case: Case, of: Candidate, most: float) -> FittedLimit:
    assert of.what != "places"
    limit, span_s, size = max(1, math.floor(most)), of.span_s, None
    if of.what == "bucket":
        limit, size = max(1, round(of.per_s * USUAL_S)), limit
        size = None if case.stated is not None and size >= limit else size
        span_s = limit / of.per_s
    return FittedLimit(
        *(case.family, of.window, limit, of.what, span_s, size), reported=False, used_most=1.0, counts_cached=of.cached
    )


def _retry_after(case: Case, of: Candidate, limit: float, *, reserves: bool) -> tuple[float, float | None]:
    """Return by how much the Retry-After of refusals contradicts an explanation, in logarithms.

    Also what they all ask for, if that has nothing to do with a rate limit.
    """
    told = [
        (place, one.failure.delay_s)
        for place, (_, one) in enumerate(case.each)
        if case.refused[place] and one.failure is not None and one.failure.delay_s is not None
    ]
    if not told:
        return 0.0, None
    always_s = median(each for _, each in told)
    off_always = sum(min(_OFF, abs(each - always_s)) for _, each in told)
    if of.what == "places":
        return off_always, always_s
    allowance = _limit_of(case, of, limit).begin(0.0)
    waits = {}
    asked = dict(told)
    for at, place, amount in charges(case, of, reserves=reserves):
        if place in asked:
            waits[place] = allowance.wait_s(at, amount)
        if case.charged(place):
            allowance.take(at, amount)
    off = sum(min(_OFF, max(0.0, waits[place] - each, each - waits[place] - _ROUNDED_S)) for place, each in told)
    return (off, None) if off <= off_always + _ALWAYS else (off_always + _ALWAYS, always_s)
