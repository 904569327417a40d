"""llama.cpp's own server behind HiveMind: agents get what they get without it, and outlive its crash."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.servers.__main__ import killed, proxy, served, stops
from benchmarks.servers.agents import Load, run
from benchmarks.servers.known import LLAMACPP, Running, serving
from benchmarks.servers.models import make

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="there is no xllamacpp for this system"),
]


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """The server with a tiny model."""
    async with serving(LLAMACPP, make(tmp_path / "model"), tmp_path / "server.log") as running:
        yield running


async def test_agents(server: Running, tmp_path: Path) -> None:
    """An agent alone gets the same texts to the letter, with every token counted as the server counts it, and ten at
    once all finish. Anthropic's paths are served too."""
    async with proxy(server.url, tmp_path) as through:
        direct, other = [await run(url, Load(1, 3), "one") for url in (server.url, through)]
        assert (direct.dead, other.dead, other.differ(direct), len(other.answers)) == ([], [], 0, 3)
        ten = await run(through, Load(10, 3, 100, 8), "ten")
        assert (ten.dead, [answer[-1] for answer in ten.answers.values()]) == ([], [8] * 30)
        assert await served(server, through) == {"/v1/messages": True, "/v1/messages/count_tokens": True}


async def test_crash(server: Running, tmp_path: Path) -> None:
    """What is killed under agents and started again costs those alone whose answer had begun, each of which is told."""
    async with proxy(server.url, tmp_path, "--circuit.cooldown-s", "0.5") as through:
        outcome = await killed(server, through, Load(6, 2, 200, 300))
    cut = "APIError: HiveMind: the answer broke off: "
    assert all(why.startswith(cut) for why in outcome.split("; ")[1:]), outcome


async def test_it_stops_as_its_profile_says(server: Running) -> None:
    """It computes nothing more for a client that left, so an attempt may be cut, and its slot be free at once."""
    assert [await stops(server, stream=stream) for stream in (True, False)] == [True, True]
