"""What a simulation is asked of single agents holds in it."""

from __future__ import annotations

from collections import Counter

import pytest
from commands.journals import recorded

from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A run of five agents."""
    return load(recorded(tmp_path_factory.mktemp("journals"), "micro-5"))


def test_an_agents_priority(recording: Recording) -> None:
    """It holds from its second request on, and nobody else's changes."""
    events: list[ev.Event] = []
    simulate(recording, parse_changes(["agent.agent-03.priority=low"]), on_event=events.append)
    seen: dict[str, list[Priority]] = {}
    for event in events:
        if isinstance(event, ev.Arrived):
            seen.setdefault(event.agent, []).append(event.priority)
    assert set(seen["agent-03"][1:]) == {Priority.LOW}
    assert set(seen["agent-04"]) == {Priority.NORMAL}


def test_an_agents_budget(recording: Recording) -> None:
    """Who has next to none is refused once it is used."""
    events: list[ev.Event] = []
    figures = simulate(recording, parse_changes(["agent.agent-03.budget=100"]), on_event=events.append)
    granted = Counter(event.agent for event in events if isinstance(event, ev.Granted))
    assert figures.refused > 0
    assert granted["agent-03"] < granted["agent-04"]
