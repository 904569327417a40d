"""Writes that wait for the end of a turn of the event loop."""

from __future__ import annotations

import asyncio

import pytest
from proxy.by_hand import Wire

from hivemind.upstream.outbox import MOST_HELD, Outbox, OutboxTransport


class Counting(Wire):
    """Counts its writes."""

    writes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        super().write(data)


def opened(outbox: Outbox) -> tuple[Counting, OutboxTransport]:
    """A transport, and the one that writes through the outbox."""
    wire = Counting()
    return wire, OutboxTransport(wire, outbox)


async def test_written_together_at_the_end_of_the_turn() -> None:
    """In order, and with one write for each connection."""
    outbox = Outbox()
    outbox.batches = True
    (one, to_one), (two, to_two) = opened(outbox), opened(outbox)
    to_one.write(b"a")
    to_two.write(b"x")
    outbox.batches = False
    to_one.write(b"b")
    assert (one.sent, two.sent) == (b"", b"")
    await asyncio.sleep(0)
    assert (one.sent, one.writes, two.sent) == (b"ab", 1, b"x")


async def test_at_once_where_there_is_nothing_to_gather() -> None:
    """A single request isn't delayed."""
    wire, transport = opened(Outbox())
    transport.write(b"a")
    assert wire.sent == b"a"


@pytest.mark.parametrize("end", ["close", "write_eof"])
async def test_what_is_held_is_written_before_the_end(end: str) -> None:
    """Closing loses nothing."""
    outbox = Outbox()
    outbox.batches = True
    wire, transport = opened(outbox)
    transport.write(b"last words")
    getattr(transport, end)()
    assert (wire.sent, wire.closed or wire.ended) == (b"last words", True)
    await asyncio.sleep(0)
    assert wire.sent == b"last words"


async def test_aborting_drops_what_is_held() -> None:
    """As it drops what a transport buffers."""
    outbox = Outbox()
    outbox.batches = True
    wire, transport = opened(outbox)
    transport.write(b"never")
    transport.abort()
    await asyncio.sleep(0)
    assert (wire.sent, wire.closed) == (b"", True)


async def test_a_write_that_fails_keeps_nothing_else_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, and the next connection gets its data."""
    outbox = Outbox()
    outbox.batches = True
    (broken, to_broken), (wire, transport) = opened(outbox), opened(outbox)
    reported: list[str] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(broken, "write", lambda data: 1 / 0)
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    to_broken.write(b"a")
    transport.write(b"b")
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert wire.sent == b"b"
    assert len(reported) == 1


async def test_no_more_than_some_is_held() -> None:
    """Beyond a bound nothing is copied, and the transport can say that the other side doesn't take it; all stays in
    order, and later data is gathered again."""
    outbox = Outbox()
    outbox.batches = True
    wire, transport = opened(outbox)
    transport.write(b"head")
    transport.write(memoryview(b"x" * MOST_HELD))
    assert (wire.sent, wire.writes) == (b"head" + b"x" * MOST_HELD, 2)
    transport.write(b"tail")
    assert wire.writes == 2
    await asyncio.sleep(0)
    assert wire.sent.endswith(b"xtail")


async def test_a_long_body_is_not_held_whole() -> None:
    """Of a body that is written in pieces a bounded part is copied at a time."""
    outbox = Outbox()
    outbox.batches = True
    wire, transport = opened(outbox)
    for piece in range(1, 101):
        transport.write(b"x" * (MOST_HELD // 4))
        assert piece * (MOST_HELD // 4) - len(wire.sent) <= MOST_HELD
    await asyncio.sleep(0)
    assert len(wire.sent) == 25 * MOST_HELD
