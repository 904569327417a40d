"""A recording run again for real: the same agents, in front of a mock that does what was fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind_mock.replay.run import replay
from hivemind_mock.worlds.world import run, world


def recorded(folder: Path, *kinds: str) -> Recording:
    path = folder / "run.jsonl"
    run(world(3, kinds), 1, path=path)
    return load(path)


@pytest.mark.parametrize("kinds", [("bucket",), ("batching",), ("queue",), ("places", "chance"), ("spells",)])
def test_as_it_was(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """With the recorded settings it takes about as long as it did, and as much is done."""
    recording = recorded(tmp_path, *kinds)
    was, now = recording.figures, replay(recording, (), 0)
    assert now.agents == was.agents
    assert now.answered == pytest.approx(was.answered, rel=0.15)
    assert now.wall_s == pytest.approx(was.wall_s, rel=0.2)
    assert now.busiest == was.busiest


def test_with_changes(tmp_path: Path) -> None:
    """Changes are in force, and the same seed gives the same run."""
    recording = recorded(tmp_path, "queue")
    narrow = parse_changes(["max_concurrency=1"])
    first, second = (replay(recording, narrow, 4) for _ in range(2))
    assert first == second
    assert first.busiest == 1
    assert first.wall_s > 1.5 * recording.figures.wall_s


def test_upstreams_that_differ(tmp_path: Path) -> None:
    """One mock can't stand in for upstreams with different settings, which one line says."""
    recording = recorded(tmp_path, "queue")
    ((key, lane),) = recording.lanes.items()
    two = replace(recording, lanes={key: lane, "other:1": replace(lane, max_concurrency=99)})
    with pytest.raises(UsageError, match="its upstreams have different settings"):
        replay(two, (), 0)
