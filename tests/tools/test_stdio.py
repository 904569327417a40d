from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from control.processes import Program, program
from program import called
from tools.kit import BIN, HANGS_S, NAMES, PLAIN, all_eight, asks, over_stdio, refusal, said, served


@pytest.mark.e2e
@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_all_eight(tmp_path: Path, mode: str, revision: str) -> None:
    """A client that starts `hivemind mcp` itself drives every tool through it, in both revisions of the protocol, and
    the agent that the environment names signs what it does."""
    async with (
        served(tmp_path) as proxy,
        over_stdio(tmp_path, proxy.address, mode=mode, HIVEMIND_AGENT="alice") as client,
    ):
        assert client.protocol_version == revision
        assert "hm.status" in (client.instructions or "")
        assert [tool.name for tool in (await client.list_tools()).tools] == [f"hm.{name}" for name in NAMES]
        await asks(proxy, "alice")
        answers = await all_eight(client)
        assert (await said(client, "hm_budget"))["budgets"] == answers["budget"]["budgets"]
        lines = [line.text for line in proxy.snapshot().lines if line.by]
    assert len(lines) > 3
    assert all("mcp:alice" in line for line in lines)


@pytest.mark.e2e
async def test_the_real_programs(tmp_path: Path) -> None:
    """Both ends as their users start them: tools that only look, and tools that order, reach the proxy's process."""
    async with program(tmp_path) as proxy, over_stdio(tmp_path, "", HIVEMIND_URL=proxy.url) as client:
        assert (await said(client, "hm.status"))["proxy"]["address"] == proxy.url
        tasks = [{"name": "a"}, {"name": "b", "after": ["a"]}]
        assert (await said(client, "hm.batch", batch="x", tasks=tasks))["tasks_by_state"] == {"ready": 1, "waiting": 1}
        assert (await said(client, "hm.config", pause=True))["mode"] == "paused"
        assert (await said(client, "hm.status"))["headroom"]["agents_now"] == 0


@pytest.mark.slow
async def test_read_only(tmp_path: Path) -> None:
    """What the proxy forbids its tools holds here too."""
    async with served(tmp_path, mcp={"read_only": True}) as proxy, over_stdio(tmp_path, proxy.address) as client:
        assert "mcp.read_only" in await refusal(client, "hm.budget", agent="a", tokens=5)
        assert (await said(client, "hm.submit", name="a"))["task"]["state"] == "ready"


@pytest.mark.e2e
async def test_the_proxy_comes_and_goes(tmp_path: Path) -> None:
    """Without a proxy the server is there all the same and says how to start one; it finds it then, and again after a
    kill and a start under another token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with over_stdio(tmp_path, "", HIVEMIND_PORT=str(port)) as client:
        assert len((await client.list_tools()).tools) == 8
        told = await refusal(client, "hm.status")
        assert f"127.0.0.1:{port}" in told
        assert "hivemind proxy --upstream" in told
        async with program(tmp_path, port=port) as first:
            assert (await said(client, "hm.status"))["proxy"]["mode"] == "serving"
            await killed(first)
            # Its note is still there, so the token is known, and nothing listens.
            assert "nothing listens there" in await refusal(client, "hm.submit", name="a")
        async with program(tmp_path, port=port) as second:
            assert (await said(client, "hm.submit", name="a"))["task"]["state"] == "ready"
            await second.ends()
        assert "hivemind proxy --upstream" in await refusal(client, "hm.metrics")


async def test_tools_are_there_before_the_sdk(tmp_path: Path) -> None:
    """A client has them at once: its handshake and its list don't wait for the SDK, which here is
    never loaded."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("import time; time.sleep(1e6)")
    start: dict[str, object] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    messages: tuple[tuple[str, dict[str, object]], ...] = (("initialize", start), ("ping", {}), ("tools/list", {}))
    lines = [{"jsonrpc": "2.0", "id": n, "method": name, "params": params} for n, (name, params) in enumerate(messages)]
    lines.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    async with served(tmp_path) as proxy:
        process = await asyncio.create_subprocess_exec(
            BIN / "hivemind",
            *("mcp", "--attach", proxy.address),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**PLAIN, "HIVEMIND_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": str(tmp_path)},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        async with asyncio.timeout(HANGS_S):
            shaken, _, listed = [json.loads(await process.stdout.readline())["result"] for _ in range(3)]
        process.kill()
        await process.wait()
    assert (shaken["protocolVersion"], shaken["serverInfo"]["name"]) == ("2025-06-18", "hivemind")
    assert [tool["name"] for tool in listed["tools"]] == [f"hm.{name}" for name in NAMES]


async def killed(proxy: Program) -> None:
    """Without a chance to put anything away."""
    proxy.process.send_signal(signal.SIGKILL)
    await proxy.process.wait()


async def spoken(folder: Path, text: bytes = b"") -> tuple[int | None, str, str]:
    """Exit code, output and errors of a `hivemind mcp` whose input is this."""
    process = await asyncio.create_subprocess_exec(
        BIN / "hivemind",
        "mcp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**PLAIN, "HIVEMIND_STATE_DIR": str(folder / "state")},
    )
    async with asyncio.timeout(HANGS_S):
        out, err = await process.communicate(text)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("flags", "environ", "line"),
    [
        (("--attach", "localhost"), {}, "the URL of a proxy must begin with http://"),
        (("--agent", "x" * 81), {}, "--agent: an agent's name must be printable and at most 80"),
        ((), {"HIVEMIND_AGENT": "sk-ant-sekrit-sekrit"}, "HIVEMIND_AGENT: an agent's name would be shown"),
        ((), {"HIVEMIND_PORT": "0"}, "say where the proxy is with --attach"),
        ((), {"HIVEMIND_PORT": "x"}, "the port is set to x"),
    ],
)
def test_wrong_usage(tmp_path: Path, flags: tuple[str, ...], environ: dict[str, str], line: str) -> None:
    """What can't be used is one line on standard error, and nothing on standard output, which is the protocol's."""
    environ = {**PLAIN, "HIVEMIND_STATE_DIR": str(tmp_path / "state"), **environ}
    ended = called(tmp_path, ("mcp", *flags), environ)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert line in ended.err
    assert "sekrit" not in ended.err


@pytest.mark.e2e
async def test_ends_with_its_client(tmp_path: Path) -> None:
    """When its input ends it ends, with 0; lines that are no messages don't stop it."""
    call = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    assert await spoken(tmp_path) == (0, "", "")
    code, out, _ = await spoken(tmp_path, text=b"rubbish\n\xff\n" + b'{"jsonrpc":"2.0","method":"x"}\n' + call)
    assert code == 0
    assert '"id":1' in out


@pytest.mark.slow
async def test_token_file(tmp_path: Path) -> None:
    """The token may stand in a file of its own, which needn't be there yet; a wrong one is told, never repeated."""
    file = tmp_path / "token"
    async with served(tmp_path) as proxy:
        flags = ("--token-file", os.fspath(file))
        async with over_stdio(tmp_path, proxy.address, *flags) as client:
            assert str(file) in await refusal(client, "hm.status")
            file.write_text("sekrit-of-another")
            told = await refusal(client, "hm.status")
            assert "doesn't know the token" in told
            assert "sekrit" not in told
            assert proxy.control_key is not None
            file.write_text(proxy.control_key.token)
            assert (await said(client, "hm.status"))["proxy"]["mode"] == "serving"
