"""What is concluded about clients and agents from how they reacted to errors and to waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from lab.kit import LANE, recorded, request, served
from msgspec import structs

from hivemind.lab.fit.clients import ClientState
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.steps import RequestStep
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind


def of_client(client: str, events: Iterable[ev.Event]) -> Iterator[ev.Event]:
    """The events, with requests of this client."""
    for event in events:
        yield structs.replace(event, client=client) if isinstance(event, ev.Arrived) else event


def fails(at: float, ticket: int, agent: str, *, asked_s: float | None = None) -> Iterator[ev.Event]:
    """A request that fails after a second."""
    yield request(at, ticket, agent)
    yield ev.Granted(at, ticket, agent, LANE, 1, 0.0)
    kind = FailureKind.OVERLOADED
    yield ev.AttemptFailed(at + 1.0, ticket, agent, LANE, 1, kind, 529, "", None, None, True, asked_s)


def leaves(at: float, ticket: int, agent: str, *, after_s: float) -> Iterator[ev.Event]:
    """A request whose client leaves."""
    yield request(at, ticket, agent)
    yield ev.Granted(at, ticket, agent, LANE, 1, 0.0)
    yield ev.Abandoned(at + after_s, ticket, agent, LANE, True)


def state(recording: Recording, seed: int = 1, *, draws: bool = False) -> ClientState:
    """Return the clients in a simulation."""
    return ClientState(recording.clients, seed, draws)


def of(recording: Recording, agent: str) -> RequestStep:
    """Return the latest request of an agent."""
    return [each for each in recording.trace.requests if each.arrived.agent == agent][-1]


def test_pauses_vary_as_they_did(tmp_path: Path) -> None:
    """They aren't all the same, and the second is as long as second ones were."""
    events: list[ev.Event] = []
    for n, (first_s, second_s) in enumerate(((1.0, 3.0), (1.5, 4.0), (2.0, 5.0))):
        at = n * 20.0
        events += fails(at, 3 * n, f"a{n}")
        events += fails(at + 1.0 + first_s, 3 * n + 1, f"a{n}")
        events += served(at + 2.0 + first_s + second_s, 3 * n + 2, f"a{n}")
    recording = recorded(tmp_path, events, served(0.0, 50, "b"))
    asking = of(recording, "b")

    def pauses(number: int) -> set[float | None]:
        each = (state(recording, seed).retry_in_s(asking, number, left=False, asked_s=None) for seed in range(40))
        return {None if pause_s is None else round(pause_s, 3) for pause_s in each}

    assert (pauses(1), pauses(2), pauses(3)) == ({1.0, 1.5, 2.0}, {3.0, 4.0, 5.0}, {None})


@pytest.mark.parametrize(("pause_s", "expected_s"), [(10.2, 30.2), (0.5, 0.5)])
def test_retry_after_is_honoured_where_it_was(tmp_path: Path, pause_s: float, expected_s: float) -> None:
    """A client that waited for as long as it was asked to will do so again."""
    events = [*fails(0.0, 1, "a", asked_s=10.0), *served(1.0 + pause_s, 2, "a")]
    recording = recorded(tmp_path, events)
    again_s = state(recording).retry_in_s(of(recording, "a"), 1, left=False, asked_s=30.0)
    assert again_s == pytest.approx(expected_s)


def test_a_timeout_is_learned_from_few_occasions(tmp_path: Path) -> None:
    """One client that repeated the request when it lost patience, and one that left after half a minute sharp."""
    first = [*leaves(0.0, 1, "a", after_s=7.3), *served(9.0, 2, "a", takes_s=2.0)]
    second = [*leaves(0.0, 3, "b", after_s=30.0), *served(40.0, 4, "b", size=9)]
    cancelled = [*leaves(0.0, 5, "c", after_s=3.7), *served(40.0, 6, "c", size=9)]
    recording = recorded(tmp_path, of_client("x", first), of_client("y", second), cancelled)
    clients = state(recording)
    assert [clients.timeout_s(name) for name in "abc"] == [pytest.approx(7.3), pytest.approx(30.0), None]


def test_agents_that_die_and_those_that_go_on(tmp_path: Path) -> None:
    """Each as it did; those that met no error, as one of their client's or as any."""
    died = [*fails(0.0, 1, "dies")]
    went_on = [*fails(0.0, 2, "lives"), *served(5.0, 3, "lives", size=9)]
    others = [*served(0.0, 4, "like-x"), *served(0.0, 5, "like-y")]
    events = [*of_client("x", [*died, others[0], *others[1:4]]), *of_client("y", [*went_on, *others[4:]])]
    recording = recorded(tmp_path, events)
    names = ("dies", "lives", "like-x", "like-y")
    for seed in range(10):
        assert [state(recording, seed).survives(name, left=False) for name in names] == [False, True, False, True]


def test_drawn_think_times_are_the_agents_own(tmp_path: Path) -> None:
    """Recorded ones are kept unless luck is drawn."""
    events = [each for n in range(5) for each in served(n * 2.0 + n * n / 10, n, "a")]
    recording = recorded(tmp_path, events)
    first = recording.trace.requests[0]
    ((delay_s, _),) = first.after
    assert state(recording).thinks_s(first, delay_s) == delay_s
    drawn = {round(state(recording, seed, draws=True).thinks_s(first, delay_s), 3) for seed in range(60)}
    assert drawn == {1.1, 1.3, 1.5, 1.7}
