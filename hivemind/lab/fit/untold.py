"""Rate limits of a provider that tells none in its headers, inferred from its refusals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.trace.steps import RequestAttempt, TracedAttempt
from hivemind.scheduler.types import FailureKind, WindowKind

_MINUTE_S = 60.0
_SECONDS_S = 1.5
"""By so much Retry-After exceeds the rest of the window: whole seconds, and the round trip."""
_SHORT_DELAY_S = 3.0
"""A shorter Retry-After doesn't wait for the end of a window of a minute."""
_ENOUGH = 3
_MAX_SPREAD = 0.5
"""Amounts that spread by more aren't caused by one limit."""


def limits_from_refusals(taken: Sequence[RequestAttempt]) -> list[FittedLimit]:
    """Infer the limits of a provider without rate-limit headers from what it accepted before each refusal."""
    limits = []
    for family in dict.fromkeys(request.arrived.family for request, _ in taken):
        mine = [(request, one) for request, one in taken if request.arrived.family == family]
        if not _by_window([one for _, one in mine if one.failed_as(FailureKind.RATE_LIMITED)]):
            continue
        requests, tokens = [], []
        ignored_until = float("-inf")
        for _, refused in mine:
            if not refused.failed_as(FailureKind.RATE_LIMITED) or refused.granted_at < ignored_until:
                continue
            delay_s = refused.failure.delay_s if refused.failure is not None else None
            ends_at = refused.granted_at + (delay_s or 0.0)
            ignored_until = max(ends_at, refused.granted_at + 1.0)
            since = (ends_at - _SECONDS_S if delay_s else refused.granted_at + 1e-9) - _MINUTE_S
            accepted = [one for _, one in mine if since <= one.granted_at < refused.granted_at and not one.uncharged]
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
        limits.append(FittedLimit(family, kind, limit, True, _MINUTE_S, reported=False))
    return limits


def _by_window(refused: Sequence[TracedAttempt]) -> bool:
    """Return whether refusals are by a window of a minute: Retry-After isn't always a few seconds."""
    delays = [one.failure.delay_s for one in refused if one.failure is not None]
    return any(delay_s is None or delay_s > _SHORT_DELAY_S for delay_s in delays)


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(1.0, max(values))
