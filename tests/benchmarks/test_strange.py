"""Strange worlds: what their providers do that no model describes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from benchmarks.worlds.agents import WorldAgent
from benchmarks.worlds.rules import Asked
from benchmarks.worlds.strange.kinds import STRANGE, strange_world
from benchmarks.worlds.strange.rules import AdaptivePlaces

SMALL = Asked(100, 100, "a")


def test_a_limit_shrinks_when_it_refuses() -> None:
    """And grows again with time."""
    gate = AdaptivePlaces(5.0, grows_per_s=0.1)
    assert gate.refuses(0.0, SMALL, 4) is None
    assert gate.refuses(0.0, SMALL, 5) is not None
    assert gate.refuses(0.0, SMALL, 4) is not None
    assert gate.refuses(60.0, SMALL, 4) is None


def test_each_kind_has_its_turn() -> None:
    """A seed gives the same world; some agents have moods, so that their pauses are alike for a while."""
    names = [strange_world(seed).name.split("-", 1)[1] for seed in range(len(STRANGE))]
    assert all(name.startswith(kind) for name, kind in zip(names, STRANGE, strict=True))
    assert strange_world(3).agents == strange_world(3).agents
    moody = next(made for seed in range(20) if (made := strange_world(seed)).agents[0].mood)
    agent = WorldAgent(moody.agents[0], random.Random(1), None, "")  # type: ignore[arg-type]
    paces = [agent.pace() for _ in range(2000)]
    mean = sum(paces) / len(paces)
    alike = sum((one - mean) * (two - mean) for one, two in pairwise(paces))
    assert alike / sum((each - mean) ** 2 for each in paces) == pytest.approx(0.9, abs=0.1)
