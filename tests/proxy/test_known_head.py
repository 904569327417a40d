"""Requests whose head a connection has seen before: they are served as if their head were parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from proxy.by_hand import Clock, Wire
from uvicorn.server import ServerState

from hivemind.proxy.cycle import Cycle
from hivemind.proxy.known_head import KnownHead
from hivemind.proxy.server_protocol import AWAITED_BODY, BODY_WINDOW_S, ClientProtocol

_NO_LOOP: Any = SimpleNamespace(create_task=None)
POST = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nContent-Length: %d\r\nx-api-key: k\r\n\r\n%b"


def post(body: bytes) -> bytes:
    """A request of the head that most of these tests repeat."""
    return POST % (len(body), body)


@dataclass
class App:
    """Answers requests that come whole, and remembers their heads or not."""

    remembers: bool
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    known: int = 0
    """Requests that came with what was remembered."""

    def serve_whole(self, cycle: Cycle) -> bool:
        scope = dict(cycle.scope)
        self.known += cycle.remembered is not None
        if self.remembers:
            cycle.remembered = "seen"
        headers = tuple(scope["headers"])
        self.seen.append((scope["method"], scope["path"], scope["query_string"], headers, cycle.take_body()))
        cycle.answer(200, [], b"%d" % len(self.seen))
        return True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass


@dataclass
class Side:
    """A connection with its application."""

    app: App
    wire: Wire = field(default_factory=Wire)
    clock: Clock = field(default_factory=lambda: Clock(_NO_LOOP))

    def __post_init__(self) -> None:
        config = uvicorn.Config(
            self.app, http=ClientProtocol, ws="none", lifespan="off", log_config=None, proxy_headers=False
        )
        config.load()
        make: Any = ClientProtocol
        self.it: ClientProtocol = make(config, ServerState(), {}, self.clock)
        self.it.connection_made(self.wire)


_HEADS = (
    POST,
    POST.replace(b"x-api-key: k", b"x-api-key: j"),
    POST.replace(b"/v1/messages", b"/v1/messages?beta=true"),
    POST.replace(b"x-api-key", b"X-Api-Key"),
    POST.replace(b"x-api-key: k", b"connection: close"),
    b"POST / HTTP/1.1\r\nhost: x\r\nx-of: content-length: 5\r\ncontent-length:%d\r\n\r\n%b",
)
_BODIES = st.binary(max_size=30) | st.sampled_from([b"\r\n\r\n", post(b"ab"), b"x" * 1000])
_REQUESTS = st.lists(st.tuples(st.sampled_from(_HEADS), _BODIES), min_size=1, max_size=8)


@given(_REQUESTS, st.lists(st.integers(0, 3000), max_size=8), st.booleans())
def test_as_if_it_were_parsed(requests: list[tuple[bytes, bytes]], cuts: list[int], together: bool) -> None:
    """Whatever is repeated, and wherever the data is cut, the application sees the same requests, and the client the
    same answers."""
    remembering, forgetting = Side(App(remembers=True)), Side(App(remembers=False))
    messages = [head % (len(body), body) for head, body in requests]
    for message in [b"".join(messages)] if together else messages:
        places = sorted({0, len(message), *(cut for cut in cuts if cut < len(message))})
        for start, end in pairwise(places):
            for side in (remembering, forgetting):
                if not side.wire.closed:
                    side.it.data_received(message[start:end])
    assert remembering.app.seen == forgetting.app.seen
    assert remembering.wire.sent == forgetting.wire.sent
    assert remembering.wire.closed == forgetting.wire.closed


@pytest.fixture
def side() -> Side:
    """A connection on which one request was served."""
    made = Side(App(remembers=True))
    made.it.data_received(post(b"one"))
    return made


@pytest.mark.parametrize("body", [b"", b"1", b"a longer body than before"])
def test_an_equal_head_is_not_parsed(side: Side, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Its body may have another length, and come with it or after it."""
    monkeypatch.setattr(side.it, "parser", None)
    message = post(body)
    side.it.data_received(message)
    if body:
        side.it.data_received(message[: -len(body)])
        side.it.data_received(body)
    else:
        side.it.data_received(message)
    assert [each[-1] for each in side.app.seen] == [b"one", body, body]
    assert side.app.known == 2


@pytest.mark.parametrize(("was", "becomes"), [(b"k\r\n", b"j\r\n"), (b"messages", b"messagez"), (b": x", b": y")])
def test_another_head_is_parsed(side: Side, was: bytes, becomes: bytes) -> None:
    """One that differs before the length or behind it, and is as long."""
    side.it.data_received(post(b"two").replace(was, becomes))
    (_, _, _, before, _), (_, path, _, headers, body) = side.app.seen
    assert (path, headers) != ("/v1/messages", before)
    assert (body, side.app.known) == (b"two", 0)


def test_a_held_head_times_out(side: Side) -> None:
    """As a body that doesn't come."""
    side.it.data_received(post(b"abc")[:-3])
    side.clock.pass_time(BODY_WINDOW_S)
    assert not side.wire.closed
    side.clock.pass_time(BODY_WINDOW_S)
    assert b" 408 " in side.wire.sent
    assert side.wire.ended


def test_a_held_head_counts_as_incomplete(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a request whose head was parsed."""
    counted: list[str] = []
    monkeypatch.setattr(side.it._limit, "begin", lambda _: counted.append("begin"))
    monkeypatch.setattr(side.it._limit, "end", lambda _: counted.append("end"))
    side.it.data_received(post(b"abc")[:-3])
    assert counted == ["begin"]
    side.it.data_received(b"abc")
    assert counted == ["begin", "end"]


def test_a_held_head_at_the_end_of_the_server(side: Side) -> None:
    """Its request is served before the connection is closed."""
    side.it.data_received(post(b"abc")[:-3])
    side.it.shutdown()
    assert not side.wire.closed
    side.it.data_received(b"abc")
    assert side.app.seen[-1][-1] == b"abc"
    assert b"connection: close" in side.wire.sent


async def test_a_long_body_is_not_awaited(side: Side) -> None:
    """The application reads it as it comes."""
    before = len(side.app.seen)
    side.it.data_received(POST % (AWAITED_BODY + 1, b""))
    assert side.it.cycle is not None
    assert side.it.cycle.more_body
    assert len(side.app.seen) == before


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\r\nPOST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n",
    ],
)
def test_heads_that_do_not_become_known(data: bytes) -> None:
    """Those without a length, after an empty line, or cut."""
    scope = {"method": "POST", "headers": [(b"host", b"x"), (b"content-length", b"1")]}
    assert KnownHead.of(data, scope, "seen") is None
