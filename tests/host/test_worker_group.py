"""One control address for all workers, whichever of them gets a request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from host.programs import ENVIRONMENT, HIVEMIND, LASTS_S, Program, program, said, workers_of
from proxy.kit import HANGS_S, playing
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import Handler, Scripted, serving

from hivemind.host.workers import frames
from hivemind.host.workers.hop import Hop, serve_hop
from hivemind.host.workers.request_log import MergedRequests, WorkerRequests
from hivemind.proxy.cycle import AnswerCut
from hivemind.scheduler.types import Priority
from hivemind.wire.request_head import RequestPath
from hivemind.world.snapshot import REQUESTS_KEPT, REQUESTS_PAGE, Requests, RequestView

needs_server = pytest.mark.skipif(
    shutil.which("redis-server") is None and shutil.which("valkey-server") is None,
    reason="neither redis-server nor valkey-server is installed",
)


# --- Two workers ------------------------------------------------------------------------------------------------------


@dataclass
class Workers:
    """A program with workers, asked over a new connection each time, so that any of them may answer."""

    program: Program
    token: str

    async def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}", **given.pop("headers", {})}
        async with httpx.AsyncClient(timeout=HANGS_S, trust_env=False) as web:
            return await web.request(method, f"http://127.0.0.1:{self.program.port}{path}", headers=headers, **given)

    async def get(self, path: str) -> Any:
        answer = await self.send("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ask_model(self, agent: str) -> int:
        url = f"http://127.0.0.1:{self.program.port}/agent/{agent}/v1/messages"
        async with httpx.AsyncClient(timeout=HANGS_S, trust_env=False) as web:
            return (await web.post(url, content=PLAIN_BODY)).status_code

    async def command(self, name: str, **arguments: Any) -> httpx.Response:
        return await self.send("POST", "/_control/commands", json={"name": name, "arguments": arguments, "who": "test"})

    async def ends(self) -> None:
        self.program.process.send_signal(signal.SIGTERM)
        assert (await self.program.ends())[0] == 0


@contextlib.asynccontextmanager
async def two_workers(tmp_path: Path, *flags: str) -> AsyncIterator[Workers]:
    state = tmp_path / "state"
    given = ("--workers", "2", "--state-dir", str(state), "--max-concurrency", "50", "--rpm", "0", *flags)
    async with (
        serving(playing([ANSWER])) as upstream,
        program(f"lab={upstream.url}", tmp_path, *given, within_s=LASTS_S) as running,
    ):
        note = json.loads((state / f"control-{running.port}.json").read_text())
        yield Workers(running, note["token"])


@pytest.mark.e2e
@needs_server
async def test_one_address_for_all(tmp_path: Path) -> None:
    """Snapshot, requests, details, budgets and health are of both workers, and the same whoever is asked."""
    async with two_workers(tmp_path) as workers:
        for _ in range(20):
            assert await workers.ask_model("alice") == 200
        pages = [await workers.get("/_control/requests") for _ in range(6)]
        tickets = [each["ticket"] for each in pages[0]["changed"]]
        assert len(tickets) == 20
        assert len({ticket % 1000 for ticket in tickets}) == 2, "both workers served some"
        assert all([each["ticket"] for each in page["changed"]] == tickets for page in pages)
        assert len({page["run"] for page in pages}) == 1
        for ticket in tickets:
            found = await workers.get(f"/_control/requests/{ticket}")
            assert (found["view"]["ticket"], found["view"]["agent"]) == (ticket, "alice")
        assert (await workers.send("GET", "/_control/requests/999001")).status_code == 404
        for _ in range(6):
            (agent,) = (await workers.get("/_stats"))["agents"]
            assert (agent["name"], agent["requests"]) == ("alice", 20)
            rows = await workers.get("/_control/budgets?agent=alice")
            assert rows["agents"][0]["ever"] == rows["pool"]["ever"]
            assert rows["pool"]["ever"]["tokens"] > 0
            health = await workers.get("/_health")
            assert (health["status"], health["alarms"]) == ("serving", [])
        metrics = (await workers.send("GET", "/metrics")).text
        assert "hivemind_requests_total 20.0" in metrics
        await workers.ends()


@needs_server
@pytest.mark.e2e
async def test_decisions_hold_on_all_workers(tmp_path: Path) -> None:
    """An agent that is stopped is refused wherever its connection comes, and served there again once it is released."""
    async with two_workers(tmp_path) as workers:
        await workers.ask_model("alice")
        assert (await workers.command("StopAgent", agent="alice", stopped=True)).status_code == 200
        assert Counter([await workers.ask_model("alice") for _ in range(12)]).keys() == {400}
        assert await workers.ask_model("bob") == 200
        assert (await workers.command("Tune", knob="rpm", value=77, upstream="lab")).status_code == 200
        task = {"id": "t", "agent": "carol", "priority": "high", "after": []}
        assert (await workers.command("SubmitTasks", tasks=[task])).status_code == 200
        os.kill(workers_of(workers.program)[1], signal.SIGKILL)
        await said(workers.program, "worker 2 serves again")
        assert Counter([await workers.ask_model("alice") for _ in range(12)]).keys() == {400}
        assert Counter([await workers.ask_model("carol") for _ in range(12)]).keys() == {200}
        (lane,) = (await workers.get("/_stats"))["lanes"]
        (rpm,) = (each for each in lane["state"]["windows"] if each["kind"] == "requests")
        assert rpm["limit"] == 77
        (found,) = (await workers.get("/_stats"))["tasks"]
        assert (found["id"], found["state"], found["attempt"]) == ("t", "running", 1)
        assert {each["name"]: each["priority"] for each in (await workers.get("/_stats"))["agents"]}["carol"] == "high"
        assert (await workers.command("StopAgent", agent="alice", stopped=False)).status_code == 200
        assert Counter([await workers.ask_model("alice") for _ in range(12)]).keys() == {200}
        unknown = await workers.command("StopAgent", agent="nobody", stopped=True)
        assert (unknown.status_code, "no agent named 'nobody'" in unknown.text) == (409, True)
        wrong = await workers.command("SetPriority", agent="alice", priority="first")
        assert wrong.status_code == 422
        await workers.ends()


@needs_server
@pytest.mark.e2e
async def test_first_worker_gone(tmp_path: Path) -> None:
    """Until the first worker is back the control API says so; health and traffic go on."""
    async with two_workers(tmp_path) as workers:
        first, _ = workers_of(workers.program)
        before = (await workers.get("/_control/about"))["run"]
        os.kill(first, signal.SIGKILL)
        await said(workers.program, "worker 1 serves again")
        assert (await workers.get("/_control/about"))["run"] != before
        assert await workers.ask_model("alice") == 200
        await workers.ends()


@needs_server
@pytest.mark.e2e
async def test_limits_hold_in_sum(tmp_path: Path) -> None:
    """Both workers together send no more requests a minute, and have no more in flight, than one may."""
    gate, flying, most = asyncio.Event(), 0, 0

    def provider(script: Scripted) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal flying, most
            while True:
                await script.request(reader)
                flying += 1
                most = max(most, flying)
                await asyncio.sleep(0.05)
                flying -= 1
                writer.write(ANSWER)

        return handle

    state = tmp_path / "state"
    flags = ("--workers", "2", "--state-dir", str(state), "--max-concurrency", "3", "--rpm", "24", "--tpm", "0")
    async with (
        serving(provider) as upstream,
        program(f"lab={upstream.url}", tmp_path, *flags, within_s=LASTS_S) as running,
    ):
        token = json.loads((state / f"control-{running.port}.json").read_text())["token"]
        workers = Workers(running, token)
        asked = [asyncio.create_task(workers.ask_model(f"agent{number % 4}")) for number in range(40)]
        await upstream.until(lambda: len(upstream.requests) >= 23)
        for _ in range(20):  # of more there would be a few within a sync or two
            assert (await workers.get("/_stats"))["queued"] > 0
            await asyncio.sleep(0.05)
        assert len(upstream.requests) <= 24
        assert most <= 3
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        gate.set()
        await workers.ends()


@needs_server
@pytest.mark.e2e
async def test_runs(tmp_path: Path) -> None:
    """`hivemind run` has its agent's requests at all workers counted, and its token opens the agent's name at each."""
    script = "import os, sys, urllib.request as web\n"
    script += "for _ in range(10):\n"
    script += " url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
    script += f" web.urlopen(web.Request(url, {PLAIN_BODY!r}, {{'x-api-key': 'k'}})).read()\n"
    async with two_workers(tmp_path, "--token", "agents-token-1234567890") as workers:
        run = await asyncio.create_subprocess_exec(
            *(HIVEMIND, "run", "--name", "alice", "--report", str(tmp_path / "alice.json")),
            *("--", sys.executable, "-c", script),
            env={
                **ENVIRONMENT,
                "HIVEMIND_STATE_DIR": str(tmp_path / "state"),
                "HIVEMIND_TOKEN": "agents-token-1234567890",
                "HIVEMIND_URL": f"http://127.0.0.1:{workers.program.port}",
            },
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await run.communicate()
        assert run.returncode == 0, errors.decode()
        assert (await workers.get("/_control/budgets?agent=alice"))["agents"][0]["run"]["tokens"] == 70
        assert b"70 tokens" in errors
        assert json.loads((tmp_path / "alice.json").read_text())["requests"] == 10
        assert len({each["ticket"] % 1000 for each in (await workers.get("/_control/requests"))["changed"]}) == 2
        await workers.ends()


@needs_server
@pytest.mark.e2e
async def test_a_run_has_no_more_rights_at_any_worker(tmp_path: Path) -> None:
    """Whichever worker gets a request: its token lowers its budget, and neither it nor the control token raises it."""
    script = "import json, os, sys, urllib.request as web, urllib.error\n"
    script += "statuses = []\n"
    script += "for shown, tokens in ((os.environ['HIVEMIND_RUN_TOKEN'], 40), ('CONTROL', 90)) * 8:\n"
    script += " order = {'name': 'SetBudget', 'arguments': {'agent': 'alice', 'tokens': tokens}}\n"
    script += " head = {'authorization': 'Bearer ' + shown, 'content-type': 'application/json'}\n"
    script += " url = os.environ['HIVEMIND_URL'] + '/_control/commands'\n"
    script += " try: statuses.append(web.urlopen(web.Request(url, json.dumps(order).encode(), head)).status)\n"
    script += " except urllib.error.HTTPError as error: statuses.append(error.code)\n"
    script += "print(statuses)\n"
    async with two_workers(tmp_path) as workers:
        run = await asyncio.create_subprocess_exec(
            *(HIVEMIND, "run", "--name", "alice", "--budget", "50", "--"),
            *(sys.executable, "-c", script.replace("CONTROL", workers.token)),
            env={
                **ENVIRONMENT,
                "HIVEMIND_STATE_DIR": str(tmp_path / "state"),
                "HIVEMIND_URL": f"http://127.0.0.1:{workers.program.port}",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await run.communicate()
        assert json.loads(output) == [200, 403] * 8, errors.decode()
        lines = (await workers.get("/_stats"))["lines"]
        assert sum(line["tag"] == "denied" for line in lines) == 8
        await workers.ends()


# --- Parts ------------------------------------------------------------------------------------------------------------


def view(ticket: int, state: str = "in_flight", ended_at: float | None = None) -> RequestView:
    return RequestView(
        ticket=ticket,
        agent="alice",
        lane="lab:all",
        model="m",
        priority=Priority.NORMAL,
        stream=False,
        state=state,
        arrived_at=1.0,
        ended_at=ended_at,
        waited_s=0.0,
        attempts=(),
        status=None,
        usage=None,
        output_tokens=0,
        estimated_tokens=0,
        dollars=None,
        last_error="",
    )


def test_a_process_started_anew_counts_on() -> None:
    """Its tickets have numbers that no ticket of the process before had, and those that were open have ended."""
    log, worker = MergedRequests(), WorkerRequests(1)
    worker.begin("a")
    log.change(worker.take(Requests(3, 1, (view(1, "answered", 2.0), view(2)))))
    assert [each.ticket for each in log.since(0).changed] == [1001, 2001]
    assert (worker.its_own(2001), worker.open) == (2, {2001})
    log.end(worker.open, 9.0)
    worker.open.clear()
    worker.begin("b")
    log.change(worker.take(Requests(1, 1, (view(1),))))
    found = {each.ticket: (each.state, each.ended_at) for each in log.since(0).changed}
    assert found == {1001: ("answered", 2.0), 2001: ("failed", 9.0), 3001: ("in_flight", None)}
    assert (worker.its_own(3001), worker.its_own(2001)) == (1, None)


def test_pages() -> None:
    """A reader that goes on from each page's revision gets every request, and only what changed after that."""
    log = MergedRequests()
    log.change(view(number, "answered", 2.0) for number in range(1, 1201))
    seen, revision = [], 0
    while page := log.since(revision):
        seen += [each.ticket for each in page.changed]
        revision = page.revision
        if len(page.changed) < REQUESTS_PAGE:
            break
    assert seen == list(range(1, 1201))
    assert log.since(revision).changed == ()
    log.change([view(1300)])
    assert [each.ticket for each in log.since(revision).changed] == [1300]
    assert len(log.since(10**6).changed) == REQUESTS_PAGE, "a revision of another process begins anew"
    log.change(view(number, "answered", 2.0) for number in range(2000, 2000 + REQUESTS_KEPT))
    assert log.since(0).oldest == 1300, "one that is open stays"


async def test_channel(tmp_path: Path) -> None:
    """Questions are answered in their order; those that are open when the other end goes are told so."""

    async def answer(first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while first is not None and first != "go":
            writer.write(frames.packed(first * 2))
            first = await frames.receive(reader)

    path = tmp_path / "s"
    path.touch()  # as a killed process leaves it
    server = await frames.serve(path, answer)
    channel = await frames.Channel.to(path)
    running = asyncio.create_task(channel.run())
    assert await asyncio.gather(*(channel.ask(number) for number in range(50))) == [2 * n for n in range(50)]
    last = channel.ask("go")
    await running
    with pytest.raises(frames.Gone):
        await last
    with pytest.raises(frames.Gone):
        await channel.ask(1)
    server.close()


def scope_of(path: str) -> dict[str, Any]:
    place = {"path": path, "raw_path": path.encode(), "query_string": b""}
    return {"type": "http", "method": "GET", "headers": [], **place}


async def nothing() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


async def hopped(first: Path, path: str) -> tuple[bool, list[Any]]:
    """What :class:`Hop` says and sends to a request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    place = RequestPath(path, path.encode(), None, None, None)
    return await Hop(first).serve("control", scope_of(path), place, nothing, send), sent


async def test_hop_without_first_worker(tmp_path: Path) -> None:
    """The control API says that it is to be tried again; health is answered by the worker that was asked."""
    answered, (start, body) = await hopped(tmp_path / "none", "/_control/about")
    assert (answered, start["status"], dict(start["headers"])[b"retry-after"]) == (True, 503, b"1")
    assert b"is being started again" in body["body"]
    assert await hopped(tmp_path / "none", "/_health") == (False, [])


async def test_hop_to_a_worker_that_ends(tmp_path: Path) -> None:
    """Before the answer it counts as absent; within it the connection is cut, so nobody takes it for whole."""
    messages: list[Any] = []

    async def ends(first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert first["place"]["path"].startswith("/_")
        for message in messages:
            writer.write(frames.packed(message))

    path = tmp_path / "s"
    server = await frames.serve(path, ends)
    answered, (start, _) = await hopped(path, "/_control/about")
    assert (answered, start["status"]) == (True, 503)
    assert await hopped(path, "/_health") == (False, [])
    messages += [
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"half", "more_body": True},
    ]
    with pytest.raises(AnswerCut):
        await hopped(path, "/_control/about")
    messages.append({"type": "http.response.body", "body": b"", "more_body": False})
    answered, sent = await hopped(path, "/_control/about")
    assert (answered, sent[0]["headers"], len(sent)) == (True, [(b"a", b"b")], 3)
    server.close()


async def test_hop_passes_bodies_and_departures(tmp_path: Path) -> None:
    """The first worker's application gets the whole request, and hears when its client leaves."""
    got: list[Any] = []

    async def app(page: str, scope: Any, place: RequestPath, receive: Any, send: Any) -> None:
        got.extend([page, scope["method"], place.agent, scope["headers"]])
        while (message := await receive())["type"] == "http.request":
            got.append(message["body"])
        got.append(message["type"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    path = tmp_path / "s"
    server = await frames.serve(path, lambda first, reader, writer: serve_hop(app, first, reader, writer))
    came = iter([b"one", b"two", None])

    async def receive() -> Any:
        body = next(came)
        return {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        got.append(message.get("status"))

    scope = {**scope_of("/mcp"), "method": "POST", "headers": [(b"host", b"x")]}
    assert await Hop(path).serve("tools", scope, RequestPath("/mcp", b"/mcp", "alice", None, None), receive, send)
    assert got[:4] == ["tools", "POST", "alice", [(b"host", b"x")]]
    assert got[4:] == [b"one", b"two", "http.disconnect", 204, None]
    server.close()


async def test_broken_frames() -> None:
    """What isn't a message, or is cut, ends the connection like its end does."""
    for data in (b"", b"\0\0", b"\0\0\0\5ab", b"\0\0\0\1\xc1", b"\xff\xff\xff\xff"):
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        assert await frames.receive(reader) is None
