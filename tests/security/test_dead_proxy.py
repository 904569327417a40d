"""What listens on the port of a proxy that was killed, and left its note: no command sends it a token or a key."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from agents.running import Place, at, providing
from control.kit import proven
from detached import detached_in
from ports import unused_port
from waiting import until

from hivemind.control.client import open_http
from hivemind.control.discovery import parse_address
from hivemind.records import replace
from hivemind.store.token_file import read_note, write_note
from hivemind.tools.access import RemoteAccess, Unavailable
from hivemind_tui.sources.remote import attached

KEY, AGENTS = "sk-ant-canary-of-the-dead-proxy", "agents-token-of-the-dead-proxy"
LOOKING = ("status", "status --line", "status --json", "agents", "tasks", "budget", "set", "fleet")
STEERING = (
    *("pause", "resume", "resume ann", "hold ann", "release ann", "stop ann", "note text", "ack", "set rpm 5"),
    *("budget ann 5k", "circuit open", "tasks done lint", "tasks submit lint -- true"),
)
RUNNING = ("run -- touch started", "run --count 2 -- touch started", "batch plan.yaml", "work", "up -d")
Reply = Callable[[str], tuple[str, str]]
"""Status and body that are answered to a path."""


def old(_: str) -> tuple[str, str]:
    """As a proxy of before there was a proof."""
    return "404 Not Found", '{"error":"there is no such page"}'


def guessing(target: str) -> tuple[str, str]:
    """As one that proves that it knows another token."""
    return "200 OK", proven(target, "another").decode() if "nonce" in target else "{}"


class Listener:
    """Takes the dead proxy's port, and remembers all that it hears."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.heard = bytearray()

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        while True:
            try:
                server = await asyncio.start_server(self._answer, "127.0.0.1", port)
                break
            except OSError:  # a killed process's port is free a moment after it has ended
                await asyncio.sleep(0.01)
        try:
            yield
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                self.heard += data
                asked += data
                if b"\r\n\r\n" in asked:
                    status, body = self._reply(asked.split()[1].decode())
                    writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
                    asked = b""
        writer.close()


@contextlib.asynccontextmanager
async def killed(folder: Path) -> AsyncIterator[tuple[Place, int, str]]:
    """Where a proxy ran until it was killed: its port, and the token that its note still has."""
    port = unused_port()
    (folder / "plan.yaml").write_text("tasks:\n  lint: touch started\n")
    given = {"HIVEMIND_PORT": str(port), "HIVEMIND_TOKEN": AGENTS, "ANTHROPIC_API_KEY": KEY}
    async with providing() as (_, upstream), at(folder, HIVEMIND_UPSTREAM=upstream, **given) as place:
        assert (await place.called("up", "-d")).code == 0
        assert (await place.called("status")).code == 0
        (pid,) = detached_in(folder)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not detached_in(folder))
        yield place, port, read_note(folder / "state" / f"control-{port}.json").token


@pytest.mark.parametrize(
    ("reply", "said"),
    [pytest.param(old, "which must be restarted", marks=pytest.mark.e2e), (guessing, "doesn't know the token")],
)
async def test_no_command_sends_it_anything(tmp_path: Path, reply: Reply, said: str) -> None:
    """Each ends with one line that says what to do, and starts no agent."""
    listener = Listener(reply)
    async with killed(tmp_path) as (place, port, token):
        environ, url = place.environ | {"HIVEMIND_STATE_DIR": str(tmp_path / "state")}, f"http://127.0.0.1:{port}"
        async with listener.listening(port):
            for line in [*LOOKING, *STEERING, *RUNNING]:
                before = len(listener.heard)
                ended = await place.called(*line.split())
                assert (ended.code in (1, 2), ended.out) == (True, ""), (line, ended)
                assert ended.err.count("\n") == 1, (line, ended.err)
                if line != "resume ann":  # which looks for a checkpoint then
                    assert said in ended.err, (line, ended.err)
                assert len(listener.heard) > before, line
            note = tmp_path / "state" / f"control-{port}.json"
            write_note(note, replace(read_note(note), pid=1 << 40))  # no process can have that number
            down = await place.called("down")
            assert (down.code, "something else listens" in down.err) == (0, True)
            async with attached(url, environ) as source:
                assert said in source.link.why
            async with open_http(parse_address(url)) as http:
                with pytest.raises(Unavailable, match=said):
                    await RemoteAccess(parse_address(url), environ, None, http).tasks()
    assert b"nonce=" in listener.heard
    for secret in (token, KEY, AGENTS):
        assert secret.encode() not in listener.heard
    assert not (tmp_path / "started").exists()


async def test_a_runs_token(tmp_path: Path) -> None:
    """Nor is the secret part of a run's token sent, or one that the user named."""
    listener, port = Listener(guessing), unused_port()
    url, file = f"http://127.0.0.1:{port}", tmp_path / "token"
    file.write_text("token-in-a-file")
    async with at(tmp_path, HIVEMIND_URL=url, HIVEMIND_AGENT="ann") as place, listener.listening(port):
        for environ, more in (
            ({"HIVEMIND_RUN_TOKEN": "hmrun-YW5u.12ab.secret-part"}, []),
            ({"HIVEMIND_CONTROL_TOKEN": "token-in-a-variable"}, []),
            ({}, ["--token-file", str(file)]),
        ):
            place.environ = {"HIVEMIND_URL": url, **environ}
            for words in (["status"], ["tasks"], ["run", "--name", "bob"]):
                command = ["--", "touch", "started"] if words[0] == "run" else []
                ended = await place.called(*words, *more, *command)
                assert (ended.code, ended.err.count("\n")) == (1, 1), ended
                assert "doesn't know the token" in ended.err
    assert b"run=YW5u.12ab" in listener.heard
    assert not any(each in listener.heard for each in (b"secret-part", b"token-in-a"))
    assert not (tmp_path / "started").exists()
