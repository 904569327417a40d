"""A simulated run written down: what was asked of single agents holds in it, and what was decided then doesn't."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from commands.journals import recorded

from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.simulate.journal import write_journal
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A run of eleven agents."""
    return load(recorded(tmp_path_factory.mktemp("journals")))


def changed(recording: Recording, changes: Sequence[str], path: Path) -> Recording:
    """The run with these changes, written down and read again."""
    write_journal(recording, parse_changes(changes), path, "recorded", seed=0)
    return load(path)


def of_agent(path: Path, agent: str) -> list[ev.Granted]:
    return [each for each in open_journal(path).events() if isinstance(each, ev.Granted) and each.agent == agent]


def priorities(recording: Recording, agent: str) -> set[Priority]:
    """What its requests after the first one had when they came."""
    asked = [each.arrived for each in recording.trace.requests if each.arrived.agent == agent]
    return {arrived.priority for arrived in asked[1:]}


def test_an_agents_priority(recording: Recording, tmp_path: Path) -> None:
    """It holds from its first request on, and nobody else's changes."""
    run = changed(recording, ["agent.agent-03.priority=low"], tmp_path / "low.jsonl")
    assert priorities(run, "agent-03") == {Priority.LOW}
    assert priorities(run, "agent-04") == {Priority.NORMAL}


def test_an_agents_budget(recording: Recording, tmp_path: Path) -> None:
    """Who has next to none is refused once it is used."""
    path = tmp_path / "poor.jsonl"
    figures = write_journal(recording, parse_changes(["agent.agent-03.budget=100"]), path, "recorded", seed=0)
    assert figures.refused > 0
    assert len(of_agent(path, "agent-03")) < len(of_agent(path, "agent-04"))


def test_a_folder_that_cannot_be_written(recording: Recording, tmp_path: Path) -> None:
    """One line, and nothing is left."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"can't be written"):
        write_journal(recording, (), tmp_path / "file" / "x", "recorded", seed=0)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
