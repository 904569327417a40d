"""A recorded provider: what is concluded from what it did, and about its prompt caches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import LANE, failed, recorded, request, served

from benchmarks.worlds.rules import Places
from benchmarks.worlds.world import run, world
from hivemind.lab.fit.cache import Cache, CacheState, fit_cache
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import request_of
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Usage, WindowKind, WindowReading


def of(recording: Recording) -> FittedProvider:
    """Return the only provider of a recording."""
    (provider,) = recording.providers.values()
    return provider


def retried(
    at: float, ticket: int, agent: str, kind: FailureKind, *, status: int, again_s: float, delay_s: float | None = None
) -> Iterator[ev.Event]:
    """A request that is refused at once, and answered a while later."""
    yield request(at, ticket, agent)
    yield ev.Granted(at, ticket, agent, LANE, 1, 0.0)
    yield ev.AttemptFailed(at + 0.01, ticket, agent, LANE, 1, kind, status, "", again_s, None, True, delay_s)
    later = at + 0.01 + again_s
    yield ev.Granted(later, ticket, agent, LANE, 2, 0.0)
    yield ev.FirstContent(later + 1.0, ticket, agent, LANE, 1.0)
    yield ev.Finished(later + 1.0, ticket, agent, LANE, "m", 200, 2, Usage(100, 0, 0, 50), later + 1.0 - at)


def test_a_place_too_many_is_noticed(tmp_path: Path) -> None:
    """Where it refused as overloaded whenever four were at work, and never below, four is too many."""
    events: list[ev.Event] = []
    for round_ in range(5):
        at = round_ * 10.0
        for place in range(3):
            events += served(at + place / 100, round_ * 10 + place, f"a{place}", takes_s=2.0)
        events += retried(at + 0.5, round_ * 10 + 5, "b", FailureKind.OVERLOADED, status=529, again_s=3.0)
    provider = of(recorded(tmp_path, events))
    assert provider.places is not None
    assert provider.places.most == 3
    assert (provider.failures.spells, provider.failures.chance) == (None, [])


@pytest.mark.slow
def test_spells_hide_no_limit(tmp_path: Path) -> None:
    """A limit of requests in process that refuses with the status of spells is found in what these leave."""
    made, path = world(364), tmp_path / "world.jsonl"
    run(made, 1, path=path)
    (gate,) = made.rules.gates()
    assert isinstance(gate, Places)
    provider = of(load((path,), None))
    assert provider.failures.spells is not None
    assert provider.places is not None
    assert provider.places.most == gate.most


def test_an_unreported_limit_shows_in_refusals(tmp_path: Path) -> None:
    """Ten requests a minute went through before it refused, twice."""
    events: list[ev.Event] = []
    for minute in range(2):
        for n in range(10):
            events += served(minute * 60.5 + n / 5, minute * 100 + n, f"a{n}", takes_s=0.1)
        ticket, at = minute * 100 + 50, minute * 60.5 + 3.0
        wait_s = 58.0
        events += retried(at, ticket, "b", FailureKind.RATE_LIMITED, status=429, again_s=wait_s, delay_s=wait_s)
    provider = of(recorded(tmp_path, events))
    (limit,) = provider.limits
    assert (limit.kind, limit.form, limit.reported) == (WindowKind.REQUESTS, "fixed", False)
    assert limit.limit in (10, 11)
    assert provider.failures.chance == []


def test_a_refusal_out_of_nowhere_is_chance(tmp_path: Path) -> None:
    """A 429 with most of the window left isn't the window's doing."""
    events: list[ev.Event] = []
    for n in range(20):
        events += served(float(n), n, f"a{n}", takes_s=0.5)
        reading = WindowReading(WindowKind.REQUESTS, 1000, 1000 - n, 60.0 - n)
        events.append(ev.LimitsRead(n + 0.5, LANE, "m", (reading,)))
    events += retried(10.2, 90, "b", FailureKind.RATE_LIMITED, status=429, again_s=1.0)
    provider = of(recorded(tmp_path, events))
    assert [one.status for _, one in provider.failures.chance] == [429]


def test_what_can_t_be_known_is_told(tmp_path: Path) -> None:
    """No limit was seen, and there were few answers."""
    told = recorded(tmp_path, served(0.0, 1, "a"), [failed(9.0, 99, "z", FailureKind.TIMEOUT)]).warnings
    assert any("no rate limit was seen" in line for line in told)
    assert any("only 1 answer" in line for line in told)


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
