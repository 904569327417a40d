"""Prompt caches: how long prompts are kept, and what a simulation makes of it."""

from __future__ import annotations

import random

import pytest
from lab.kit import request

from hivemind.lab.fit.cache import Cache, CacheState, fit_cache
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import request_of
from hivemind.scheduler.types import Usage


def asked(at: float, number: int, agent: str, usage: Usage) -> RequestAttempt:
    """Return an answered attempt."""
    arrived = request(at, number, agent)
    one = TracedAttempt(at, 1, duration_s=1.0, usage=usage, complete=True)
    return RequestStep(at, number=number, arrived=arrived, request=request_of(arrived), attempts=[one]), one


def conversations(keeps_s: float) -> list[RequestAttempt]:
    """Return what two agents ask a provider that keeps prompts for some time."""
    rng, found = random.Random(1), []
    for agent in ("a", "b"):
        at, tokens, before_at = 0.0, 1000, None
        for number in range(60):
            cached = tokens if before_at is not None and at - before_at <= keeps_s else 0
            tokens += 100
            found.append(asked(at, number, agent, Usage(0, cached, tokens - cached, 50)))
            before_at = at
            at += rng.uniform(2.0, 60.0)
    return sorted(found, key=lambda each: each[1].granted_at)


def test_the_age_at_which_prompts_are_forgotten_is_found() -> None:
    """Between the oldest one that was read and the youngest one that wasn't."""
    found = fit_cache(conversations(20.0))
    assert found is not None
    assert found.keeps_s == pytest.approx(20.0, rel=0.15)
    assert found.between_s[0] <= 20.0 < found.between_s[1]
    assert found.between_s[0] <= found.drawn(random.Random(1)).keeps_s <= found.between_s[1]
    assert found.share == 1.0


def test_a_cache_that_never_forgot_is_kept_for_as_long_as_is_usual() -> None:
    """Where nothing was missed, nothing says when it would have been."""
    found = fit_cache(conversations(1000.0))
    assert found is not None
    assert found.keeps_s == 300.0
    assert found.between_s[0] < 60.0


def test_no_cache() -> None:
    """Where nothing is read from one, or age has nothing to do with it."""
    assert fit_cache([asked(float(n), n, "a", Usage(500, 0, 0, 50)) for n in range(20)]) is None
    rng = random.Random(2)
    by_chance = [
        asked(at, n, "a", Usage(0, *((500, 0) if rng.random() < 0.5 else (0, 500)), 50))
        for n, at in enumerate(sorted(rng.uniform(0, 2000.0) for _ in range(80)))
    ]
    assert fit_cache(by_chance) is None


def test_what_comes_later_than_recorded_isn_t_read_any_more() -> None:
    """And what comes sooner is; tokens only move."""
    state = CacheState(Cache(20.0, 1.0, (19.0, 21.0)))
    first, read, missed = (
        asked(at, n, "a", usage)
        for n, (at, usage) in enumerate(
            [(0.0, Usage(0, 0, 1000, 50)), (5.0, Usage(0, 1000, 100, 50)), (90.0, Usage(0, 0, 1200, 50))]
        )
    )
    read[1].unused_s, missed[1].unused_s = 5.0, 85.0
    assert state.usage(0.0, *first) == first[1].usage
    late = state.usage(50.0, *read)
    assert late is not None
    assert (late.cache_read_tokens, late.total_input) == (0, 1100)
    soon = state.usage(60.0, *missed)
    assert soon is not None
    assert (soon.cache_read_tokens, soon.total_input) == (1100, 1200)
