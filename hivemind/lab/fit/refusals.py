"""What a provider refused for the sake of its rate limits, and what it took of them otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from hivemind.lab.fit.limits import Amounts, FittedLimit, Limiter
from hivemind.lab.simulate.steps import Attempt, RequestStep
from hivemind.scheduler.types import FailureKind, WindowKind

_WINDOW_S = 60.0
_ROUNDED_S = 1.5
"""By so much is a pause asked for longer than the window lasts: whole seconds, and the way there and back."""
_SECONDS_S = 3.0
"""A pause so short isn't one until a window of a minute ends."""
_SOME = 3
_ALIKE = 0.5
"""Amounts that differ by more aren't one limit."""
UNCHARGED = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.QUOTA, FailureKind.CONNECT})
"""Refused before any work."""
RequestAttempt = tuple[RequestStep, Attempt]
"""An attempt, and whose it was."""


def is_(one: Attempt, kind: FailureKind) -> bool:
    """It failed so."""
    return one.failure is not None and one.failure.kind is kind


def limits_from_refusals(taken: Sequence[RequestAttempt]) -> list[FittedLimit]:
    """Of a provider that tells nothing of its limits: as much as it let in before it refused."""
    limits = []
    for family in dict.fromkeys(request.arrived.family for request, _ in taken):
        mine = [(request, one) for request, one in taken if request.arrived.family == family]
        if not _by_window([one for _, one in mine if is_(one, FailureKind.RATE_LIMITED)]):
            continue
        requests, tokens = [], []
        silent_until = float("-inf")
        for _, refused in mine:
            if not is_(refused, FailureKind.RATE_LIMITED) or refused.granted_at < silent_until:
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


def _by_window(refused: Sequence[Attempt]) -> bool:
    """Whoever says when to come back, and never more than some seconds, doesn't count by the minute."""
    delays = [one.failure.delay_s for one in refused if one.failure is not None]
    return any(delay_s is None or delay_s > _SECONDS_S for delay_s in delays)


def uncharged(one: Attempt) -> bool:
    """It was refused before any work."""
    return one.failure is not None and one.failure.kind in UNCHARGED


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(1.0, max(values))


def explain(taken: Mapping[str, Sequence[RequestAttempt]], limiters: Mapping[str, Limiter]) -> dict[str, list[Attempt]]:
    """Refusals by rate limits that the fitted windows bring about by themselves, by lane."""
    found: dict[str, list[Attempt]] = {lane: [] for lane in taken}
    for at, begins, lane, request, one in moments(taken):
        limiter, family, amounts = limiters[lane], request.arrived.family, amounts_of(request, one)
        if not begins:
            limiter.settle(at, family, one.usage)
        elif is_(one, FailureKind.RATE_LIMITED):
            if limiter.wait_s(at, family, amounts) > 0 or limiter.nearly(at, family):
                found[lane].append(one)
        elif not uncharged(one):
            limiter.charge(at, family, amounts)
    return found


def moments(taken: Mapping[str, Sequence[RequestAttempt]]) -> list[tuple[float, int, str, RequestStep, Attempt]]:
    """Beginnings (1) and ends (0) of attempts of all lanes, in order."""
    found = []
    for lane, pairs in taken.items():
        for request, one in pairs:
            found.append((one.granted_at, 1, lane, request, one))
            found.append((one.granted_at + one.duration_s, 0, lane, request, one))
    found.sort(key=lambda moment: moment[:2])
    return found


def amounts_of(request: RequestStep, one: Attempt | None) -> Amounts:
    """What an attempt takes of the windows, by what it really used where that is known."""
    arrived = request.arrived
    usage = None if one is None else one.usage
    if usage is None or not usage.total_input:
        usage = None if request.answered is None else request.answered.usage
    tokens_in = arrived.estimated_input
    if usage is not None and usage.total_input:
        tokens_in = usage.input_tokens + usage.cache_write_tokens
    return Amounts(tokens_in, arrived.max_output_tokens or 0)
