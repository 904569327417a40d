"""Connections that agents keep open between requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from hivemind.proxy.departure import ClientProtocol


class Wire(asyncio.Transport):
    """The other side of a protocol, driven by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None:
        """Nothing was paused."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """It stays the one it was made for."""


async def _hello(scope: dict[str, object], receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"hi"})  # type: ignore[operator]


@pytest.fixture
async def protocol(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A protocol on a clock that is set by hand."""
    config = uvicorn.Config(
        _hello, http=ClientProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=75
    )
    config.load()
    made = ClientProtocol(config, ServerState(), {})
    clock = SimpleNamespace(now=100.0, timers=[])
    wire = Wire()
    made.connection_made(wire)
    loop = made.loop
    fake = SimpleNamespace(
        time=lambda: clock.now,
        call_later=lambda wait_s, callback: (
            clock.timers.append((wait_s, callback)) or SimpleNamespace(cancel=lambda: None)
        ),
        create_task=loop.create_task,
    )
    made.loop = fake  # type: ignore[assignment]
    return SimpleNamespace(it=made, clock=clock, wire=wire)


async def _ask(protocol: SimpleNamespace) -> None:
    protocol.it.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await asyncio.gather(*protocol.it.tasks)


async def test_one_timer_serves_many_requests(protocol: SimpleNamespace) -> None:
    """A busy connection sets no timer a request."""
    for _ in range(5):
        await _ask(protocol)
    assert [wait_s for wait_s, _ in protocol.clock.timers] == [75]


async def test_idle_connection_closes_after_its_time(protocol: SimpleNamespace) -> None:
    """The timer that comes early waits for the rest; the one in time closes."""
    await _ask(protocol)
    protocol.clock.now += 40
    await _ask(protocol)
    protocol.clock.now += 35
    protocol.clock.timers[0][1]()
    assert not protocol.wire.closed
    assert protocol.clock.timers[1][0] == 40
    protocol.clock.now += 40
    protocol.clock.timers[1][1]()
    assert protocol.wire.closed


async def test_a_connection_at_work_is_not_idle(protocol: SimpleNamespace) -> None:
    """A timer that comes while a request is under way does nothing; its answer sets the next one."""
    await _ask(protocol)
    protocol.it.data_received(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab")
    protocol.clock.now += 1000
    protocol.clock.timers[0][1]()
    assert not protocol.wire.closed
    assert len(protocol.clock.timers) == 1
