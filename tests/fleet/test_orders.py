"""Commands that another proxy of the fleet carries out."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from fleet.members import KEY, Proxy, lease, member, opened, present
from redis_server import RedisServer
from world.kit import LANE, arrived, told

from hivemind.control.codec import to_plain
from hivemind.fleet import orders
from hivemind.fleet.orders import RemoteCommand, destinations, inbox_key, send
from hivemind.fleet.store import FleetStore
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.commands import Command, Conflict
from hivemind.scheduler.types import Priority

STOP = cmd.StopAgent("ann", True)


def proxy(machine: str, agent: str = "ann", **about: Any) -> Proxy:
    """One that has that agent."""
    return Proxy(member(machine, lease(), **about), told(arrived(1, agent)).snapshot(1.0))


def to_all(command: Command, *proxies: Proxy) -> list[tuple[Any, Command]]:
    return destinations(command, [each.about for each in proxies])


async def put(store: FleetStore, to: str, *, valid_s: float = 5.0, id: str = "1", name: str = "StopAgent") -> None:
    """A command as another program may put it there."""
    now = int((await store.call("TIME"))[0])  # type: ignore[index]
    order = RemoteCommand(id, name, to_plain(STOP), "eve", now + valid_s)
    await store.call("RPUSH", inbox_key(to), msgspec.json.encode(order))


async def test_a_command_is_carried_out_where_the_agent_lives(server: RedisServer) -> None:
    """By the same apply as one from a key, and nowhere else."""
    here, there = proxy("a", "bob"), proxy("b")
    async with opened(server.url) as store, present(server.url, [here, there]):
        sent = await send(store, to_all(STOP, here, there), "ann@desk")
        sent.check()
    assert there.applied == [(STOP, "ann@desk")]
    assert not here.applied


async def test_an_agent_on_two_machines_is_steered_on_both(server: RedisServer) -> None:
    """With all arguments."""
    both = [proxy("a"), proxy("b")]
    command = cmd.SetPriority("ann", Priority.CRITICAL)
    async with opened(server.url) as store, present(server.url, both):
        (await send(store, to_all(command, *both), "eve")).check()
    assert [each.applied for each in both] == [[(command, "eve")]] * 2


async def test_why_it_isnt_carried_out_is_told(server: RedisServer) -> None:
    """With the proxy's name, and what was done elsewhere."""
    fine, bad = proxy("a"), proxy("b")
    bad.refuses = "its budget is used up"
    async with opened(server.url) as store, present(server.url, [fine, bad]):
        sent = await send(store, to_all(STOP, fine, bad), "eve")
    with pytest.raises(Conflict, match=r"^b: its budget is used up; carried out by a$"):
        sent.check()


async def test_an_agent_that_nobody_knows_is_told(server: RedisServer) -> None:
    """Nothing was changed then."""
    only = proxy("a", "bob")
    async with opened(server.url) as store, present(server.url, [only]):
        sent = await send(store, to_all(STOP, only), "eve")
    with pytest.raises(Conflict, match="no proxy of the fleet knows 'ann'"):
        sent.check()


async def test_silence_is_told(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that was killed a moment ago."""
    monkeypatch.setattr(orders, "ANSWERS_S", 0.05)
    alive, dead = proxy("a"), proxy("b")
    async with opened(server.url) as store, present(server.url, [alive]):
        sent = await send(store, to_all(STOP, alive, dead), "eve")
    with pytest.raises(Conflict, match=r"no answer from b within .*; carried out by a"):
        sent.check()


async def test_the_silence_of_one_that_isnt_concerned_is_no_trouble(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a proxy that was killed would be in the way of every command until it is forgotten."""
    monkeypatch.setattr(orders, "_OTHERS_S", 0.05)
    alive, dead = proxy("a"), proxy("b", "bob")
    async with asyncio.timeout(orders.ANSWERS_S), opened(server.url) as store, present(server.url, [alive]):
        (await send(store, to_all(STOP, alive, dead), "eve", {"a-1"})).check()
    assert alive.applied == [(STOP, "eve")]


async def test_a_replayed_command_does_nothing(server: RedisServer) -> None:
    """An id is used once, also where it comes twice together."""
    mine = proxy("a")
    async with opened(server.url) as store:
        inbox = mine.inbox(store)
        await put(store, "a-1")
        await put(store, "a-1")
        await inbox.look()
        await put(store, "a-1")
        await inbox.look()
        assert len(mine.applied) == 1
        await put(store, "a-1", id="2")
        await inbox.look()
    assert len(mine.applied) == 2


@pytest.mark.parametrize("valid_s", [-1.0, 100_000.0])
async def test_an_expired_command_does_nothing(server: RedisServer, valid_s: float) -> None:
    """Nor one that would be valid for ever, whose id can't be remembered so long."""
    mine = proxy("a")
    async with opened(server.url) as store:
        await put(store, "a-1", valid_s=valid_s)
        assert await mine.inbox(store).look() == 1
    assert not mine.applied


@pytest.mark.parametrize("data", ["", "{}", "[1]", '{"id": 1}', "\udcff", "x" * (300 << 10)])
async def test_nonsense_in_the_inbox_does_nothing(server: RedisServer, data: str) -> None:
    """And hides no command after it."""
    mine = proxy("a")
    async with opened(server.url) as store:
        await store.call("RPUSH", inbox_key("a-1"), data.encode("utf-8", "surrogateescape"))
        await put(store, "a-1")
        await mine.inbox(store).look()
    assert len(mine.applied) == 1


@pytest.mark.parametrize("name", ["BeginAgent", "ClaimTask", "SubmitTasks", "rm", ""])
async def test_commands_of_runners_arent_taken(server: RedisServer, name: str) -> None:
    """They are for the proxy that a runner knows."""
    mine = proxy("a")
    async with opened(server.url) as store:
        await put(store, "a-1", name=name)
        await mine.inbox(store).look()
        answers: Any = await store.call("LRANGE", "hm:answer:1", 0, -1)
    assert not mine.applied
    assert [msgspec.json.decode(each)["ok"] for each in answers] == [False]


def test_a_lane_is_steered_by_one_of_those_that_share_it() -> None:
    """Under its own name there; the leases tell the others."""
    near, far = member("a", lease(state="safe")), member("b", lease("mine:1"))
    assert destinations(cmd.SetCircuit("open", LANE), [near, far]) == [(far, cmd.SetCircuit("open", "mine:1"))]
    near = member("a", lease())
    assert destinations(cmd.PinLevel(3.0, LANE), [near, far], near="a-1") == [(near, cmd.PinLevel(3.0, LANE))]
    assert destinations(cmd.ReleaseLane(LANE), [far, near], near="b-1") == [(far, cmd.ReleaseLane("mine:1"))]


def test_a_lane_that_nobody_shares_is_told() -> None:
    """As any lane that isn't known."""
    with pytest.raises(Conflict, match="no proxy of the fleet shares the lane"):
        destinations(cmd.ReleaseLane("other"), [member("a", lease())])


def test_knobs_and_pauses_go_to_all() -> None:
    """Each proxy has its own."""
    members = [member("a"), member("b")]
    for command in (cmd.Tune("aimd.beta", 0.5), cmd.PauseAdmissions(True), cmd.Drain(True)):
        assert destinations(command, members) == [(each, command) for each in members]


def test_a_task_that_is_shown_with_its_machine_goes_there() -> None:
    """Under its own id."""
    members = [member("a", lease(lane=KEY)), member("b")]
    assert destinations(cmd.RetryTask("lint@b"), members) == [(members[1], cmd.RetryTask("lint"))]
    assert destinations(cmd.CancelTask("lint"), members) == [(each, cmd.CancelTask("lint")) for each in members]
    command = cmd.SetTaskPriority("lint@b", Priority.HIGH)
    assert destinations(command, members) == [(members[1], cmd.SetTaskPriority("lint", Priority.HIGH))]


@pytest.mark.parametrize("command", [cmd.BeginAgent("ann"), cmd.SubmitTasks(()), cmd.ForgetTasks("x")])
def test_commands_of_runners_go_nowhere(command: Command) -> None:
    """They need the proxy's token."""
    with pytest.raises(Conflict, match="attach to it"):
        destinations(command, [member("a")])


def test_without_proxies_nothing_is_sent() -> None:
    """It says so."""
    with pytest.raises(Conflict, match="no proxy of the fleet runs"):
        destinations(STOP, [])
