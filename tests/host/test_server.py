from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import httpx
import pytest
from world.kit import told

from hivemind.errors import BindError, UsageError
from hivemind.host import server
from hivemind.host.listening import bind
from hivemind.host.loop import run_loop
from hivemind.host.proxy import Kept, Proxy
from hivemind.settings import Settings
from hivemind.settings.checks import checked
from hivemind.world.snapshot import Snapshot

Message = dict[str, Any]


class FakeProxy:
    """A proxy's lifecycle and ASGI application, which notes what was called."""

    def __init__(self, *_: object) -> None:
        self.calls: list[str] = []
        self.address = ""
        self.app = self
        self.watch = self

    def watch_loop(self) -> None:
        """The event loop of a test isn't watched."""

    async def start(self, kept: Kept) -> None:
        self.kept = kept
        self.calls.append("start")

    async def drain(self, timeout_s: float) -> None:
        self.calls.append(f"drain {timeout_s:g}")

    async def aclose(self) -> None:
        self.calls.append("aclose")

    def snapshot(self) -> Snapshot:
        """No requests came."""
        return told().snapshot(0.0)

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if scope["path"] != "/abort":
            await send({"type": "http.response.body", "body": b""})


def as_proxy(fake: FakeProxy) -> Proxy:
    return cast(Proxy, fake)


def settings(**values: Any) -> Settings:
    return checked({"upstream": ("lab=http://127.0.0.1:9",), "port": 0, **values})


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_port_in_use() -> None:
    """The line names the port and says how to get another, and nothing stays bound."""
    taken = bind("127.0.0.1", 0)
    port = taken[0].getsockname()[1]
    with pytest.raises(
        BindError, match=rf"port {port} on 127.0.0.1 is in use.*--port 0.*--attach http://127.0.0.1:{port}"
    ):
        bind("127.0.0.1", port)
    close(taken)
    close(bind("127.0.0.1", port))


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "192.0.2.1 is no address of this machine"),
        ("host.invalid", "no address to listen on is known for host.invalid"),
    ],
)
def test_foreign_address(host: str, why: str) -> None:
    """An address of another machine is told as such, and so is a name without an address."""
    with pytest.raises(BindError, match=re.escape(why)):
        bind(host, 0)


def test_every_address_of_a_name_on_one_port() -> None:
    """localhost listens wherever it leads, on one port, so that a client may take any of its addresses."""
    sockets = bind("localhost", 0)
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    assert len({sock.getsockname()[0] for sock in sockets}) == len(sockets) >= 1
    close(sockets)


async def test_serve() -> None:
    """Inside the context the proxy answers at its address, with no header of the server's; after it nobody does."""
    fake = FakeProxy()
    async with server.serve(as_proxy(fake), settings()), httpx.AsyncClient(timeout=60, trust_env=False) as client:
        assert fake.address.startswith("http://127.0.0.1:")
        response = await client.get(fake.address)
        assert (response.text, set(response.headers)) == ("half", {"x", "transfer-encoding"})
        assert fake.calls == ["start"]
    assert fake.calls == ["start", "aclose"]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(fake.address.rpartition(":")[2]))


@pytest.mark.parametrize("durable", [True, False])
async def test_what_outlives_it(tmp_path: Path, durable: bool) -> None:
    """The proxy has its database when it starts, unless nothing is to outlive it; then no file is left at all."""
    fake = FakeProxy()
    async with server.serve(as_proxy(fake), settings(state_dir=tmp_path), durable=durable):
        assert (fake.kept.store is not None) is durable
    assert sorted(os.listdir(tmp_path)) == (["proxy-0.db", "proxy-0.lock"] if durable else [])


async def test_a_database_that_cannot_be_used(tmp_path: Path) -> None:
    """The proxy isn't started, and nothing stays bound."""
    (tmp_path / "proxy-0.db").write_text("no database")
    fake = FakeProxy()
    with pytest.raises(UsageError, match=r"proxy-0\.db can't be used"):
        async with server.serve(as_proxy(fake), settings(state_dir=tmp_path)):
            pytest.fail("served without a database")
    assert fake.calls == []
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(fake.address.rpartition(":")[2]))


async def test_serve_ipv6() -> None:
    """An IPv6 address stands in brackets in the URL."""
    if not socket.has_ipv6 or not _has_ipv6_loopback():
        pytest.skip("this machine has no IPv6 loopback")
    fake = FakeProxy()
    async with server.serve(as_proxy(fake), settings(host="::1")):
        assert fake.address.startswith("http://[::1]:")
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            assert (await client.get(fake.address)).status_code == 200


def _has_ipv6_loopback() -> bool:
    try:
        close(bind("::1", 0))
    except BindError:
        return False
    return True


async def test_deliberate_abort(caplog: pytest.LogCaptureFixture) -> None:
    """An app that returns in the middle of an answer cuts the connection, and nobody logs a word about it."""
    caplog.set_level(logging.DEBUG)
    fake = FakeProxy()
    async with server.serve(as_proxy(fake), settings()), httpx.AsyncClient(timeout=60, trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{fake.address}/abort")
    assert [entry for entry in caplog.records if entry.name.startswith("uvicorn")] == []


async def test_error_inside_the_context() -> None:
    """An exception of the host comes out as it was raised, and the server is stopped all the same."""
    fake = FakeProxy()
    with pytest.raises(KeyError, match="mine"):
        async with server.serve(as_proxy(fake), settings()):
            raise KeyError("mine")
    assert fake.calls == ["start", "aclose"]


async def test_proxy_that_does_not_start() -> None:
    """If the proxy can't start, its error comes out and the port is free again."""

    class Broken(FakeProxy):
        async def start(self, kept: Kept) -> None:
            raise RuntimeError("no")

    (probe,) = bind("127.0.0.1", 0)
    port = probe.getsockname()[1]
    probe.close()
    with pytest.raises(RuntimeError, match="no"):
        async with server.serve(as_proxy(Broken()), settings(port=port)):
            pytest.fail("served without a proxy")
    close(bind("127.0.0.1", port))


@pytest.fixture
def fake_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProxy]:
    """What :func:`server.run` makes in place of a proxy; signal handlers are put back afterwards."""
    fake, module = FakeProxy(), ModuleType("hivemind.host.proxy")
    module.Proxy = lambda _, **__: fake  # type: ignore[attr-defined]
    module.Kept = Kept  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hivemind.host.proxy", module)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield fake
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_run_drains_on_a_signal(
    fake_proxy: FakeProxy, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """One line says that it is ready and where; a signal drains, closes and gives 0."""

    async def start(kept: Kept) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)

    fake_proxy.start = start  # type: ignore[method-assign]
    upstreams = ("lab=http://127.0.0.1:9", "https://api.openai.com")
    assert await server.run(settings(upstream=upstreams, drain_s=7.0)) == 0
    assert fake_proxy.calls == ["drain 7", "aclose"]
    line = capsys.readouterr().out
    assert line.startswith("hivemind: ready on http://127.0.0.1:")
    assert line.endswith(" -> lab http://127.0.0.1:9, openai https://api.openai.com\n")


NEVER_DRAINED = """
import asyncio, sys, types
from hivemind.host import server
from hivemind.host.loop import run_loop
from hivemind.settings import Settings
class Proxy:
    watch = types.SimpleNamespace(watch_loop=lambda: None)
    def __init__(self, settings, **_): pass
    async def start(self, kept): pass
    async def drain(self, timeout_s): print("draining", flush=True); await asyncio.Event().wait()
    async def aclose(self): pass
    async def app(self, scope, receive, send): pass
sys.modules["hivemind.host.proxy"] = types.SimpleNamespace(Proxy=Proxy, Kept=lambda *_: None)
sys.exit(run_loop(server.run(Settings(upstream=("http://127.0.0.1:9",), port=0))))
"""


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_at_once(number: signal.Signals) -> None:
    """While it drains, another signal ends the process without waiting for anything."""
    with subprocess.Popen([sys.executable, "-c", NEVER_DRAINED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("hivemind: ready on")
        process.send_signal(number)
        assert process.stdout.readline() == "draining\n"
        process.send_signal(number)
        assert process.wait(20) == -number


def test_run_loop() -> None:
    """The program's coroutine runs on uvloop where that is installed, and its result comes back."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> bool:
        return isinstance(asyncio.get_running_loop(), uvloop.Loop)

    assert run_loop(main())


async def test_small_writes_go_at_once() -> None:
    """Nagle's algorithm is off on what is accepted, on asyncio's own loop too, so that no token waits for the last
    one's acknowledgement."""
    (listening,) = bind("127.0.0.1", 0)
    seen = asyncio.get_running_loop().create_future()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        seen.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(accepted, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        assert await seen
        writer.close()
        await writer.wait_closed()
