"""The recordings by which the speed of what-if is measured."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.foresight.answer import answered
from benchmarks.foresight.hours import AGENTS, busy_hour, repeated
from benchmarks.foresight.speed import run_program
from benchmarks.worlds.world import run
from hivemind.errors import HiveMindError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.simulate.recording import load


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first turns of some of the agents."""
    hour = busy_hour()
    path = tmp_path_factory.mktemp("hour") / "hour.jsonl"
    run(replace(hour, agents=tuple(replace(each, turns=3) for each in hour.agents[:5])), 1, path=path)
    return path


def test_an_hour_has_about_nine_thousand_requests() -> None:
    """Fifty agents of two models, some of which send two requests at once or leave early."""
    agents = busy_hour().agents
    assert len(agents) == AGENTS
    requests = sum(each.turns + (each.at_once - 1) * (each.turns // 3) for each in agents)
    assert math.isclose(requests, 9000, rel_tol=0.1)
    assert len({each.model for each in agents}) == 2
    assert any(each.patience_s for each in agents)


def test_a_long_recording_is_one_run(recorded: Path, tmp_path: Path) -> None:
    """Repeated, it is read without damage, and its requests and agents go on."""
    size = 4 * recorded.stat().st_size
    path = repeated(recorded, tmp_path / "long", size)
    journal = open_journal(path)
    assert sum(part.stat().st_size for part in journal.parts) >= size
    assert len([*journal.events()]) > 0
    assert not [*journal.damage.messages()]
    once, often = load(recorded), load(path)
    assert len(often.trace.requests) > 3 * len(once.trace.requests)
    assert often.figures.agents == once.figures.agents
    assert repeated(recorded, tmp_path / "long", size) == path


def test_what_a_prediction_takes(recorded: Path) -> None:
    """Every step takes time."""
    took = answered(recorded, "max_concurrency=1")
    assert took.requests == len(load(recorded).trace.requests)
    assert min(took.load.wall_s, took.load.cpu_s, took.predict.wall_s) > 0


def test_a_program_is_measured() -> None:
    """Its memory is that of its processes; one that fails says why."""
    ran = run_program("-c", "import time; kept = bytearray(50_000_000); time.sleep(0.3); print('done')")
    assert ran.output == b"done\n"
    assert ran.wall_s >= 0.3
    if sys.platform == "linux":
        assert 50 < ran.most_mb < 200
    with pytest.raises(HiveMindError, match="no such thing"):
        run_program("-c", "raise SystemExit('no such thing')")
