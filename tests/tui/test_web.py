"""The control room in a browser: who gets in, and rooms that are processes of their own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from control.kit import TOKEN, busy_proxy, controlled
from program import called

if importlib.util.find_spec("aiohttp") is None or importlib.util.find_spec("textual_serve") is None:
    pytest.skip("the extra `web` isn't installed", allow_module_level=True)

import aiohttp
from aiohttp import ClientSession, ClientWebSocketResponse, web

from hivemind.host.listening import bind
from hivemind.proxy.access import AccessPolicy
from hivemind_tui.web.server import Room, WebServer, command_of, serve

Served = tuple[WebServer, str]


@asynccontextmanager
async def served(command: str) -> AsyncIterator[Served]:
    """A server of rooms on a socket, and its address."""
    (sock,) = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = WebServer(command, "HiveMind", AccessPolicy(("rooms.example",), ()))
    runner = web.AppRunner(await server.application(port), access_log=None, shutdown_timeout=60)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        yield server, f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_the_token_is_exchanged_for_a_cookie() -> None:
    """Nothing is served without either; the token doesn't stay in the address."""
    async with served("exit 1") as (server, url), ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        for path in ("/", "/?token=", "/?token=wrong", "/static/js/textual.js", "/page.js", "/ws", "/download/x"):
            async with http.get(url + path) as answer:
                assert answer.status == 401, path
                assert "hivemind web has printed" in await answer.text()
        async with http.get(f"{url}/?token={server.token}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert server.token not in answer.headers["Set-Cookie"]
            assert "HttpOnly" in answer.headers["Set-Cookie"]
        async with http.get(url) as answer:
            page = await answer.text()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert re.findall(r"[a-z]+://[^\"/]+", page) == [url.replace("http", "ws")]
        for path in ("/static/js/textual.js", "/static/css/xterm.css", "/page.js"):
            async with http.get(url + path) as answer:
                assert answer.status == 200, path


async def test_pages_of_other_sites_stay_out() -> None:
    """By the proxy's rules, whatever cookie the browser sends along."""
    async with served("exit 1") as (server, url), ClientSession() as http:
        async with http.get(f"{url}/?token={server.token}", allow_redirects=False) as answer:
            cookie = answer.cookies[server.cookie]
        cases = [({"Origin": each}, 403) for each in ("https://attacker.example", "http://127.0.0.1:1")]
        cases += [({"Host": "attacker.example"}, 421), ({"Sec-Fetch-Site": "cross-site"}, 403)]
        for headers, status in (*cases, ({"Host": "rooms.example"}, 200)):
            given = {**headers, "Cookie": f"{cookie.key}={cookie.value}"}
            async with http.get(url, headers=given) as answer:
                assert answer.status == status
            if status != 200:
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    await http.ws_connect(f"{url}/ws", headers=given)
                assert caught.value.status == status


@pytest.mark.parametrize("command", ["trap '' TERM; while :; do sleep 0.05; done", "exit 1"])
async def test_rooms_have_a_size_and_a_number_and_end(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Also where their process doesn't want to, and when the server ends; what can't be a room is refused in words."""
    monkeypatch.setattr("hivemind_tui.web.server._END_WITHIN_S", 0.1)
    async with asyncio.timeout(60), ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        async with served(command) as (server, url):
            await (await http.get(f"{url}/?token={server.token}")).read()
            for size in ("width=0", "height=x", "width=1001"):
                assert (await http.get(f"{url}/ws?{size}")).status == 400
            monkeypatch.setattr("hivemind_tui.web.server.ROOMS", 1)
            async with http.ws_connect(f"{url}/ws", origin=url) as tab:
                (room,) = server._rooms
                assert (await http.get(f"{url}/ws")).status == 503
                if "exit" in command:
                    await tab.close()
                    await asyncio.wait([room])
        await asyncio.wait([room])


async def test_a_process_ends_though_its_end_is_not_awaited() -> None:
    """As where the server ends while a room of it does."""
    calls = dict.fromkeys(("write_bytes", "write_str", "close", "download_manager"), AsyncMock())
    room = Room("exec sleep 60", **calls)
    process = await room._open_app_process()
    ending = asyncio.ensure_future(room.stop())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert process.returncode == -signal.SIGKILL


async def test_it_serves_until_a_signal_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints its address, and where others may read along a warning."""
    serving = asyncio.ensure_future(serve("http://127.0.0.1:1", None, "0.0.0.0", 0, ["rooms.example"]))
    said = ""
    async with asyncio.timeout(60):
        while "/?token=" not in said:
            await asyncio.sleep(0)
            said += capsys.readouterr().out
        url = said.split()[-1].replace("0.0.0.0", "127.0.0.1")
        async with ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http, http.get(url) as answer:
            assert answer.status == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


def _fails(args: Sequence[str], folder: Path, **environ: str) -> tuple[int, str]:
    return called(folder, ["web", *args], {"HIVEMIND_STATE_DIR": str(folder), **environ}).both


def test_what_is_wrong_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that doesn't run, bad flags, the library that is missing."""
    code, line = _fails([], tmp_path)
    assert (code, "no proxy of yours runs at" in line) == (1, True)
    for bad in ("--port=70000", "--allowed-host=a/b"):
        code, line = _fails([bad], tmp_path, HIVEMIND_CONTROL_TOKEN=TOKEN)
        assert (code, bad.partition("=")[0] in line, line.count("\n")) == (2, True, 0)
    monkeypatch.delitem(sys.modules, "hivemind_tui.web.server")
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    code, line = _fails([], tmp_path, HIVEMIND_CONTROL_TOKEN=TOKEN)
    assert (code, "pip install 'hivemind-tui[web]'" in line) == (2, True)


@pytest.mark.e2e
async def test_a_tab_is_a_control_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the proxy, takes keys, takes the window's size, and ends with the tab."""
    monkeypatch.setenv("HIVEMIND_CONTROL_TOKEN", TOKEN)
    async with (
        asyncio.timeout(60),
        controlled(busy_proxy()) as proxy,
        served(command_of(proxy, None)) as (server, url),
        ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        await (await http.get(f"{url}/?token={server.token}")).read()
        async with http.ws_connect(f"{url}/ws?width=160&height=45", origin=url) as tab:
            await _until(tab, "Rate windows")
            await tab.send_json(["resize", {"width": 100, "height": 30}])
            await tab.send_json(["stdin", "5"])
            await _until(tab, "Log")
            rooms = server._rooms.copy()
            await tab.send_json(["stdin", "q"])
            while (await tab.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
        await asyncio.wait(rooms)
        async with http.ws_connect(f"{url}/ws?width=80&height=24", origin=url) as tab:
            await _until(tab, "HiveMind")
            (room,) = server._rooms
        await asyncio.wait([room])  # which has awaited the end of its process


async def _until(tab: ClientWebSocketResponse, text: str) -> None:
    """Receive until the screen has this text."""
    while text.encode() not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", await tab.receive_bytes()):
        pass


@pytest.mark.e2e
def test_a_room_ends_with_its_server(tmp_path: Path) -> None:
    """Its pipes are closed then, whatever ended the server."""
    command = command_of("http://127.0.0.1:1", None)
    environ = {"HIVEMIND_CONTROL_TOKEN": TOKEN, "HIVEMIND_STATE_DIR": str(tmp_path), "PATH": ""}
    with subprocess.Popen(
        ["/bin/sh", "-c", command], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as room:
        assert room.stdin is not None
        assert room.stdout is not None
        assert room.stdout.readline() == b"__GANGLION__\n"
        room.stdin.close()
        room.stdout.close()
        assert room.wait(30) == 0
