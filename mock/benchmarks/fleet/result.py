"""What a run of a fleet comes to: limits kept, limits used, shares, waits, and what was lost."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.fleet.load import Asked
from benchmarks.fleet.upstream import Arrival
from benchmarks.perf.load import percentile

WINDOW_S = 60.0
FULL_USE = 0.97
"""Share of the limit that counts as all of it."""
_REFUSED = 429
_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    """Both sides of one run."""

    arrivals: Sequence[Arrival]
    asked: Sequence[Asked]
    begun: float
    ended: float
    limit: float
    """A minute."""
    by_tokens: bool = False
    """The limit is one of input tokens; else of requests."""

    def amounts(self, *, accepted: bool = False) -> list[tuple[float, float]]:
        """Return when how much arrived. `accepted`: without what the provider refused."""
        return [
            (each.at, float(each.tokens) if self.by_tokens else 1.0)
            for each in self.arrivals
            if not (accepted and each.status == _REFUSED)
        ]


def worst_window(amounts: Sequence[tuple[float, float]], span_s: float = WINDOW_S) -> float:
    """Return the most that came within any span of that length."""
    most = total = 0.0
    first = 0
    for at, amount in amounts:
        total += amount
        while amounts[first][0] <= at - span_s:
            total -= amounts[first][1]
            first += 1
        most = max(most, total)
    return most


def used(seen: Seen, begin: float, end: float) -> float:
    """Return the share of the limit that was accepted from one moment to another."""
    taken = sum(amount for at, amount in seen.amounts(accepted=True) if begin <= at < end)
    return taken / (seen.limit * (end - begin) / 60)


def proxy_of(word: str) -> str:
    """Return the proxy of a request's agent."""
    return word.partition("-")[0]


def shares(seen: Seen, begin: float, end: float) -> dict[str, tuple[float, float]]:
    """Return each proxy's share of what was accepted, and the one that it was due.

    Due is, at each request, the share of all agents with a request under way that are at this proxy.
    """
    steps: list[tuple[float, int, str]] = []
    for each in seen.asked:
        steps += [(each.sent, 1, proxy_of(each.word)), (each.done, -1, proxy_of(each.word))]
    steps.sort()
    at_work: Counter[str] = Counter()
    got: Counter[str] = Counter()
    due: Counter[str] = Counter()
    done = 0
    for arrival in seen.arrivals:
        while done < len(steps) and steps[done][0] <= arrival.at:
            at_work[steps[done][2]] += steps[done][1]
            done += 1
        amount = float(arrival.tokens) if seen.by_tokens else 1.0
        total = at_work.total()
        if arrival.status == _REFUSED or not begin <= arrival.at < end or not total:
            continue
        got[proxy_of(arrival.word)] += amount  # type: ignore[assignment]  # counters may hold floats
        for proxy, agents in at_work.items():
            due[proxy] += amount * agents / total  # type: ignore[assignment]
    whole = max(1.0, sum(got.values()))
    return {proxy: (round(got[proxy] / whole, 4), round(due[proxy] / whole, 4)) for proxy in sorted(due) if due[proxy]}


def worst_share(found: Iterable[dict[str, tuple[float, float]]]) -> float:
    """Return by how much of its due a proxy was off at most."""
    return round(max((abs(got / due - 1) for each in found for got, due in each.values() if due), default=0.0), 4)


def waits(seen: Seen, of: Callable[[str], bool] = lambda word: True) -> list[float]:
    """Return the seconds from each request to its last arrival at the provider, ascending."""
    reached = {each.word: each.at for each in seen.arrivals}
    return sorted(reached[each.word] - each.sent for each in seen.asked if each.word in reached and of(each.word))


def in_flight(seen: Seen, begin: float, end: float) -> float:
    """Return how many requests were at the provider on average from one moment to another."""
    reached = {each.word: each.at for each in seen.arrivals}
    spans = ((reached[each.word], each.done) for each in seen.asked if each.word in reached)
    return sum(max(0.0, min(until, end) - max(at, begin)) for at, until in spans) / (end - begin)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return percentiles of ascending values."""
    if not values:
        return {}
    names = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: round(percentile(values, share), 3) for name, share in names.items()}
    return {**found, "most": round(values[-1], 3), "count": len(values)}


class LastMinute:
    """What was accepted in the last minute, at any moment."""

    def __init__(self, seen: Seen) -> None:
        amounts = seen.amounts(accepted=True)
        self._limit = seen.limit
        self._times = [at for at, _ in amounts]
        self._totals = list(itertools.accumulate((amount for _, amount in amounts), initial=0.0))

    def share(self, now: float) -> float:
        """Return it as a share of the limit."""
        begin, end = (bisect.bisect_right(self._times, at) for at in (now - WINDOW_S, now))
        return (self._totals[end] - self._totals[begin]) / self._limit

    def full_after(self, since: float) -> float | None:
        """Return the seconds from `since` until it was all of the limit; None: it never was."""
        moments = (since, *(at for at in self._times if at > since))
        return next((at - since for at in moments if self.share(at) >= FULL_USE), None)

    def least(self, begin: float, end: float) -> float | None:
        """Return the least share from one moment to another; None: there is no time between them."""
        steps = int((end - begin) / _STEP_S)
        return min((self.share(begin + number * _STEP_S) for number in range(steps)), default=None)


def refused(seen: Seen, begin: float = 0.0) -> int:
    """Return how many requests the provider refused from then on."""
    return sum(each.status == _REFUSED and each.at >= begin for each in seen.arrivals)


def lost(seen: Seen) -> list[Asked]:
    """Return the requests that weren't answered, but for those whose proxy was killed."""
    return [each for each in seen.asked if each.status != 200 and not each.excused]


def summary(seen: Seen, warm_s: float = WINDOW_S) -> dict[str, object]:
    """Return the figures of a run, without its first minute where that doesn't count."""
    begin = seen.begun + warm_s
    failed = lost(seen)
    return {
        "limit": seen.limit,
        "wall_s": round(seen.ended - seen.begun, 1),
        "requests": len(seen.asked),
        "answered": sum(each.status == 200 for each in seen.asked),
        "attempts": len(seen.arrivals),
        "worst_window": round(worst_window(seen.amounts()) / seen.limit, 4),
        "used": round(used(seen, begin, seen.ended), 4) if seen.ended > begin else None,
        "refused": refused(seen),
        "refused_later": refused(seen, begin),
        "dead": len(failed),
        "dead_statuses": {str(status): count for status, count in Counter(e.status for e in failed).items()},
        "excused": sum(each.excused for each in seen.asked),
        "waits": spread(waits(seen)),
    }
