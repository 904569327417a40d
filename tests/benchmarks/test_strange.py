"""Strange worlds: what their providers do that no model describes."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from benchmarks.worlds.agents import WorldAgent
from benchmarks.worlds.rules import Asked
from benchmarks.worlds.server import Server
from benchmarks.worlds.strange.kinds import STRANGE, strange_world
from benchmarks.worlds.strange.rules import Acceleration, AdaptivePlaces, DebtBucket, TokensActive
from hivemind.lab.simulate.clock import run_virtual

SMALL = Asked(100, 100, "a")


def test_a_limit_shrinks_when_it_refuses() -> None:
    """And grows again with time."""
    gate = AdaptivePlaces(5.0, grows_per_s=0.1)
    assert gate.refuses(0.0, SMALL, 4) is None
    assert gate.refuses(0.0, SMALL, 5) is not None
    assert gate.refuses(0.0, SMALL, 4) is not None
    assert gate.refuses(60.0, SMALL, 4) is None


def test_tokens_in_flight_are_limited() -> None:
    """A request alone is always taken, however large."""
    gate = TokensActive(500)
    assert gate.refuses(0.0, Asked(100, 100, "a", 300), 2) is None
    assert gate.refuses(0.0, Asked(100, 101, "a", 300), 2) is not None
    assert gate.refuses(0.0, Asked(900, 100, "a", 0), 0) is None


def test_a_bucket_may_be_in_debt() -> None:
    """Until it is filled again it refuses."""
    gate = DebtBucket(per_s=10.0, size=100.0)
    gate.taken(0.0, Asked(250, 1, "a"))
    refusal = gate.refuses(1.0, SMALL, 0)
    assert refusal is not None
    assert refusal.retry_after_s == 15.0
    assert gate.readings(1.0)[0].remaining == 0
    assert gate.refuses(15.5, SMALL, 0) is None


def test_more_may_come_slowly() -> None:
    """Twice as many as in the time before are too many, unless it took time."""
    gate = Acceleration(10.0, by=1.2, free=2)
    for at in (0.0, 1.0):
        assert gate.refuses(at, SMALL, 0) is None
        gate.taken(at, SMALL)
    assert gate.refuses(2.0, SMALL, 0) is not None
    assert gate.refuses(11.5, SMALL, 0) is None


def test_the_last_one_is_next() -> None:
    """Of two that wait for the only place."""

    async def main() -> list[int]:
        server, order = Server(lambda at, active: 1.0, places=1, last_first=True), list[int]()

        async def one(number: int) -> None:
            await asyncio.sleep(number / 10)
            async with server.place():
                await server.work(1.0)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(3)))
        return order

    assert run_virtual(main()) == [0, 2, 1]


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
