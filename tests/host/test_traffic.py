"""What is known of the requests of a run, by the proxy on a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from proxy.kit import Running, between, client
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.api_types import PlaceRelease, PlaceRequest, RunUsage
from hivemind.scheduler.commands import SetBudget, StopAgent

CLAUDE, CODEX = "claude-cli/2.1.0", "codex_exec/0.169"


async def ask(proxy: Running, agent: str, program: str = "", **headers: str) -> None:
    """A request of that agent, until it is over for the proxy too, which may be a little later than for its client."""
    sent = {"x-hivemind-agent": agent, "user-agent": program}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with client() as web:
        await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY, headers=sent)
    await proxy.until(lambda snapshot: not snapshot.slots)


def begin(
    proxy: Running, agent: str, parent: str | None = None, *, running: bool = False, resumed: bool = False
) -> None:
    """A runner starts its process, or (`running`) has started it before."""
    wanted = PlaceRequest(agent, parent, running=running, resumed=resumed, runner=agent)
    assert proxy.proxy.processes.place(wanted, "runner").granted


async def end(proxy: Running, agent: str, kind: str = "", code: int | None = 0) -> RunUsage:
    """Its process ends."""
    return await proxy.proxy.leave(PlaceRelease(agent, code, agent, client=kind), "runner")


def lines(proxy: Running) -> list[str]:
    """What the log says of silent runs."""
    return [f"{line.who} {line.text}" for line in proxy.proxy.snapshot().lines if "no request" in line.text]


@pytest.fixture
async def proxy() -> AsyncIterator[Running]:
    async with between([ANSWER]) as (running, _):
        yield running


async def test_requests_of_a_run(proxy: Running) -> None:
    """Those on its path since it began count, with those of sub-agents and of agents that it started."""
    await ask(proxy, "ann")
    begin(proxy, "ann")
    begin(proxy, "bob", "ann")
    for agent in ("ann", "bob", "bob"):
        await ask(proxy, agent)
    await ask(proxy, "ann", x_claude_code_session_id="s", x_claude_code_agent_id="reader")
    assert (await end(proxy, "bob")).requests == 2
    assert (await end(proxy, "ann")).requests == 4
    assert lines(proxy) == []


async def test_a_run_that_sends_none(proxy: Running) -> None:
    """That is an event. What it sent in an earlier run, or what its runner couldn't start, makes no difference."""
    begin(proxy, "ann")
    await ask(proxy, "ann")
    assert (await end(proxy, "ann", code=1)).requests == 1
    begin(proxy, "ann", resumed=True)
    assert (await end(proxy, "ann")).requests == 0
    assert lines(proxy) == ["ann sent no request on its own path, so nothing was counted and no budget held"]
    begin(proxy, "bob")
    await end(proxy, "bob", code=None)
    assert len(lines(proxy)) == 1


async def test_requests_that_are_refused(proxy: Running) -> None:
    """They came on the path all the same."""
    begin(proxy, "ann")
    proxy.proxy.apply(SetBudget("ann", 1), "you")
    begin(proxy, "bob")
    proxy.proxy.apply(StopAgent("bob", True), "you")
    await ask(proxy, "ann")
    await ask(proxy, "ann")
    await ask(proxy, "bob")
    assert ((await end(proxy, "ann")).requests, (await end(proxy, "bob")).requests) == (2, 1)


async def test_where_its_requests_may_have_gone(proxy: Running) -> None:
    """Agents of its client without a process that were active meanwhile are named; no run, and none from before."""
    await ask(proxy, "before", CLAUDE)
    begin(proxy, "other")
    begin(proxy, "ann")
    for agent, program in (("claude", CLAUDE), ("codex", CODEX), ("other", CLAUDE), ("script", "")):
        await ask(proxy, agent, program)
    assert (await end(proxy, "ann", "claude-code")).elsewhere == ("claude",)
    (line,) = lines(proxy)
    assert line.endswith("; meanwhile its client's requests came as claude")
    begin(proxy, "bob")
    await ask(proxy, "claude", CLAUDE)
    await ask(proxy, "codex", CODEX)
    assert (await end(proxy, "bob")).elsewhere == ("codex", "claude")
    begin(proxy, "crashes")  # at its start: what other people's agents send meanwhile isn't its
    await ask(proxy, "claude", CLAUDE)
    assert (await end(proxy, "crashes", "claude-code", code=127)).elsewhere == ()
    assert "came as" not in lines(proxy)[-1]


async def test_a_process_that_began_before_the_proxy(proxy: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it sent requests before that isn't known, if it has used something."""
    begin(proxy, "ann", running=True)
    await ask(proxy, "ann")
    begin(proxy, "bob", running=True)
    assert ((await end(proxy, "ann")).requests, (await end(proxy, "bob")).requests) == (1, 0)
    monkeypatch.setattr("hivemind.scheduler.places.LEASE_S", -1.0)
    begin(proxy, "ann")
    await ask(proxy, "ann")
    proxy.proxy.processes.lapse()
    begin(proxy, "ann", running=True)
    assert (await end(proxy, "ann")).requests is None
    assert [line.partition(" ")[0] for line in lines(proxy)] == ["bob"]
