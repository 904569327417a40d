"""Two real proxies of one fleet, and the screens of both: who sees what, and who carries out what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import redis_server
from control.kit import RUN, TOKEN
from proxy.kit import Running, client, playing, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import serving
from waiting import until

from hivemind.cli.main import main
from hivemind.control.client import ControlClient
from hivemind.control.discovery import Token
from hivemind.fleet import watcher
from hivemind.scheduler.commands import PauseAgent, Rejected, SetPriority, StopAgent
from hivemind.scheduler.types import Priority
from hivemind.store.token_file import ControlKey
from hivemind_tui.sources.base import Local, Source
from hivemind_tui.sources.remote import AttachedSource

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is read often."""
    monkeypatch.setattr(watcher, "EVERY_S", 0.02)
    monkeypatch.setattr(watcher, "SHOWN_S", 0.0)


@contextlib.asynccontextmanager
async def fleet() -> AsyncIterator[tuple[Running, Running, httpx.AsyncClient]]:
    """Ann asks the first of two proxies, bob the second, with the same key."""
    with redis_server.running() as server:
        async with (
            asyncio.timeout(60),
            serving(playing([ANSWER])) as upstream,
            proxying(f"lab={upstream.url}", fleet=server.url) as one,
            proxying(f"lab={upstream.url}", fleet=server.url) as other,
            client() as web,
        ):
            for running, agent in ((one, "ann"), (other, "bob")):
                running.proxy.control_key = ControlKey(RUN, TOKEN)
                answer = await web.post(f"{running.url}/agent/{agent}/v1/messages", content=PLAIN_BODY)
                assert answer.status_code == 200
            yield one, other, web


async def steers_both(source: Source, one: Running, other: Running) -> None:
    """All agents are seen, and each is steered where it lives."""
    await until(lambda: len(source.fleet().members) == 2)
    await until(lambda: len(source.agents_everywhere()) == 2)
    machines = {agent.name: agent.machines for agent in source.agents_everywhere()}
    labels = {member.id: member.label for member in source.fleet().members}
    assert source.fleet().me in labels
    assert machines["ann"] == (labels[source.fleet().me],)
    assert machines["ann"] != machines["bob"]
    await source.apply(SetPriority("bob", Priority.LOW))
    await source.apply(SetPriority("ann", Priority.HIGH))
    assert [agent.priority for agent in one.snapshot().agents] == [Priority.HIGH]
    assert [agent.priority for agent in other.snapshot().agents] == [Priority.LOW]


async def test_a_proxys_own_room_steers_agents_of_another(tmp_path: Path) -> None:
    """As `M` shows them."""
    async with fleet() as (one, other, _):
        await steers_both(Local(one.proxy, tmp_path / "hivemind.toml"), one, other)


async def test_a_room_that_is_attached_to_one_proxy_does_too() -> None:
    """All screens are equal."""
    async with fleet() as (one, other, web):
        async with AttachedSource(one.url, Token(TOKEN, "the test"), web, name="ops@desk") as source:
            source.snapshot()
            await source.first_answer.wait()
            await steers_both(source, one, other)
        assert any("by ops@desk" in line.text for line in other.snapshot().lines)


async def test_a_script_steers_any_agent_from_any_proxy() -> None:
    """By the control API."""
    async with fleet() as (one, other, web):
        control = ControlClient(one.url, Token(TOKEN, "the test"), web)
        known = await control.fleet()
        assert len(known.members) == 2
        assert known.me == one.proxy.fleet_now().me
        await control.command(PauseAgent("bob", True), "ops", anywhere=True)
        assert other.snapshot().agents[0].held
        with pytest.raises(Rejected, match="knows 'eve'; nothing was changed; known here: ann"):
            await control.command(PauseAgent("eve", True), "ops", anywhere=True)


async def test_the_command_line_steers_any_agent_from_any_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hivemind set priority` and the like."""
    monkeypatch.setenv("HIVEMIND_CONTROL_TOKEN", TOKEN)
    async with fleet() as (one, other, _):
        assert await asyncio.to_thread(main, ["set", "priority", "bob", "low", "--attach", one.url]) == 0
        assert other.snapshot().agents[0].priority is Priority.LOW
        assert await asyncio.to_thread(main, ["stop", "eve", "--attach", one.url]) == 2
    assert "knows 'eve'; nothing was changed; known here: ann" in capsys.readouterr().err


async def test_without_the_store_an_agents_own_proxy_still_stops_it() -> None:
    """And it is said that the others weren't told."""
    with redis_server.running() as server:
        async with (
            serving(playing([ANSWER])) as upstream,
            client() as web,
            proxying(f"lab={upstream.url}", fleet=server.url) as one,
        ):
            answer = await web.post(f"{one.url}/agent/ann/v1/messages", content=PLAIN_BODY)
            assert answer.status_code == 200
            server.kill()
            with pytest.raises(Rejected, match="by this proxy alone"):
                await one.proxy.apply_anywhere(StopAgent("ann", True))
            assert one.snapshot().agents[0].stopped
            with pytest.raises(Rejected, match="nothing was changed"):
                await one.proxy.apply_anywhere(StopAgent("bob", True))


async def test_one_key_is_one_lane_of_the_fleet() -> None:
    """With both proxies' requests, each counted once."""
    async with fleet() as (one, other, _):

        def counted() -> bool:
            known = one.proxy.fleet_now()
            return len(known.lanes) == 1 and [each.used[:1] for each in known.lanes[0].taken] == [(1.0,), (1.0,)]

        await until(lambda: len(one.proxy.fleet_now().members) == 2)
        lanes = {lane.lane for member in one.proxy.fleet_now().members for lane in member.lanes}
        assert len(lanes) == 1
        assert other.proxy.fleet_now().lanes[0].lane in lanes
        if one.proxy.fleet_now().lanes[0].windows:
            await until(counted)


async def test_a_command_of_a_runner_isnt_sent_to_others() -> None:
    """It is for the proxy that the runner knows."""
    async with fleet() as (one, _, web):
        body = {"name": "BeginAgent", "arguments": {"agent": "eve"}, "who": "ops"}
        answer = await web.post(
            f"{one.url}/_control/fleet/commands", json=body, headers={"authorization": f"Bearer {TOKEN}"}
        )
        assert (answer.status_code, "attach to it" in answer.text) == (409, True)
