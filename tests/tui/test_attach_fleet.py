"""A whole fleet as a source: what it shows, and what it has carried out where."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis_server
from fleet.members import Proxy, lease, member, present
from waiting import until
from world.kit import arrived, commanded, first_content, granted, sampled, state, told

from hivemind.errors import UsageError
from hivemind.fleet import watcher
from hivemind.records import replace
from hivemind.scheduler.commands import Conflict, PauseAgent
from hivemind.settings.write import Draft
from hivemind_tui.panels import header
from hivemind_tui.program.main import parse
from hivemind_tui.render.pen import Pen
from hivemind_tui.sources.fleet import FleetSource, attached_to_fleet
from hivemind_tui.state.view import View, ViewBuilder

WHO = {"USER": "ann"}


def proxy(machine: str, agent: str) -> Proxy:
    """One request streams, one waits."""
    world = told(
        *(arrived(1, agent), granted(1, agent), first_content(1, agent)),
        arrived(2, agent, at=2.0),
        sampled(4.0, state()),
    )
    return Proxy(member(machine, lease()), world.snapshot(5.0))


@contextlib.asynccontextmanager
async def attached(*proxies: Proxy) -> AsyncIterator[tuple[FleetSource, redis_server.RedisServer]]:
    with redis_server.running() as server:
        async with present(server.url, proxies), attached_to_fleet(server.url, WHO) as source:
            yield source, server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is read often."""
    monkeypatch.setattr(watcher, "EVERY_S", 0.01)
    monkeypatch.setattr(watcher, "SHOWN_S", 0.0)


async def test_all_machines_stand_in_one_room() -> None:
    """Agents, open requests and the fleet, from the first frame on."""
    async with attached(proxy("a", "ann"), proxy("b", "bob")) as (source, server):
        await until(lambda: len(source.snapshot().agents) == 2)
        world = source.snapshot()
        assert {agent.name: agent.machines for agent in world.agents} == {"ann": ("a",), "bob": ("b",)}
        assert source.agents_everywhere() == world.agents
        requests = source.requests()
        assert source.requests() is requests or source.snapshot() is not world
        assert sorted((each.agent, each.state) for each in requests) == [
            *(("ann", "queued"), ("ann", "streaming")),
            *(("bob", "queued"), ("bob", "streaming")),
        ]
        assert (source.link.kind, source.link.where, source.link.lost_for_s) == (
            "fleet",
            f"redis://127.0.0.1:{server.port}",
            None,
        )
        view = ViewBuilder().look(View(world), source)
        row = "".join(segment.text for segment in header.render(view, 160, 2, Pen())[0])
        assert "fleet of 2" in row
        assert "attached" in row


async def test_agents_are_steered_where_they_live() -> None:
    """And the line about it is the operator's own."""
    here, there = proxy("a", "ann"), proxy("b", "bob")
    async with attached(here, there) as (source, _):
        await source.apply(PauseAgent("bob", True))
        ((command, who),) = there.applied
        assert (command, here.applied) == (PauseAgent("bob", True), [])
        assert who.startswith("ann@")
        world = told(arrived(1, "bob"), commanded("PauseAgent", who=who, agent="bob", paused=True)).snapshot(5.0)
        there.world = replace(world, wall=there.world.wall)
        await until(lambda: any(line.tag == "you" and line.machine == "b" for line in source.snapshot().lines))
        with pytest.raises(Conflict, match="no proxy of the fleet knows 'eve'"):
            await source.apply(PauseAgent("eve", True))


async def test_what_only_a_proxys_own_screen_has() -> None:
    """Its settings file, and the details of a request."""
    async with attached(proxy("a", "ann")) as (source, _):
        assert await source.detail(1) is None
        for wanted in (source.draft({}), source.write(Draft(Path("x"), "", ""))):
            with pytest.raises(Conflict, match="settings file of its own"):
                await wanted


async def test_a_store_that_goes_away_is_told() -> None:
    """What was known stays, marked as outdated."""
    async with attached(proxy("a", "ann")) as (source, server):
        await until(lambda: source.snapshot().agents)
        server.kill()
        await until(lambda: source.snapshot() and "isn't there" in source.link.why)
        assert source.link.lost_for_s is not None
        assert source.snapshot().agents


async def test_an_empty_store_shows_an_empty_room() -> None:
    """At once."""
    async with asyncio.timeout(60), attached() as (source, _):
        assert source.snapshot().agents == ()
        assert source.requests() == ()
        assert source.fleet().members == ()


def test_the_flag_knows_a_stores_url(tmp_path: Path) -> None:
    """A proxy's token is of no use there; a proxy's URL stays one."""
    options = parse(["--attach", "redis://host:7000/1"], {}, tmp_path)
    assert options.remote is not None
    assert options.remote.store
    options = parse(["--attach", "http://host:7000"], {}, tmp_path)
    assert options.remote is not None
    assert not options.remote.store
    with pytest.raises(UsageError, match="--token-file"):
        parse(["--attach", "unix:///run/redis.sock", "--token-file", "x"], {}, tmp_path)
