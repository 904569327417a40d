"""The proxy on a real socket between clients that see every byte and an upstream that does as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from upstream.scripted import Handler, Scripted, reset, serving

from hivemind import logs
from hivemind.host.proxy import Kept, Proxy
from hivemind.providers.profiles import PROFILES
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.scheduler.invariants import Violation, violations
from hivemind.settings import Settings
from hivemind.settings.checks import checked
from hivemind.world.snapshot import Snapshot
from hivemind_mock.provider.serve import serving as serving_app

Pairs = list[tuple[bytes, bytes]]
QUICK = {"base_s": 0.001, "max_s": 0.002}
"""Retries without waiting; what the delays are is tested in virtual time."""

HOSTS = ("hivemind", "x")
"""What requests that tests write by hand have as `Host`."""
HANGS_S = 60
"""What takes longer never ends."""


class Reset:
    """The upstream ends the connection with a RST."""


class Close:
    """It ends the connection in good order, wherever the answer is."""


class Hang:
    """It says nothing more until the proxy leaves."""


Step = bytes | asyncio.Event | Reset | Close | Hang
Play = Sequence[Step]
"""What the upstream does on one request: bytes are written, events waited for; then the next request is read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it reached the upstream."""

    method: bytes
    target: bytes
    headers: Pairs
    """As they stood on the wire: spelling, order, duplicates."""
    body: bytes

    @classmethod
    def of(cls, raw: bytes) -> Seen:
        """Take apart what was recorded."""
        head, _, body = raw.partition(b"\r\n\r\n")
        line, *rest = head.split(b"\r\n")
        method, target, _ = line.split(b" ")
        headers = [(name, value) for name, _, value in (field.partition(b": ") for field in rest)]
        return cls(method, target, headers, body)

    def values(self, name: bytes) -> list[bytes]:
        """Every value of a header."""
        return [value for key, value in self.headers if key == name]


def playing(*plays: Play) -> Handler:
    """Request after request gets the next play, and all later ones the last."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await script.request(reader)
            play = plays[min(len(script.requests), len(plays)) - 1]
            if not await _perform(play, reader, writer):
                return

    return handle


async def _perform(play: Play, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Returns whether the connection goes on."""
    for step in play:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, asyncio.Event):
            while not step.is_set():
                if reader.at_eof() or writer.transport.is_closing():
                    return False
                await asyncio.sleep(0.005)
        elif isinstance(step, Reset):
            reset(writer)
            return False
        elif isinstance(step, Close):
            return False
        else:
            await reader.read()
            return False
    return True


class Running:
    """A proxy that is being served."""

    def __init__(self, proxy: Proxy, url: str, port: int) -> None:
        self.proxy = proxy
        self.url = url
        self.port = port

    def snapshot(self) -> Snapshot:
        """The world now."""
        return self.proxy.snapshot()

    async def until(self, true: Callable[[Snapshot], bool]) -> Snapshot:
        """Wait until the world is as the caller wants it."""
        snapshot = self.proxy.snapshot()
        while not true(snapshot):
            await asyncio.sleep(0.005)
            snapshot = self.proxy.snapshot()
        return snapshot

    async def stats(self) -> dict[str, Any]:
        """`/_stats`, over the wire."""
        async with client() as http:
            found: dict[str, Any] = (await http.get(f"{self.url}/_stats")).json()
            return found


def settings_for(*upstreams: str, **values: Any) -> Settings:
    """No limits of ours, quick retries, any free port."""
    values["retry"] = {**QUICK, **values.get("retry", {})}
    no_limits = {"rpm": 0, "tpm": 0, "max_concurrency": 0}
    # A provider's name says which profile it has; all others aren't to be asked whether they are model servers.
    unnamed = {} if any(each.partition("=")[0] in PROFILES for each in upstreams) else {"profile": "generic"}
    values = {"upstream": upstreams, "port": 0, "allowed_hosts": HOSTS, **no_limits, **unnamed, **values}
    return checked(values)


@contextlib.asynccontextmanager
async def proxying(
    *upstreams: str,
    keep_in: Path | None = None,
    record_in: Path | None = None,
    hangs_s: float = HANGS_S,
    checked: bool = True,
    **values: Any,
) -> AsyncIterator[Running]:
    """The proxy before these upstreams, with these settings; a test that hangs is ended. Checkpoints are kept in the
    folder `keep_in`, where there is one, and a journal in `record_in`.

    Every invariant of the scheduler is checked after each of its steps, unless the test breaks them on purpose.

    Without uvicorn's server around it, which takes a tenth of a second to stop; the tests of the process have that.
    """
    logs.quiet_uvicorn()
    proxy = Proxy(settings_for(*upstreams, **values), rng=random.Random(1))
    await proxy.start(Kept(journals=record_in, checkpoints=keep_in))
    broken = checking(proxy) if checked else []
    try:
        async with asyncio.timeout(hangs_s), serving_app(proxy.app, protocol=ClientProtocol) as url:
            proxy.address = url
            yield Running(proxy, url, int(url.rpartition(":")[2]))
    finally:
        await proxy.aclose()
    assert not broken, broken[:10]


def checking(proxy: Proxy) -> list[Violation]:
    """Check every invariant of the scheduler after each of the engine's steps; what is broken comes into the list."""
    engine, broken = proxy.engine, list[Violation]()
    settle = engine._settle

    def settled() -> None:
        settle()
        broken.extend(violations(engine._scheduler, engine.now()))

    engine._settle = settled  # type: ignore[method-assign]
    return broken


@contextlib.asynccontextmanager
async def between(*plays: Play, **values: Any) -> AsyncIterator[tuple[Running, Scripted]]:
    """The proxy before one upstream that gives these plays."""
    async with serving(playing(*plays)) as upstream, proxying(f"lab={upstream.url}", **values) as running:
        yield running, upstream


def client() -> httpx.AsyncClient:
    """An ordinary client, which no environment redirects."""
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=60)


class Raw:
    """A client that sees and says every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write."""
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, Pairs]:
        """The next response's status and headers."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *rest = raw[:-4].split(b"\r\n")
        return int(line.split(b" ")[1]), [(n, v) for n, _, v in (field.partition(b": ") for field in rest)]

    async def ask(self, data: bytes) -> tuple[int, Pairs]:
        """Write a request, or the rest of one, and return the status and headers of what comes next."""
        await self.send(data)
        return await self.head()

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def body(self, headers: Pairs) -> bytes:
        """The rest of a body, by its framing.

        Raises: asyncio.IncompleteReadError, ConnectionError, ValueError: it was cut off.
        """
        length = dict(headers).get(b"content-length")
        if length is not None:
            return await self.reader.readexactly(int(length))
        parts = []
        while data := await self.chunk():
            parts.append(data)
        return b"".join(parts)

    async def chunks(self, size: int) -> bytes:
        """The next so many bytes of a chunked body, in however many chunks they come."""
        body = b""
        while len(body) < size:
            body += await self.chunk()
        return body

    async def rest(self) -> bytes:
        """Everything until the connection ends, in whichever way."""
        parts = []
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(65536):
                parts.append(data)
        return b"".join(parts)

    def leave(self, *, hard: bool = False) -> None:
        """Close, or reset."""
        if hard:
            reset(self.writer)
        else:
            self.writer.close()


@contextlib.asynccontextmanager
async def raw(port: int, *, limit: int = 1 << 20) -> AsyncIterator[Raw]:
    """A connection to the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(target: str, body: bytes = b"{}", *headers: str, method: str = "POST") -> bytes:
    """A request as a client writes it."""
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def healths_until(running: Running, done: asyncio.Future[Any]) -> int:
    """How often the proxy says how it is until this is done."""
    answered = 0
    async with raw(running.port) as client:
        while not done.done():
            _, headers = await client.ask(request("/_health", b"", method="GET"))
            await client.body(headers)
            answered += 1
    return answered
