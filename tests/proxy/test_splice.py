"""An event's short way through the proxy does what the long one does."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from providers.test_skimming import MAKE, cut, stream_of, tap, usual
from proxy.wire import chunk
from upstream.test_relay import HEAD, SilentTransport

from hivemind.providers.taps import end_through
from hivemind.proxy.cycle import Cycle
from hivemind.proxy.streaming import EventHold, Splice
from hivemind.records import replace
from hivemind.upstream.base import Timeouts
from hivemind.upstream.connection import Connection, Pool


class Way:
    """A stream's way from its upstream's connection to a client, with or without the short one."""

    def __init__(self, name: str, *, short: bool) -> None:
        self.short = short
        self.sent = bytearray()
        """What the client got."""
        client = SimpleNamespace(
            transport=SimpleNamespace(write=self.sent.extend),
            flow=SimpleNamespace(write_paused=False),
            drop_parser=lambda head: None,
        )
        cycle = Cycle(cast(Any, client), {"method": "POST", "http_version": "1.1"}, body=b"")
        cycle._head(200, [(b"transfer-encoding", b"chunked")], None)
        self.connection = Connection(asyncio.get_running_loop(), Pool(1), Timeouts())
        self.connection.connection_made(cast(Any, SilentTransport()))
        self.response = self.connection.start(b"GET", b"", b"")
        self.connection.data_received(HEAD)
        self.tap = tap(name, skims=True)
        self.hold = EventHold(self.tap.ends)
        splice = Splice(self.response, cycle, self.tap, cast(Any, SimpleNamespace()), self.hold)
        self.task = asyncio.ensure_future(splice.run())

    async def receive(self, piece: bytes) -> tuple[object, ...]:
        """Have a piece come as one chunk. Return all that it had an effect on."""
        await asyncio.sleep(0)
        if not self.short:
            self.response.relay = None
        if not self.task.done():
            self.connection.data_received(chunk(piece))
        held = bytes(self.hold.held), self.hold.is_between, self.hold.idle
        return bytes(self.sent), replace(self.tap.state), held

    def end(self) -> object:
        assert self.task.cancel() or self.task.exception() is None
        self.connection.abort()
        end_through(self.tap)
        return self.tap.state


async def compare(name: str, pieces: list[bytes]) -> None:
    """Send pieces both ways, and check after each of them that its effects are the same."""
    short, long = Way(name, short=True), Way(name, short=False)
    for piece in pieces:
        assert await short.receive(piece) == await long.receive(piece)
    assert short.end() == long.end()


@pytest.mark.parametrize("name", MAKE)
@settings(max_examples=examples(60, few=8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_both_ways_are_equal(name: str, seed: int) -> None:
    """However a stream is written and cut, the client gets the same at once, and the same is counted and held."""
    chance = random.Random(seed)
    stream = stream_of(name, chance)
    asyncio.run(compare(name, cut(stream, chance.getrandbits(32), chance.choice([0, 0, 0, -1, 7, 100, 5000]))))


def test_after_what_is_held() -> None:
    """An event waits for the one before it, whose end (a line of another kind) only the tap has recognised."""
    one = usual("anthropic", ["word"])
    asyncio.run(compare("anthropic", [one, one, one[:-1] + b"\r\n", one, one]))


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "ollama"])
def test_most_events_go_the_short_way(name: str) -> None:
    """Of a thousand events in chunks of their own, about one in thirty goes the long way."""

    async def main() -> None:
        way = Way(name, short=True)
        with mock.patch.object(Splice, "_take", autospec=True, side_effect=Splice._take) as take:
            for piece in cut(usual(name, ["word"] * 1000), 1, 0):
                await way.receive(piece)
        assert 20 <= take.call_count <= 50
        way.end()

    asyncio.run(main())
