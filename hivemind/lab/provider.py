"""A provider as a recording shows it: its limits, its bad spells, how long it takes, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from hivemind.scheduler.types import FailureKind, WindowKind

from .latency import Latency, Sample, fit_latency
from .limits import Amounts, FittedLimit, Limiter, fit_limits
from .steps import Asked, Try
from .tape import LaneTape

SPELL = 5
"""So many failed attempts in a row, with none answered between, are a spell rather than bad luck."""
_QUICK_S = 0.02
"""In which a provider says no, where no refusal was seen."""
_WINDOW_S = 60.0
_ROUNDED_S = 1.5
"""By so much is a pause asked for longer than the window lasts: whole seconds, and the way there and back."""
_SECONDS_S = 3.0
_SOME = 3
_ALIKE = 0.5
"""Amounts that differ by more aren't one limit."""
UNCHARGED = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.QUOTA, FailureKind.CONNECT})
"""Refused before any work."""
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

Taken = tuple[Asked, Try]


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


def fit_provider(
    lane: LaneTape, asked: Sequence[Asked], began_at: float, ends_at: float, wall_offset: float
) -> Provider:
    """Work out what can be, from all requests of that lane; notes with each which of its tries are its own."""
    taken = sorted(
        ((each, one) for each in asked for one in each.tries if one.whole), key=lambda pair: pair[1].granted_at
    )
    reserves = lane.config is not None and lane.config.reserve_max_tokens
    explained: set[int] = set()
    limits = fit_limits(lane.readings, began_at) or _limits_by_refusals(taken)
    refusals = _explain(taken, Limiter(limits, began_at, wall_offset, reserves=reserves))
    explained.update(map(id, refusals))
    most_flying = _most_flying(taken)
    if most_flying is not None:
        over = [one for one, n in _at_work(taken) if _is(one, FailureKind.OVERLOADED) and n > most_flying]
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
        reserves,
        limits,
        most_flying,
        spells,
        max(1.0, ends_at - began_at),
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


def _is(one: Try, kind: FailureKind) -> bool:
    return one.failure is not None and one.failure.kind is kind


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


def _explain(taken: Sequence[Taken], limiter: Limiter) -> list[Try]:
    """Refusals by rate limits that the fitted windows bring about by themselves."""
    moments: list[tuple[float, int, Asked, Try]] = []
    for asked, one in taken:
        moments.append((one.granted_at, 1, asked, one))
        moments.append((one.granted_at + one.took_s, 0, asked, one))
    moments.sort(key=lambda moment: moment[:2])
    found = []
    for at, begins, asked, one in moments:
        family, amounts = asked.arrived.family, amounts_of(asked, one)
        if not begins:
            limiter.settle(at, family, one.usage)
        elif _is(one, FailureKind.RATE_LIMITED):
            if limiter.wait_s(at, family, amounts) > 0 or limiter.nearly(at, family):
                found.append(one)
        elif one.failure is None or one.failure.kind not in UNCHARGED:
            limiter.charge(at, family, amounts)
    return found


def _limits_by_refusals(taken: Sequence[Taken]) -> list[FittedLimit]:
    """Of a provider that tells nothing of its limits: as much as it let in before it refused."""
    limits = []
    for family in dict.fromkeys(asked.arrived.family for asked, _ in taken):
        mine = [(asked, one) for asked, one in taken if asked.arrived.family == family]
        if not _by_window([one for _, one in mine if _is(one, FailureKind.RATE_LIMITED)]):
            continue
        requests, tokens = [], []
        silent_until = float("-inf")
        for _, refused in mine:
            if not _is(refused, FailureKind.RATE_LIMITED) or refused.granted_at < silent_until:
                continue
            delay_s = refused.failure.delay_s if refused.failure is not None else None
            ends_at = refused.granted_at + (delay_s or 0.0)
            silent_until = max(ends_at, refused.granted_at + 1.0)
            since = (ends_at - _ROUNDED_S if delay_s else refused.granted_at + 1e-9) - _WINDOW_S
            let_in = [one for _, one in mine if since <= one.granted_at < refused.granted_at and not uncharged(one)]
            requests.append(len(let_in))
            tokens.append(sum(one.usage.total for one in let_in if one.usage is not None))
        if not requests or not max(requests):
            continue
        if len(requests) >= _SOME and min(_spread(requests), _spread(tokens)) > _ALIKE:
            continue  # it refuses whatever was let in
        if len(requests) > 1 and min(tokens) > 0 and _spread(tokens) < _spread(requests) / 2:
            kind, limit = WindowKind.TOKENS, round(median(tokens))
        else:
            kind, limit = WindowKind.REQUESTS, max(1, round(median(requests)))
        limits.append(FittedLimit(family, kind, limit, True, _WINDOW_S, told=False))
    return limits


def _by_window(refused: Sequence[Try]) -> bool:
    """Whoever says when to come back, and never more than some seconds, doesn't count by the minute."""
    delays = [one.failure.delay_s for one in refused if one.failure is not None]
    return any(delay_s is None or delay_s > _SECONDS_S for delay_s in delays)


def uncharged(one: Try) -> bool:
    """It was refused before any work."""
    return one.failure is not None and one.failure.kind in UNCHARGED


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(1.0, max(values))


def _most_flying(taken: Sequence[Taken]) -> int | None:
    """The number at work above which nearly everything was refused as overloaded, and hardly anything below."""
    over: list[int] = []
    let_in: list[int] = []
    for one, at_work in _at_work(taken):
        if _is(one, FailureKind.OVERLOADED):
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


def amounts_of(asked: Asked, one: Try | None) -> Amounts:
    """What an attempt takes of the windows, by what it really used where that is known."""
    arrived = asked.arrived
    usage = None if one is None else one.usage
    if usage is None or not usage.total_input:
        usage = None if asked.answered is None else asked.answered.usage
    tokens_in = arrived.estimated_input
    if usage is not None and usage.total_input:
        tokens_in = usage.input_tokens + usage.cache_write_tokens
    return Amounts(tokens_in, arrived.max_output_tokens or 0)
