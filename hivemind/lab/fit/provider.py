"""A provider fitted to a recording: rate limits, outages, latencies and random faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hivemind.lab.fit.latency import LatencyModel, Sample, fit_latency
from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.limits import fit_limits, limits_from_refusals
from hivemind.lab.fit.shared_limits import Limits, Traffic, explain, shared_limits, with_outside_use
from hivemind.lab.trace.steps import Attempt, RequestAttempt, RequestStep
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.scheduler.types import FailureKind

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


@dataclass(slots=True)
class Outage:
    """A time in which every attempt failed."""

    began_at: float
    ended_at: float
    of: dict[RequestStep, list[Attempt]]
    """The attempts of each request."""
    attempts: list[Attempt]


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
    refusals: list[Attempt],
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
    of: dict[RequestStep, list[Attempt]] = {}
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


def _in_process(taken: Sequence[RequestAttempt]) -> Iterator[tuple[Attempt, int]]:
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
