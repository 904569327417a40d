from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from tools.kit import LAB, NAMES, all_eight, asks, over_http, refusal, said, served, token_of

from hivemind.cli.main import main
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.scheduler.commands import SubmitTasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.settings import Settings
from hivemind.settings.sections import Secret
from hivemind.tools.http import BODY_LIMIT, MISSING

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPTS = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("mode", "revision", "dot"), [("legacy", "2025-11-25", "_"), ("auto", "2026-07-28", ".")], ids=["legacy", "auto"]
)
async def test_all_eight(tmp_path: Path, mode: str, revision: str, dot: str) -> None:
    """The SDK's client drives every tool, in both revisions of the protocol and under both spellings, since clients
    rewrite dots; its instructions teach to ask for headroom, and what it does is signed."""
    async with served(tmp_path) as proxy, over_http(proxy, mode, "alice") as client:
        assert client.protocol_version == revision
        assert "agents_now" in (client.instructions or "")
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [f"hm.{name}" for name in NAMES]
        await asks(proxy, "alice")
        await all_eight(client, dot)
        lines = [line.text for line in proxy.snapshot().lines if line.by]
    assert any("mcp:alice" in line for line in lines)


async def test_typed(tmp_path: Path) -> None:
    """Every argument has a type, and hints say which tools only look; what clients do without isn't listed."""
    async with served(tmp_path) as proxy, over_http(proxy) as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        schema = tool.input_schema
        assert all(each.get("type") for each in schema["properties"].values())
        assert "$ref" not in str(schema)
        assert tool.output_schema is None
        reads = tool.annotations is not None and bool(tool.annotations.read_only_hint)
        assert reads is (tool.name in ("hm.status", "hm.metrics", "hm.setup"))
        assert len(tool.description or "") > 60


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({}, 401, "state directory"),
        ({"authorization": "Bearer wrong"}, 401, "notes a new one"),
        ({"authorization": "Basic Zm9v"}, 401, "state directory"),
        ({"origin": "http://evil.example"}, 403, "browser"),
    ],
)
async def test_guarded(tmp_path: Path, headers: dict[str, str], status: int, words: str) -> None:
    """Without the control token, or from a page, nobody calls a tool; the text says where the token is."""
    async with served(tmp_path) as proxy, httpx.AsyncClient(timeout=60, trust_env=False) as web:
        if "origin" in headers:
            headers = {**headers, "authorization": f"Bearer {token_of(proxy)}"}
        answer = await web.post(f"{proxy.address}/mcp", json=CALL, headers={**ACCEPTS, **headers})
    assert answer.status_code == status
    assert words in answer.json()["error"]


async def test_agents_token_is_another(tmp_path: Path) -> None:
    """A proxy that wants a token of its agents takes the control token here, and not theirs."""
    async with served(tmp_path, token="agents-token") as proxy, over_http(proxy) as client:
        assert (await said(client, "hm.status"))["proxy"]["mode"] == "serving"
        async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
            theirs = {"x-hivemind-token": "agents-token", "authorization": "Bearer agents-token"}
            answer = await web.post(f"{proxy.address}/mcp", json=CALL, headers={**ACCEPTS, **theirs})
    assert answer.status_code == 401


async def test_other_requests(tmp_path: Path) -> None:
    """Both paths serve; there is no stream to get and no session to delete; a client that looks for a login is told
    that there is none, and isn't sent to the upstream's."""
    async with served(tmp_path) as proxy, httpx.AsyncClient(timeout=60, trust_env=False, base_url=proxy.address) as web:
        web.headers.update({"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS})
        statuses = [(await web.post(path, json=CALL)).status_code for path in ("/mcp", "/mcp/", "/agent/a/mcp")]
        assert statuses == [200] * 3
        for method in ("GET", "DELETE"):
            answer = await web.request(method, "/mcp")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        login = await web.get("/.well-known/oauth-protected-resource/mcp")
        assert (login.status_code, "no login" in login.json()["error"]) == (404, True)
        odd = await web.post("/mcp", json=CALL, headers={"x-hivemind-agent": "sk-ant-api03-sekrit-sekrit"})
        assert (odd.status_code, "sekrit" in odd.text) == (400, False)
        assert (await web.post("/to/lab/mcp", json=CALL)).json()["id"] == "msg_1"


async def test_rubbish(tmp_path: Path) -> None:
    """What is no message, or too long, is refused, and the proxy goes on."""
    async with served(tmp_path) as proxy, httpx.AsyncClient(timeout=60, trust_env=False) as web:
        web.headers.update({"authorization": f"Bearer {token_of(proxy)}", "content-type": "application/json"})
        place = f"{proxy.address}/mcp"
        for body, status in ((b"{", 400), (b"[]", 400), (b"\xff\xfe", 400), (b" " * (BODY_LIMIT + 1), 413)):
            assert (await web.post(place, content=body, headers=ACCEPTS)).status_code == status
        assert (await web.post(place, content=b"{}", headers={"accept": "text/plain"})).status_code == 406
        assert (await web.get(f"{proxy.address}/_health")).json()["status"] == "serving"


async def test_switched_off(tmp_path: Path) -> None:
    """Where it is switched off there is no such page, with the token or without; the upstream doesn't see it."""
    async with served(tmp_path, mcp={"enabled": False}) as proxy, httpx.AsyncClient(timeout=60, trust_env=False) as web:
        for headers in ({}, {"authorization": f"Bearer {token_of(proxy)}"}):
            answer = await web.post(f"{proxy.address}/mcp", json=CALL, headers=headers)
            assert (answer.status_code, "mcp.enabled" in answer.json()["error"]) == (404, True)


async def test_read_only(tmp_path: Path) -> None:
    """Tools may look and work with tasks; they change no knob, priority or budget, and say why."""
    async with served(tmp_path, mcp={"read_only": True}) as proxy, over_http(proxy) as client:
        await asks(proxy, "alice")
        assert "mcp.read_only" in await refusal(client, "hm.config", knob="aimd.beta", value=0.6)
        assert "mcp.read_only" in await refusal(client, "hm.config", pause=True)
        assert "mcp.read_only" in await refusal(client, "hm.priority", agent="alice", priority="low")
        assert "mcp.read_only" in await refusal(client, "hm.budget", agent="alice", tokens=5)
        assert "mcp.read_only" in await refusal(client, "hm.budget", pool=True, remove=True)
        assert (await said(client, "hm.config"))["read_only"] is True
        assert (await said(client, "hm.budget"))["budgets"] == []
        assert (await said(client, "hm.submit", name="a"))["task"]["state"] == "ready"
        assert (await said(client, "hm.batch", batch="b", tasks=[{"name": "c"}]))["tasks"] == 1
        (view,) = (view for view in proxy.snapshot().agents if view.name == "alice")
        assert (view.priority.name, view.budget, proxy.snapshot().mode) == ("NORMAL", None, "serving")


async def test_read_only_has_no_way_round(tmp_path: Path) -> None:
    """A task makes no runner start anything, and no agent more urgent; what is there already may be worked on."""
    async with served(tmp_path, mcp={"read_only": True}) as proxy, over_http(proxy) as client:
        assert "command: a runner" in await refusal(client, "hm.submit", name="a", command=["id"])
        assert "priority critical" in await refusal(client, "hm.submit", name="a", agent="me", priority="critical")
        tasks = [{"name": "c"}, {"name": "d", "command": ["id"]}]
        assert "mcp.read_only" in await refusal(client, "hm.batch", batch="b", tasks=tasks)
        assert proxy.processes.tasks(None) == ()
        proxy.apply(SubmitTasks((TaskSpec("mine", Priority.HIGH, agent="me"),)))
        assert (await said(client, "hm.submit", name="mine", outcome="done"))["task"]["state"] == "done"
        assert (await said(client, "hm.submit", name="a", priority="low"))["task"]["state"] == "ready"


async def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain install has no such page, and says what to install; all else is served."""
    monkeypatch.setattr("hivemind.tools.http.find_spec", lambda name: None)
    async with served(tmp_path) as proxy, httpx.AsyncClient(trust_env=False, timeout=60) as web:
        web.headers.update({"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS})
        answer = await web.post(f"{proxy.address}/mcp", json=CALL)
        assert (answer.status_code, answer.json()["error"]) == (404, MISSING)
        assert (await web.get(f"{proxy.address}/_control/about")).status_code == 200


def test_the_command_without_the_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what to install."""
    monkeypatch.setattr("hivemind.cli.mcp.find_spec", lambda name: None)
    assert main(["mcp"]) == 2
    assert capsys.readouterr().err == "hivemind: mcp needs its library: pip install 'hivemind-tui[mcp]'\n"


async def test_many_at_once(tmp_path: Path) -> None:
    """The first calls come together, while nothing is loaded yet: each is answered, and nothing is left running."""
    before = asyncio.all_tasks()
    async with served(tmp_path) as proxy:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
            web.headers.update({"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS})
            answers = await asyncio.gather(*(web.post(f"{proxy.address}/mcp", json=CALL) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        # Without sessions nothing is kept of a client between its requests.
        assert not [task for task in asyncio.all_tasks() if "run_stateless_server" in repr(task)]
    assert asyncio.all_tasks() <= before


async def test_cancelled_calls(tmp_path: Path) -> None:
    """A client that leaves in the middle of calls, or tells of a call that nobody knows, breaks nothing."""
    async with served(tmp_path) as proxy:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
            web.headers.update({"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS})
            leaving = [asyncio.create_task(web.post(f"{proxy.address}/mcp", json=CALL)) for _ in range(5)]
            await asyncio.wait([leaving[0]], return_when=asyncio.FIRST_COMPLETED)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
            assert (await web.post(f"{proxy.address}/mcp", json=notice)).status_code == 202
        async with over_http(proxy) as client:
            assert (await said(client, "hm.status"))["proxy"]["mode"] == "serving"


async def test_draining_ends_it(tmp_path: Path) -> None:
    """A proxy that has drained takes no calls any more, and stops without waiting for whoever is connected."""
    async with served(tmp_path) as proxy, over_http(proxy) as client:
        await said(client, "hm.status")
        await proxy.drain(1.0)
        async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
            headers = {"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS}
            answer = await web.post(f"{proxy.address}/mcp", json=CALL, headers=headers)
        assert (answer.status_code, "shutting down" in answer.json()["error"]) == (503, True)


async def test_a_client_outlives_the_proxy(tmp_path: Path) -> None:
    """With a token that stays the same, a connected client goes on with the proxy that was started anew."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = Settings(upstream=(LAB,), port=port, state_dir=tmp_path, control_token=Secret("the-same-again"))
    proxy = Proxy(settings)
    async with contextlib.AsyncExitStack() as run:
        await run.enter_async_context(server.serve(proxy, settings))
        async with over_http(proxy, "legacy") as client:
            await said(client, "hm.submit", name="before")
            await run.aclose()
            async with server.serve(Proxy(settings), settings):
                assert (await said(client, "hm.status"))["proxy"]["mode"] == "serving"


async def httpx_status(proxy: Proxy) -> int:
    """Of a call."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
        headers = {"authorization": f"Bearer {token_of(proxy)}", **ACCEPTS}
        return (await web.post(f"{proxy.address}/mcp", json=CALL, headers=headers)).status_code


async def test_what_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SDK that can't be imported costs its callers an answer, nobody else anything, and is tried again."""
    real = importlib.import_module

    def broken(name: str, package: str | None = None) -> ModuleType:
        if name == "hivemind.tools.server":
            raise ImportError("no such library")
        return real(name, package)

    async with served(tmp_path) as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(importlib, "import_module", broken)
            assert await httpx_status(proxy) == 500
        await asks(proxy, "alice")
        assert await httpx_status(proxy) == 200


async def test_half_a_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever leaves in the middle of sending a call is nobody's fault."""
    async with served(tmp_path) as proxy:
        assert await httpx_status(proxy) == 200
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
            writer.write(
                f"POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token_of(proxy)}\r\n"
                f"content-length: 99\r\ncontent-type: application/json\r\n"
                f"accept: {ACCEPTS['accept']}\r\n\r\n{{".encode()
            )
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert await httpx_status(proxy) == 200
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
