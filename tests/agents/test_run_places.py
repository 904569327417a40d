"""`hivemind run` beyond the limit of agents queues, and comes through whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agents.running import Place, at, before, ended, providing, said
from detached import detached_in, end_all
from ports import unused_port
from trusted import trusted_settings
from waiting import until

from hivemind.api_types import PlaceRelease, PlaceRequest, PlaceResponse, RunUsage
from hivemind.control.client import ControlClient, open_http
from hivemind.control.discovery import find_token, parse_address
from hivemind.control.rights import Denied
from hivemind.control.run_access import RunAccess
from hivemind.records import replace
from hivemind.scheduler.commands import Conflict, StopAgent
from hivemind.world.snapshot import AgentView

WAITS = "touch up-$HIVEMIND_AGENT; while [ ! -e go ]; do sleep 0.02; done"


async def test_queues(tmp_path: Path) -> None:
    """One more than may run waits for its turn, says so once, and runs when there is a place."""
    async with before(tmp_path, max_agents=1) as (running, place):
        proxy, others = running.proxy, [PlaceRequest("first", runner="1"), PlaceRequest("second", runner="2")]
        assert [proxy.processes.place(each, "runner").granted for each in others] == [True, False]
        queued = asyncio.create_task(place.called("run", "--name", "third", "--", "touch", "ran"))
        await until(lambda: proxy.processes._places.find("third"))
        assert not (tmp_path / "ran").exists()
        proxy.processes.leave(PlaceRelease("second", None, "2"), "runner")
        proxy.processes.leave(PlaceRelease("first", 0, "1"), "runner")
        ran = await queued
    first, second, third, *_ = ran.err.splitlines()
    assert (first, second) == ("hivemind: third: queued behind 1", "hivemind: third: starts")
    assert third.startswith("hivemind: third: exit code 0")
    assert (tmp_path / "ran").exists()


async def test_a_renewal_ends_before_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ends while its place is being renewed. Cut off, the renewal was reported as denied, because nobody
    held its connection any more, or took the place again after its release."""
    steps, place, leave = list[str](), ControlClient.place, ControlClient.leave

    async def renew(client: ControlClient, wanted: PlaceRequest) -> PlaceResponse:
        if wanted.running and not steps:
            steps.append("renewal begins")
            (tmp_path / "go").touch()
            command = Path("/proc", (tmp_path / "pid").read_text().strip())
            await until(lambda: not command.exists())
            with contextlib.suppress(TimeoutError):
                await until(lambda: len(steps) > 1, patience_s=0.2)
            steps.append("renewal ends")
        return await place(client, wanted)

    async def release(client: ControlClient, ended: PlaceRelease) -> RunUsage:
        steps.append("release")
        return await leave(client, ended)

    monkeypatch.setattr(ControlClient, "place", renew)
    monkeypatch.setattr(ControlClient, "leave", release)
    async with before(tmp_path) as (running, folder):
        ran = await folder.called("run", "--", "sh", "-c", "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done")
        assert running.proxy.processes.agents == ()
    assert (ran.code, steps) == (0, ["renewal begins", "renewal ends", "release"]), ran.err


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_gives_up_its_turn(tmp_path: Path, number: signal.Signals) -> None:
    """A run that is told to end while it queues ends at once, and holds nobody up."""
    async with before(tmp_path, max_agents=1) as (running, place):
        first = await place.run("--name", "first", "--", "sh", "-c", WAITS)
        await until((tmp_path / "up-first").exists)
        second = await place.run("--name", "second", "--", "touch", "ran")
        await said(second, "queued")
        second.send_signal(number)
        ran = await ended(second)
        assert running.proxy.processes.agents == ("first",)
        (tmp_path / "go").touch()
        await ended(first)
    assert (ran.code, ran.err) == (128 + number, "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.e2e
async def test_nested(tmp_path: Path) -> None:
    """With one place in all, a run inside a run inside a run gets its turn, because those around it wait for it."""
    async with before(tmp_path, max_agents=1) as (running, place):
        inner = "hivemind run --name inner -- sh -c 'echo $HIVEMIND_AGENT'"
        middle = f'hivemind run --name middle -- sh -c "{inner.replace("$", chr(92) + "$")}"'
        ran = await place.ran("--name", "outer", "--", "sh", "-c", middle)
        parents = {agent.name: agent.parent for agent in running.snapshot().agents}
    assert (ran.code, ran.out) == (0, "inner\n"), ran.err
    assert parents == {"outer": None, "middle": "outer", "inner": "middle"}


@pytest.mark.slow
async def test_fork_bomb(tmp_path: Path) -> None:
    """Of twelve that start at once never more than three run together, and all of them run."""
    script = (
        "for n in 1 2 3; do mkdir place-$n && break; done 2>/dev/null || exit 9;"
        " echo $HIVEMIND_AGENT >> log; sleep 0.05; rmdir place-$n"
    )
    async with before(tmp_path, max_agents=3) as (running, place):
        runs = [await place.run("--quiet", "--", "sh", "-c", script) for _ in range(12)]
        done = [await ended(run) for run in runs]
        assert running.proxy.processes.agents == ()
    assert [ran.code for ran in done] == [0] * 12, [ran.err for ran in done]
    assert len(set((tmp_path / "log").read_text().split())) == 12


SPLITS = """\
echo "$$" > "live-$HIVEMIND_AGENT"; ls live-* | wc -l >> sizes
hivemind run --quiet -- sh splits.sh & one=$!
hivemind run --quiet -- sh splits.sh & two=$!
[ "$1" = leaves ] || { wait $one; wait $two; }
sleep 0.2; rm "live-$HIVEMIND_AGENT"
"""
"""A script that starts two of itself."""


@pytest.mark.slow
async def test_a_batch_that_splits(tmp_path: Path) -> None:
    """The same script as a task of a batch, with processes alone: no more of it live than one tree may have, what is
    refused names the tree, and the batch ends."""
    (tmp_path / "splits.sh").write_text(SPLITS)
    trusted_settings(tmp_path, "[agents]\nmax_depth = 3\nmax_tree = 5\n")
    (tmp_path / "work.yaml").write_text("tasks: {split: sh splits.sh}\n")
    environ = {"HIVEMIND_PORT": str(unused_port()), "HIVEMIND_UPSTREAM": "lab=http://127.0.0.1:9"}
    async with at(tmp_path, **environ) as place:
        try:
            ran = await ended(await place.start("hivemind", "batch", "work.yaml", "--max-agents", "3"))
            log = (tmp_path / "state/batches/work/1/logs/split.log").read_text()
            proxy_log = await ended(await place.start("hivemind", "logs"))
        finally:
            end_all(detached_in(tmp_path))
    assert ran.code == 0, ran.err
    assert "work: 1 task, 1 done" in ran.out
    sizes = [int(size) for size in (tmp_path / "sizes").read_text().split()]
    assert 5 <= len(sizes) <= 7
    assert max(sizes) <= 5
    refused = [line for line in log.splitlines() if "isn't started" in line]
    assert len(refused) >= 6
    assert all("isn't started: the tree of work.split " in line for line in refused)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("live-")]
    assert "isn't started: the tree of work.split " in proxy_log.out
    assert "denied" not in proxy_log.out


@pytest.mark.e2e
async def test_too_deep(tmp_path: Path) -> None:
    """A run that isn't started because of its tree says so, with exit code 1, and so does the log; the agent isn't
    known afterwards."""
    async with before(tmp_path, agents={"max_depth": 1}) as (running, place):
        ran = await place.ran("--name", "outer", "--", "hivemind", "run", "--name", "inner", "--", "touch", "ran")
        names = [agent.name for agent in running.snapshot().agents]
        lines = [line for line in running.snapshot().lines if line.who == "inner"]
        denied = [line.text for line in running.snapshot().lines if line.tag == "denied"]
    why = "the tree of outer may be 1 deep (agents.max_depth), and this is outer > inner"
    assert [(line.level, line.tag, line.text) for line in lines] == [("warn", "agent", f"isn't started: {why}")]
    assert not denied, "its runner has no place to release"
    assert (ran.code, names, (tmp_path / "ran").exists()) == (1, ["outer"], False)
    assert f"inner isn't started: {why}" in ran.err


async def test_nothing_denied_without_need(tmp_path: Path) -> None:
    """A run may leave the queue for what it wanted to start, and look for a free name; both were told as attempts to
    do what it may not."""
    async with before(tmp_path, max_agents=1) as (running, _):
        proxy = running.proxy
        proxy.processes.place(PlaceRequest("top", runner="1"), "runner")
        top = RunAccess(proxy, "top")
        assert top.place(PlaceRequest("one", runner="2"), "runner").granted
        assert not top.place(PlaceRequest("two", runner="3"), "runner").granted
        await top.leave(PlaceRelease("two", None, "3"), "runner")
        assert proxy.processes.agents == ("top", "one")
        with pytest.raises(Conflict, match="top is known already"):
            RunAccess(proxy, "one").place(PlaceRequest("top", runner="4", fresh=True), "runner")
        assert not [line for line in running.snapshot().lines if line.tag == "denied"]
        for asked in (PlaceRequest("top", runner="4"), PlaceRequest("one", runner="4")):
            with pytest.raises(Denied):
                RunAccess(proxy, "one").place(asked, "runner")
        with pytest.raises(Denied):
            await RunAccess(proxy, "one").leave(PlaceRelease("top", None, "1"), "runner")
        assert len([line for line in running.snapshot().lines if line.tag == "denied"]) == 3


async def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    """A batch's runner asks every few seconds for a place in a tree that is full; another runner's is told anew."""
    async with before(tmp_path, agents={"max_tree": 1}) as (running, _):
        place = running.proxy.processes.place
        assert place(PlaceRequest("top", runner="1"), "batch").granted
        below = PlaceRequest("below", "top", runner="2")
        for wanted in (below, below, replace(below, runner="3"), replace(below, runner="3")):
            assert place(wanted, "batch").refused
        running.proxy.processes.leave(PlaceRelease("top", 0, "1"), "batch")
        assert place(replace(below, parent=None), "batch").granted
        told = [line for line in running.snapshot().lines if "isn't started" in line.text]
    assert [line.who for line in told] == ["below", "below"]


@asynccontextmanager
async def serving(place: Place, upstream: str, port: int) -> AsyncIterator[None]:
    """`hivemind proxy` on that port; it is killed at the end."""
    flags = ("--upstream", upstream, "--port", str(port), "--max-agents", "1")
    process = await place.start("hivemind", "proxy", *flags)
    assert process.stdout is not None
    assert b"ready" in await process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.e2e
async def test_a_killed_proxy(tmp_path: Path) -> None:
    """A command doesn't notice that the proxy is killed, and keeps its place in the next one, which has another token:
    whoever queued goes on queueing, and whom the operator stopped still is."""
    port = unused_port()
    url = parse_address(f"http://127.0.0.1:{port}")
    environ = {"HIVEMIND_PORT": str(port), "HIVEMIND_STATE_DIR": str(tmp_path / "state")}
    async with providing() as (_, upstream), at(tmp_path, **environ) as place, open_http(url) as http:
        async with serving(place, upstream, port):
            first = await place.run("--name", "first", "--", "sh", "-c", WAITS)
            await until((tmp_path / "up-first").exists)
            client = ControlClient(url.url, find_token(url, environ), http)
            await client.command(StopAgent("first", True), "test")
            second = await place.run("--name", "second", "--", "sh", "-c", "[ -e go ]")
            await said(second, "queued")
        async with serving(place, upstream, port):
            assert client.renew_token()
            agents: dict[str, AgentView] = {}
            while "first" not in agents or not agents["first"].running:
                agents = {agent.name: agent for agent in (await client.world()).snapshot.agents}
            refused = await http.post(f"{url.url}/agent/first/v1/messages", json={"model": "m"})
            (tmp_path / "go").touch()
            done = [await ended(each) for each in (first, second)]
            agents |= {agent.name: agent for agent in (await client.world()).snapshot.agents}
    assert [ran.code for ran in done] == [0, 0], done
    assert (refused.status_code, agents["first"].exit_code) == (400, 0)
    assert "first: exit code 0 after" in done[0].err


@pytest.mark.e2e
async def test_a_killed_host(tmp_path: Path) -> None:
    """Where a run was killed with the proxy that it had started, its agent can be run again at once, and another one as
    soon as it is clear that it doesn't run any more."""
    async with providing() as (_, upstream):
        environ = {"HIVEMIND_UPSTREAM": upstream, "HIVEMIND_PORT": str(unused_port()), "HIVEMIND_MAX_AGENTS": "1"}
        async with at(tmp_path, **environ) as place:
            host = await place.run("--name", "alice", "--", "sh", "-c", WAITS)
            await until((tmp_path / "up-alice").exists)
            host.kill()
            end_all(detached_in(tmp_path))
            other = await place.run("--name", "bob", "--", "true")
            lines = await said(other, "queued")
            again = await place.ran("--name", "alice", "--", "sh", "-c", "touch again")
            assert (await ended(other)).code == 0
    assert "bob: queued, and next" in lines
    assert (again.code, (tmp_path / "again").exists()) == (0, True), again.err
