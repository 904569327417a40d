"""A provider as a recording shows it: its limits, its bad spells, how long it takes, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hivemind.lab.fit.latency import LatencyModel, Sample, fit_latency
from hivemind.lab.fit.limits import FittedLimit, Limiter, Pools, fit_limits
from hivemind.lab.fit.refusals import RequestAttempt, explain, is_, limits_from_refusals, uncharged
from hivemind.lab.fit.shared_limits import reserves, shared_limits, with_outside_use
from hivemind.lab.simulate.steps import Attempt, RequestStep
from hivemind.lab.simulate.trace import LaneTrace
from hivemind.scheduler.types import FailureKind

OUTAGE_ATTEMPTS = 5
"""So many failed attempts in a row, with none answered between, are a spell rather than bad luck."""
_QUICK_S = 0.02
"""In which a provider says no, where no refusal was seen."""
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
    """A time in which everything failed."""

    began_at: float
    ended_at: float
    of: dict[RequestStep, list[Attempt]]
    """What befell each request."""
    attempts: list[Attempt]


@dataclass(slots=True)
class FittedProvider:
    """What is known of the upstream of one lane."""

    lane: LaneTrace
    reserves: bool
    limits: list[FittedLimit]
    max_in_flight: int | None
    """At work at once, above which it refuses as overloaded; None: that was never seen."""
    outages: list[Outage]
    """In order; when the recording is over they come again, since nobody knows better."""
    recorded_s: float
    """The recording."""
    refused_s: float
    """How long it takes to say no."""
    latency: LatencyModel
    """To the first content."""
    pace: LatencyModel
    """From there to the end."""
    good: list[RequestAttempt]
    faults: list[RequestAttempt]
    """Those that nothing explains but chance."""
    fault_rate: float
    """Of attempts that weren't refused for a limit or in a spell."""


def fit_providers(
    lanes: Mapping[str, LaneTrace],
    requests: Mapping[str, Sequence[RequestStep]],
    began_at: float,
    ends_at: float,
    offset: float,
) -> dict[str, FittedProvider]:
    """Work out what can be, of each lane from its requests; notes with each which of its tries are its own.

    `offset` is added to a moment to have the time of day.
    """
    sent = {
        key: sorted(((each, one) for each in steps for one in each.attempts), key=lambda pair: pair[1].granted_at)
        for key, steps in requests.items()
    }
    taken = {key: [(each, one) for each, one in pairs if one.complete] for key, pairs in sent.items()}
    limits = {key: fit_limits(lanes[key].readings, began_at) or limits_from_refusals(taken[key]) for key in requests}
    limits = shared_limits(lanes, sent, limits, began_at, offset)
    limits = with_outside_use(lanes, sent, limits, began_at, offset)
    pools: Pools = {}
    limiters = {
        key: Limiter(limits[key], began_at, offset, reserves=reserves(lanes[key]), pools=pools) for key in requests
    }
    refusals = explain(sent, limiters)
    recorded_s = max(1.0, ends_at - began_at)
    return {
        key: _fitted(lanes[key], requests[key], taken[key], limits[key], refusals[key], recorded_s) for key in requests
    }


def _fitted(
    lane: LaneTrace,
    requests: Sequence[RequestStep],
    taken: Sequence[RequestAttempt],
    limits: list[FittedLimit],
    refusals: list[Attempt],
    recorded_s: float,
) -> FittedProvider:
    explained = set(map(id, refusals))
    max_in_flight = _max_in_flight(taken)
    if max_in_flight is not None:
        over = [one for one, n in _at_work(taken) if is_(one, FailureKind.OVERLOADED) and n > max_in_flight]
        refusals += over
        explained.update(map(id, over))
    # What is left are spells and chance.
    outages = _find_outages([(each, one) for each, one in taken if id(one) not in explained])
    for outage in outages:
        explained.update(map(id, outage.attempts))
    for each in requests:
        each.inherent = [one for one in each.attempts if id(one) not in explained]
    good = [(each, one) for each, one in taken if one.failure is None]
    faults = [(each, one) for each, one in taken if one.failure is not None and id(one) not in explained]
    return FittedProvider(
        lane,
        reserves(lane),
        limits,
        max_in_flight,
        outages,
        recorded_s,
        median([one.duration_s for one in refusals] or [_QUICK_S]),
        fit_latency([Sample(t.granted_at, t.in_flight, a.arrived.size_chars, _first_s(t)) for a, t in good]),
        fit_latency(
            [
                Sample(t.granted_at, t.in_flight, t.usage.output_tokens, t.duration_s - t.first_s)
                for _, t in good
                if t.usage is not None and t.first_s is not None and t.duration_s > t.first_s
            ]
        ),
        good,
        faults,
        len(faults) / (len(faults) + len(good)) if faults else 0.0,
    )


def _first_s(one: Attempt) -> float:
    return one.duration_s if one.first_s is None else one.first_s


def _find_outages(taken: Sequence[RequestAttempt]) -> list[Outage]:
    """By when attempts began: from the first failed one after an answered one to the last before the next."""
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
    """From some time after the last good attempt to some time before the next one."""
    first, last = run[0][1].granted_at, run[-1][1].granted_at
    began = first if before_at is None else max((before_at + first) / 2, first - (last - first) / len(run))
    ended = last if after_at is None else (last + after_at) / 2
    of: dict[RequestStep, list[Attempt]] = {}
    for request, one in run:
        of.setdefault(request, []).append(one)
    return Outage(began, max(ended, last + 1e-6), of, [one for _, one in run])


def _max_in_flight(taken: Sequence[RequestAttempt]) -> int | None:
    """The number at work above which nearly everything was refused as overloaded, and hardly anything below."""
    over: list[int] = []
    let_in: list[int] = []
    for one, at_work in _at_work(taken):
        if is_(one, FailureKind.OVERLOADED):
            over.append(at_work)
        elif not uncharged(one):
            let_in.append(at_work)
    if len(over) < 3:
        return None
    for most in range(max(1, min(over) - 1), max(over)):
        above = sum(1 for each in let_in if each > most)
        refused = sum(1 for each in over if each > most)
        if refused >= 0.6 * len(over) and above <= 0.05 * (above + refused):
            return most
    return None


def _at_work(taken: Sequence[RequestAttempt]) -> Iterator[tuple[Attempt, int]]:
    """Each attempt with how many the provider had at work with it: those that it refuses it doesn't work on."""
    moments = [(one.granted_at, 1, one) for _, one in taken]
    moments += [(one.granted_at + one.duration_s, 0, one) for _, one in taken if not uncharged(one)]
    moments.sort(key=lambda moment: moment[:2])
    at_work = 0
    for _, begins, one in moments:
        if not begins:
            at_work -= 1
            continue
        yield one, at_work + 1
        at_work += not uncharged(one)
