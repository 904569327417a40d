"""What is concluded about a provider from what it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import LANE, failed, recorded, request, served

from benchmarks.worlds.rules import Places
from benchmarks.worlds.world import run, world
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.simulate.recording import Recording, load
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
