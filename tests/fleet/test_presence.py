"""What proxies tell the store of themselves, and what is known of a fleet where somebody looks at it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
import redis_server
from fleet.members import Proxy, lease, member, opened, present
from redis_server import RedisServer
from waiting import until
from world.kit import arrived, sampled, state, told

from hivemind.fleet import presence
from hivemind.fleet import watcher as module
from hivemind.fleet.presence import Viewer, pack, unpack, unpack_agents
from hivemind.fleet.store import FleetStore, StoreError
from hivemind.fleet.watcher import Watcher
from hivemind.records import replace
from hivemind.scheduler.commands import Conflict, PauseAgent, StopAgent
from hivemind.world.snapshot import Line, Snapshot


def world(agent: str = "ann") -> Snapshot:
    """One agent, one lane without a limit of its level."""
    return told(arrived(1, agent), sampled(1.0, state(float("inf")))).snapshot(2.0)


class Counted:
    """A store that counts what is sent to it."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self.shown = ""
        self.sent: list[str] = []

    async def call(self, *command: presence.Argument) -> object:
        self.sent.append(str(command[0]))
        return await self._store.call(*command)

    async def pipeline(self, commands: Sequence[Any]) -> list[Any]:
        self.sent += [command[0] for command in commands]
        return [*await self._store.pipeline(commands)]


async def test_proxies_are_seen_by_all(server: RedisServer) -> None:
    """With what each told, and how long ago."""
    about = [member("a", lease()), member("b", lease(lease_age_s=1.5), pid=9)]
    async with opened(server.url) as store:
        for each in about:
            await Proxy(each, world()).beacon(store).beat()
        found = {each.id: each for each in await Viewer(store).members()}
    assert found.keys() == {"a-1", "b-9"}
    seen = found["b-9"]
    assert replace(seen, seen_s=0.0, lanes=(), label="b") == replace(about[1], lanes=())
    assert seen.lanes[0].lease_age_s == pytest.approx(1.5 + seen.seen_s)


async def test_one_that_is_silent_is_forgotten(server: RedisServer) -> None:
    """Its record expires, and its id goes with the next look."""
    async with opened(server.url) as store:
        await Proxy(member("a"), world()).beacon(store).beat()
        assert 0 < int(server.command("PTTL", "hm:proxy:a-1")) <= 10_000
        server.command("DEL", "hm:proxy:a-1")
        assert await Viewer(store).members() == ()
        assert server.command("ZCARD", "hm:proxies") == "0"


async def test_one_that_leaves_is_gone_at_once(server: RedisServer) -> None:
    """With everything that it told."""
    async with opened(server.url) as store:
        beacon = Proxy(member("a"), world()).beacon(store)
        await Viewer(store).watch()
        await beacon.beat()
        await beacon.leave("a-1")
        assert await Viewer(store).members() == ()
        assert server.command("EXISTS", "hm:snapshot:a-1") == "0"


async def test_without_a_viewer_it_costs_one_small_write(server: RedisServer) -> None:
    """And no snapshot is made."""
    made: list[int] = []

    def snapshot() -> Snapshot:
        made.append(1)
        return world()

    async with opened(server.url) as store:
        counted = Counted(store)
        me = member("a", lease())
        beacon = presence.Beacon(counted, lambda: me, snapshot, "run")
        await beacon.beat()
        assert counted.sent == ["SET", "ZADD", "EXISTS"]
        assert int(server.command("STRLEN", "hm:proxy:a-1")) < 1000
        assert not made
        await Viewer(store).watch()
        await beacon.beat()
        assert made == [1]
        assert 0 < int(server.command("PTTL", "hm:snapshot:a-1")) <= 5_000


async def test_while_somebody_watches_the_snapshot_is_there(server: RedisServer) -> None:
    """The whole of it, infinities included."""
    proxy = Proxy(member("a"), world())
    async with opened(server.url) as store, present(server.url, [proxy]):
        viewer = Viewer(store)
        found: dict[str, bytes] = {}
        await viewer.watch()
        while not found:
            found = dict(await viewer.snapshots([proxy.about]))
        assert unpack(found["a-1"]) == proxy.world
        assert unpack_agents(found["a-1"]) == proxy.world.agents


def test_a_long_snapshot_is_compressed() -> None:
    """It repeats itself."""
    long = told(*(arrived(n, f"agent-{n}") for n in range(200))).snapshot(2.0)
    packed = pack(long, "run")
    assert len(packed) < 20_000
    assert unpack(packed) == long


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"\0" * 30])
def test_what_isnt_a_snapshot_is_none(data: bytes) -> None:
    """One of another version, or damage."""
    assert unpack(data) is None
    assert unpack_agents(data) == ()


async def test_a_record_that_cant_be_read_hides_no_other(server: RedisServer) -> None:
    """A later version may tell more, or otherwise."""
    async with opened(server.url) as store:
        await Proxy(member("a"), world()).beacon(store).beat()
        newer = json.loads(server.command("GET", "hm:proxy:a-1")) | {"id": "new", "since": {"what": 1}}
        for name, record in (("new", json.dumps(newer)), ("bad", "[")):
            server.command("SET", f"hm:proxy:{name}", record)
            server.command("ZADD", "hm:proxies", "1", name)
        assert {each.id for each in await Viewer(store).members()} == {"a-1", "new"}


async def test_a_store_that_is_away_ends_nothing() -> None:
    """The beacon goes on, and beats again when the store is back."""
    with redis_server.running() as server:
        async with opened(server.url) as store:
            beacon = Proxy(member("a"), world()).beacon(store)
            await beacon.beat()
            server.kill()
            with pytest.raises(StoreError):
                await beacon.beat()
            server.start()

            async def again() -> bool:
                try:
                    await beacon.beat()
                except StoreError:
                    return False
                return True

            while not await again():
                pass
            await until(lambda: server.command("EXISTS", "hm:proxy:a-1") == "1")


def test_what_others_write_is_bounded() -> None:
    """Names have a length, no control characters and no keys; what identifies stays apart."""
    key = "sk-ant-api03-" + "a1B2" * 12
    one, other = ("x" * 100_000 + end for end in "ab")
    spoilt = replace(member("a"), machine=one, version=f"1 {key}", address="\x1b[2J\u202eurl", id=other)
    found = presence._member(json.dumps(msgspec.to_builtins(spoilt)).encode(), 5_000)
    assert found is not None
    texts = [found.machine, found.version, found.address, found.id]
    assert all(len(text) <= 200 and text.isprintable() and key not in text for text in texts)
    same = presence._member(msgspec.json.encode(member("a")), 10_000)
    assert same == replace(member("a"), label="", seen_s=0.0)
    records: tuple[Any, ...] = (None, 5, [], b"[" * 100_000, b"{}", b"\xff", b" " * (2 << 20))
    for record in records:
        assert presence._member(record, 5_000) is None
    assert presence._member(msgspec.json.encode(member("a")), None) is None


async def test_answers_of_another_kind() -> None:
    """A store that answers with something else shows nobody."""

    class Odd:
        shown = "redis://odd"

        async def call(self, *command: object) -> Any:
            return 5

        async def pipeline(self, commands: Sequence[Any]) -> list[Any]:
            return [5 for _ in commands]

    assert await Viewer(Odd()).members() == ()
    assert await Viewer(Odd()).snapshots([member("a")]) == {}


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
