"""What is known of a fleet where somebody looks at it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import redis_server
from fleet.members import Proxy, lease, member, opened, present
from redis_server import RedisServer
from waiting import until
from world.kit import arrived, told

from hivemind.fleet import watcher as module
from hivemind.fleet.watcher import Watcher
from hivemind.records import replace
from hivemind.scheduler.commands import Conflict, PauseAgent, StopAgent
from hivemind.world.snapshot import Line


@pytest.fixture(autouse=True)
def _read_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)


def proxy(machine: str, *agents: str, wall: float = 1_700_000_000.0) -> Proxy:
    """With these agents."""
    world = told(*(arrived(n, agent) for n, agent in enumerate(agents, 1))).snapshot(2.0)
    return Proxy(member(machine, lease()), replace(world, wall=wall))


@contextlib.asynccontextmanager
async def watching(url: str, me: Proxy | None = None) -> AsyncIterator[Watcher]:
    async with opened(url) as store:
        watcher = Watcher(store, None if me is None else lambda: me.about, wall=lambda: 1_700_000_000.5)
        task = asyncio.create_task(watcher.run())
        try:
            yield watcher
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_read_while_nobody_looks(server: RedisServer) -> None:
    """Neither members nor snapshots are asked for."""
    async with watching(server.url):
        await asyncio.sleep(0.05)
        assert server.command("EXISTS", "hm:watched") == "0"


async def test_a_program_sees_all_proxies_as_one(server: RedisServer) -> None:
    """Every agent, with its machine."""
    async with present(server.url, [proxy("a", "ann"), proxy("b", "bob", "ann")]), watching(server.url) as watcher:
        await until(lambda: (found := watcher.snapshot()) and len(found.agents) == 2 and found.queued == 3)
        world = watcher.snapshot()
        assert world is not None
        assert {agent.name: agent.machines for agent in world.agents} == {"ann": ("a", "b"), "bob": ("b",)}
        assert [each.label for each in watcher.fleet().members] == ["a", "b"]
        assert watcher.fleet().store == f"redis://127.0.0.1:{server.port}"


async def test_one_that_leaves_is_shown_no_longer(server: RedisServer) -> None:
    """Nor its agents."""
    stays, goes = proxy("a", "ann"), proxy("b", "bob")
    async with present(server.url, [stays]), watching(server.url) as watcher:
        async with present(server.url, [goes]):
            await until(lambda: (found := watcher.snapshot()) and len(found.agents) == 2)
        async with opened(server.url) as store:
            await goes.beacon(store).leave("b-1")
        await until(lambda: (found := watcher.snapshot()) and len(found.agents) == 1)
        assert [each.label for each in watcher.fleet().members] == ["a"]


async def test_a_proxy_knows_itself_and_adds_the_others_agents(server: RedisServer) -> None:
    """Its own agents are as of now; the others' as of their last snapshot."""
    me, other = proxy("a", "ann"), proxy("b", "bob")
    async with present(server.url, [other]), watching(server.url, me) as watcher:
        assert [(each.name, each.machines) for each in watcher.agents(me.world)] == [("ann", ("a",))]
        await until(lambda: len(watcher.agents(me.world)) == 2)
        assert [(each.name, each.machines) for each in watcher.agents(me.world)] == [("ann", ("a",)), ("bob", ("b",))]
        assert (watcher.fleet().me, watcher.fleet().state) == ("a-1", "leased")


async def test_a_machine_with_a_wrong_clock_is_shown_right(server: RedisServer) -> None:
    """Its lines would stand among those of another day."""
    wrong = proxy("a", "ann", wall=1_700_050_000.0)
    async with present(server.url, [wrong]), watching(server.url) as watcher:
        await until(watcher.snapshot)
        found = watcher.snapshot()
        assert found is not None
        assert found.wall == pytest.approx(1_700_000_000.5)


async def test_a_line_stays_the_same(server: RedisServer) -> None:
    """Though clocks drift: else a log in plain lines would tell it again, and one that is scrolled back would move."""
    mine, other = proxy("a", "ann"), proxy("b", "bob")
    other.world = replace(other.world, lines=(Line(1.0, other.world.wall - 1.0, "info", "lane", "x", "text"),))
    async with present(server.url, [mine, other]), watching(server.url) as watcher:
        await until(lambda: (found := watcher.snapshot()) and found.lines)
        for step in range(5):
            before = watcher.snapshot()
            assert before is not None
            mine.world = replace(mine.world, at=mine.world.at + 0.2, wall=mine.world.wall + 0.2 + step / 1000)
            await until(lambda before=before: (now := watcher.snapshot()) and now.at > before.at)  # type: ignore[misc]
            found = watcher.snapshot()
            assert found is not None
            assert found.lines == before.lines


async def test_commands_go_where_the_agent_lives(server: RedisServer) -> None:
    """Also from a proxy, to others."""
    me, other = proxy("a", "ann"), proxy("b", "bob")
    async with present(server.url, [me, other]), watching(server.url, me) as watcher:
        await until(lambda: len(watcher.fleet().members) == 2)
        await watcher.apply(PauseAgent("bob", True), "ops")
        assert (me.applied, other.applied) == ([], [(PauseAgent("bob", True), "ops")])
        with pytest.raises(Conflict, match="no proxy of the fleet knows 'eve'"):
            await watcher.apply(StopAgent("eve", True), "ops")


async def test_a_store_that_is_away_is_told() -> None:
    """What was known stays, and gets older; nothing is steered."""
    with redis_server.running() as server:
        async with present(server.url, [proxy("a", "ann")]), watching(server.url) as watcher:
            await until(watcher.snapshot)
            assert watcher.away == ""
            server.kill()
            await watcher.read()
            assert "the fleet's store" in watcher.away
            assert watcher.fleet().away == watcher.away
            assert len(watcher.fleet().members) == 1
            with pytest.raises(Conflict, match="nothing was changed"):
                await watcher.apply(StopAgent("ann", True), "ops")
