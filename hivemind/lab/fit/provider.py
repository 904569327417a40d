"""A provider as a recording shows it: its limits, its bad spells, how long it takes, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hivemind.lab.fit.latency import Latency, Sample, fit_latency
from hivemind.lab.fit.limits import FittedLimit, Limiter, Pools, fit_limits
from hivemind.lab.fit.refusals import Taken, explain, is_, limits_by_refusals, uncharged
from hivemind.lab.fit.shared_limits import reserves, shared_limits, with_others
from hivemind.lab.simulate.steps import Asked, Try
from hivemind.lab.simulate.tape import LaneTape
from hivemind.scheduler.types import FailureKind

SPELL = 5
"""So many failed attempts in a row, with none answered between, are a spell rather than bad luck."""
_QUICK_S = 0.02
"""In which a provider says no, where no refusal was seen."""
_IN_SPELLS = frozenset(
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
class Spell:
    """A time in which everything failed."""

    began_at: float
    ended_at: float
    of: dict[Asked, list[Try]]
    """What befell each request."""
    tries: list[Try]


@dataclass(slots=True)
class Provider:
    """What is known of the upstream of one lane."""

    lane: LaneTape
    reserves: bool
    limits: list[FittedLimit]
    most_flying: int | None
    """At work at once, above which it refuses as overloaded; None: that was never seen."""
    spells: list[Spell]
    """In order; when the recording is over they come again, since nobody knows better."""
    lasted_s: float
    """The recording."""
    refused_s: float
    """How long it takes to say no."""
    latency: Latency
    """To the first content."""
    pace: Latency
    """From there to the end."""
    good: list[Taken]
    faults: list[Taken]
    """Those that nothing explains but chance."""
    fault_rate: float
    """Of attempts that weren't refused for a limit or in a spell."""


def fit_providers(
    lanes: Mapping[str, LaneTape], asked: Mapping[str, Sequence[Asked]], began_at: float, ends_at: float, offset: float
) -> dict[str, Provider]:
    """Work out what can be, of each lane from its requests; notes with each which of its tries are its own.

    `offset` is added to a moment to have the time of day.
    """
    sent = {
        key: sorted(((each, one) for each in requests for one in each.tries), key=lambda pair: pair[1].granted_at)
        for key, requests in asked.items()
    }
    taken = {key: [(each, one) for each, one in pairs if one.whole] for key, pairs in sent.items()}
    limits = {key: fit_limits(lanes[key].readings, began_at) or limits_by_refusals(taken[key]) for key in asked}
    limits = shared_limits(lanes, sent, limits, began_at, offset)
    limits = with_others(lanes, sent, limits, began_at, offset)
    pools: Pools = {}
    limiters = {
        key: Limiter(limits[key], began_at, offset, reserves=reserves(lanes[key]), pools=pools) for key in asked
    }
    refusals = explain(sent, limiters)
    lasted_s = max(1.0, ends_at - began_at)
    return {key: _fitted(lanes[key], asked[key], taken[key], limits[key], refusals[key], lasted_s) for key in asked}


def _fitted(
    lane: LaneTape,
    asked: Sequence[Asked],
    taken: Sequence[Taken],
    limits: list[FittedLimit],
    refusals: list[Try],
    lasted_s: float,
) -> Provider:
    explained = set(map(id, refusals))
    most_flying = _most_flying(taken)
    if most_flying is not None:
        over = [one for one, n in _at_work(taken) if is_(one, FailureKind.OVERLOADED) and n > most_flying]
        refusals += over
        explained.update(map(id, over))
    # What is left are spells and chance.
    spells = _spells([(each, one) for each, one in taken if id(one) not in explained])
    for spell in spells:
        explained.update(map(id, spell.tries))
    for each in asked:
        each.own = [one for one in each.tries if id(one) not in explained]
    good = [(each, one) for each, one in taken if one.failure is None]
    faults = [(each, one) for each, one in taken if one.failure is not None and id(one) not in explained]
    return Provider(
        lane,
        reserves(lane),
        limits,
        most_flying,
        spells,
        lasted_s,
        median([one.took_s for one in refusals] or [_QUICK_S]),
        fit_latency([Sample(t.granted_at, t.flying, a.arrived.size_chars, _first_s(t)) for a, t in good]),
        fit_latency(
            [
                Sample(t.granted_at, t.flying, t.usage.output_tokens, t.took_s - t.first_s)
                for _, t in good
                if t.usage is not None and t.first_s is not None and t.took_s > t.first_s
            ]
        ),
        good,
        faults,
        len(faults) / (len(faults) + len(good)) if faults else 0.0,
    )


def _first_s(one: Try) -> float:
    return one.took_s if one.first_s is None else one.first_s


def _spells(taken: Sequence[Taken]) -> list[Spell]:
    """By when attempts began: from the first failed one after an answered one to the last before the next."""
    spells: list[Spell] = []
    run: list[Taken] = []
    before_at: float | None = None
    for asked, one in taken:
        if one.failure is not None and one.failure.kind in _IN_SPELLS:
            run.append((asked, one))
            continue
        if len(run) >= SPELL:
            spells.append(_spell(run, before_at, one.granted_at))
        run.clear()
        before_at = one.granted_at
    if len(run) >= SPELL:
        spells.append(_spell(run, before_at, None))
    return spells


def _spell(run: Sequence[Taken], before_at: float | None, after_at: float | None) -> Spell:
    """From some time after the last good attempt to some time before the next one."""
    first, last = run[0][1].granted_at, run[-1][1].granted_at
    began = first if before_at is None else max((before_at + first) / 2, first - (last - first) / len(run))
    ended = last if after_at is None else (last + after_at) / 2
    of: dict[Asked, list[Try]] = {}
    for asked, one in run:
        of.setdefault(asked, []).append(one)
    return Spell(began, max(ended, last + 1e-6), of, [one for _, one in run])


def _most_flying(taken: Sequence[Taken]) -> int | None:
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


def _at_work(taken: Sequence[Taken]) -> Iterator[tuple[Try, int]]:
    """Each attempt with how many the provider had at work with it: those that it refuses it doesn't work on."""
    moments = [(one.granted_at, 1, one) for _, one in taken]
    moments += [(one.granted_at + one.took_s, 0, one) for _, one in taken if not uncharged(one)]
    moments.sort(key=lambda moment: moment[:2])
    at_work = 0
    for _, begins, one in moments:
        if not begins:
            at_work -= 1
            continue
        yield one, at_work + 1
        at_work += not uncharged(one)
