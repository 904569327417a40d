"""The held-out check: models are fitted to a part of a recording, and foretell another part that they haven't seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from statistics import fmean, stdev

from msgspec import Struct

from hivemind.journal.figures import Figures
from hivemind.lab.fit.clients import fit_clients
from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.provider import FittedProvider, fit_providers
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.part import sliced
from hivemind.lab.trace.steps import RequestStep
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.records import replace

MODEL_ERROR = 0.03
"""How far a fitted model is off at best, as a standard deviation of the logarithm of a figure.

Measured by `benchmarks.foresight` over providers that the models describe: with it nine of ten intervals hold. Think
times, lengths and their order are another draw in every run, which no simulation of recorded ones has.
"""
_LEAST = 40
"""Requests of a part, at least."""
_FITTED, _FORETOLD = 3000, 800
"""Requests of the two parts, at most."""
_SHORT = 1600
"""Of a recording with at most so many requests each half foretells the other one."""
_DRAWS = 4
_PRIOR = 4
"""The model's usual error counts as so many parts."""
_OF_PARTS = 0.5
"""A fit to everything has so much of the variance of one to a part."""
_MUCH = 1.0
"""An error by a factor of e; a larger one says nothing more."""

Figure = Callable[[Figures], float | None]


class HeldOutPart(Struct, frozen=True):
    """A part of a recording that the fit hasn't seen."""

    real: Figures
    """As it was recorded."""
    drawn: tuple[Figures, ...]
    """As it was foretold, with other luck in each."""


class HeldOut(Struct, frozen=True):
    """What the check found."""

    parts: tuple[HeldOutPart, ...] = ()
    """Empty: the recording is too short for it."""

    def off(self, of: Figure, *, least: float = 0.0) -> float | None:
        """Return by what share a figure was off, on average over the parts; None: there is none to compare."""
        errors = [math.expm1(abs(error)) for error, _ in self._errors(of, least)]
        return fmean(errors) if errors else None

    def error(self, of: Figure, *, least: float = 0.0) -> float:
        """Return the model's error of a figure, as a standard deviation of its logarithm; luck isn't counted."""
        # What is below luck counts, too: otherwise luck alone would be taken for an error.
        beyond = [_OF_PARTS * (min(_MUCH, abs(error)) ** 2 - luck) for error, luck in self._errors(of, least)]
        return math.sqrt(max(MODEL_ERROR**2, (_PRIOR * MODEL_ERROR**2 + sum(beyond)) / (_PRIOR + len(beyond))))

    def _errors(self, of: Figure, least: float) -> list[tuple[float, float]]:
        """Return the error of each part as a logarithm, and the variance that luck alone gives it."""
        found = []
        for part in self.parts:
            real, drawn = of(part.real), [of(run) for run in part.drawn]
            some = [math.log(each) for each in drawn if each is not None and each > least]
            if real is not None and real > least and len(some) == len(drawn):
                found.append((fmean(some) - math.log(real), stdev(some) ** 2 * (1 + 1 / len(some))))
        return found


UNCHECKED = HeldOut()


def held_out(recording: Recording) -> HeldOut:
    """Check the models of a recording on what they haven't seen. Takes seconds."""
    requests = recording.trace.requests
    count = len(requests)
    if count < 2 * _LEAST or recording.apart:
        return UNCHECKED
    if count <= _SHORT:
        first, second = _between(recording, 0, count // 2), _between(recording, count // 2, count)
        pairs = [(first, second), (second, first)]
    else:
        split = count - _FORETOLD
        pairs = [(_between(recording, max(0, split - _FITTED), split), _between(recording, split, count))]
    parts = [found for fitted, foretold in pairs if (found := _foretold(recording, fitted, foretold)) is not None]
    return HeldOut(tuple(parts))


def _between(recording: Recording, first: int, end: int) -> Trace:
    requests = recording.trace.requests
    began_at = requests[first].at if first else recording.trace.began.at
    ended_at = next((each.at for each in islice(requests, end, None)), recording.trace.ends_at + 1.0)
    return sliced(recording.trace, began_at, ended_at)


def _foretold(recording: Recording, fitted: Trace, foretold: Trace) -> HeldOutPart | None:
    """Foretell a part with a fit to another one. None: they have nothing in common."""
    there = {each.arrived.lane for each in foretold.requests}
    by_lane: dict[str, list[RequestStep]] = {}
    for request in fitted.requests:
        # The fit says of each attempt what explains it, and the recording's own fit has done so already.
        request.attempts = [replace(one, row=-1, work=None) for one in request.attempts]
        by_lane.setdefault(request.arrived.lane, []).append(request)
    if not there or not there <= by_lane.keys():
        return None
    lanes = {key: _seen(recording.providers[key].lane, fitted.ends_at) for key in by_lane}
    providers = {**recording.providers, **fit_providers(fitted, lanes, by_lane)}
    if not foretold.earlier:
        providers = {key: _from_the_beginning(each, recording.providers[key]) for key, each in providers.items()}
    unseen = replace(recording, trace=foretold, providers=providers, clients=fit_clients(fitted.requests))
    drawn = tuple(simulate(unseen, seed=seed, faults="drawn", explained=False) for seed in range(_DRAWS))
    return HeldOutPart(simulate(replace(recording, trace=foretold), explained=False), drawn)


def _from_the_beginning(fitted: FittedProvider, own: FittedProvider) -> FittedProvider:
    """Return it with windows that are used up as far as they were when the recording began."""
    spent = {(each.family, each.kind): (each.spent, each.spent_for_s) for each in own.limits if each.form == "fixed"}

    def begun(limit: FittedLimit) -> FittedLimit:
        amount, for_s = spent.get((limit.family, limit.kind), (0.0, 0.0))
        return replace(limit, spent=amount, spent_for_s=for_s)

    return replace(fitted, limits=[begun(each) for each in fitted.limits])


def _seen(lane: LaneTrace, until: float) -> LaneTrace:
    return replace(lane, readings=[each for each in lane.readings if each[0] < until])
