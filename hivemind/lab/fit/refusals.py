"""Refusals by rate limits: limits inferred from them, and refusals that fitted limits explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from hivemind.lab.fit.limits import Amounts, FittedLimit, Limiter
from hivemind.lab.trace.steps import Attempt, RequestStep
from hivemind.scheduler.types import FailureKind, WindowKind

_WINDOW_S = 60.0
_ROUNDED_S = 1.5
"""By so much Retry-After exceeds the rest of the window: whole seconds, and the round trip."""
_SHORT_DELAY_S = 3.0
"""A shorter Retry-After doesn't wait for the end of a window of a minute."""
_ENOUGH = 3
_MAX_SPREAD = 0.5
"""Amounts that spread by more aren't caused by one limit."""
UNCHARGED = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.QUOTA, FailureKind.CONNECT})
"""Kinds of failures before any work, which limits don't count."""
RequestAttempt = tuple[RequestStep, Attempt]
"""An attempt and its request."""


def failed_as(one: Attempt, kind: FailureKind) -> bool:
    """Return whether an attempt failed in this way."""
    return one.failure is not None and one.failure.kind is kind


def limits_from_refusals(taken: Sequence[RequestAttempt]) -> list[FittedLimit]:
    """Infer the limits of a provider without rate-limit headers from what it accepted before each refusal."""
    limits = []
    for family in dict.fromkeys(request.arrived.family for request, _ in taken):
        mine = [(request, one) for request, one in taken if request.arrived.family == family]
        if not _by_window([one for _, one in mine if failed_as(one, FailureKind.RATE_LIMITED)]):
            continue
        requests, tokens = [], []
        ignored_until = float("-inf")
        for _, refused in mine:
            if not failed_as(refused, FailureKind.RATE_LIMITED) or refused.granted_at < ignored_until:
                continue
            delay_s = refused.failure.delay_s if refused.failure is not None else None
            ends_at = refused.granted_at + (delay_s or 0.0)
            ignored_until = max(ends_at, refused.granted_at + 1.0)
            since = (ends_at - _ROUNDED_S if delay_s else refused.granted_at + 1e-9) - _WINDOW_S
            accepted = [one for _, one in mine if since <= one.granted_at < refused.granted_at and not uncharged(one)]
            requests.append(len(accepted))
            tokens.append(sum(one.usage.total for one in accepted if one.usage is not None))
        if not requests or not max(requests):
            continue
        if len(requests) >= _ENOUGH and min(_spread(requests), _spread(tokens)) > _MAX_SPREAD:
            continue  # refusals don't depend on what was accepted
        if len(requests) > 1 and min(tokens) > 0 and _spread(tokens) < _spread(requests) / 2:
            kind, limit = WindowKind.TOKENS, round(median(tokens))
        else:
            kind, limit = WindowKind.REQUESTS, max(1, round(median(requests)))
        limits.append(FittedLimit(family, kind, limit, True, _WINDOW_S, reported=False))
    return limits


def _by_window(refused: Sequence[Attempt]) -> bool:
    """Return whether refusals are by a window of a minute: Retry-After isn't always a few seconds."""
    delays = [one.failure.delay_s for one in refused if one.failure is not None]
    return any(delay_s is None or delay_s > _SHORT_DELAY_S for delay_s in delays)


def uncharged(one: Attempt) -> bool:
    """Return whether limits don't count an attempt."""
    return one.failure is not None and one.failure.kind in UNCHARGED


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(1.0, max(values))


def explain(taken: Mapping[str, Sequence[RequestAttempt]], limiters: Mapping[str, Limiter]) -> dict[str, list[Attempt]]:
    """Return the refusals that the fitted windows cause in a simulation, by lane."""
    found: dict[str, list[Attempt]] = {lane: [] for lane in taken}
    for at, begins, lane, request, one in moments(taken):
        limiter, family, amounts = limiters[lane], request.arrived.family, amounts_of(request, one)
        if not begins:
            limiter.settle(at, family, one.usage)
        elif failed_as(one, FailureKind.RATE_LIMITED):
            if limiter.wait_s(at, family, amounts) > 0 or limiter.nearly_used_up(at, family):
                found[lane].append(one)
        elif not uncharged(one):
            limiter.charge(at, family, amounts)
    return found


def moments(taken: Mapping[str, Sequence[RequestAttempt]]) -> list[tuple[float, int, str, RequestStep, Attempt]]:
    """Return beginnings (1) and ends (0) of all attempts in order."""
    found = []
    for lane, pairs in taken.items():
        for request, one in pairs:
            found.append((one.granted_at, 1, lane, request, one))
            found.append((one.granted_at + one.duration_s, 0, lane, request, one))
    found.sort(key=lambda moment: moment[:2])
    return found


def amounts_of(request: RequestStep, one: Attempt | None) -> Amounts:
    """Return what an attempt charges, by its actual usage if that is known."""
    arrived = request.arrived
    usage = None if one is None else one.usage
    if usage is None or not usage.total_input:
        usage = None if request.answered is None else request.answered.usage
    tokens_in = arrived.estimated_input
    if usage is not None and usage.total_input:
        tokens_in = usage.input_tokens + usage.cache_write_tokens
    return Amounts(tokens_in, arrived.max_output_tokens or 0)
