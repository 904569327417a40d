"""What a connection waits for, and for how long: a first request, the rest of one, the next one, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
import uvicorn
from proxy.by_hand import Clock, Wire
from uvicorn.server import ServerState

from hivemind.proxy import server_protocol

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def post(size: int, body: bytes = b"") -> bytes:
    """The head of a request with a body of this size, and what has come of that."""
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (size, body)


@dataclass
class Connection:
    """A protocol on a wire and a clock of the test's."""

    it: server_protocol.ClientProtocol
    clock: Clock
    wire: Wire
    answers: asyncio.Event
    """Requests are answered once it is set."""

    async def receive(self, data: bytes) -> None:
        """Receive this, and answer what is to be answered."""
        self.it.data_received(data)
        await self.answered()

    async def answered(self) -> None:
        """Answer what is to be answered."""
        self.answers.set()
        while self.it.tasks:
            await asyncio.wait(self.it.tasks)

    def hold(self, data: bytes) -> None:
        """Receive this, and answer nothing until :meth:`answered`."""
        self.answers.clear()
        self.it.data_received(data)

    def statuses(self) -> list[int]:
        """Of all that was sent."""
        return [int(each[:3]) for each in self.wire.sent.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    """One whose application reads a request and says hi."""
    answers = asyncio.Event()

    async def hello(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        await answers.wait()
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"hi"})

    config = uvicorn.Config(
        hello, http=server_protocol.ClientProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=75
    )
    config.load()
    clock, wire = Clock(asyncio.get_running_loop()), Wire()
    made = server_protocol.ClientProtocol(config, ServerState(), {}, cast(asyncio.AbstractEventLoop, clock))
    made.connection_made(wire)
    yield Connection(made, clock, wire, answers)
    for task in made.tasks:
        task.cancel()


async def test_one_timer_serves_many_requests(connection: Connection) -> None:
    """A busy connection sets no timer a request."""
    for _ in range(5):
        await connection.receive(GET)
    assert (connection.statuses(), connection.clock.timers) == ([200] * 5, 1)


async def test_a_client_that_stops_reading_is_dropped(connection: Connection) -> None:
    """Only where it takes nothing for the whole time: what it takes in between begins the time anew."""
    connection.hold(GET)
    for _ in range(2):
        connection.it.pause_writing()
        connection.clock.pass_time(server_protocol.WRITE_STALL_S - 1)
        connection.it.resume_writing()
    connection.clock.pass_time(2 * server_protocol.WRITE_STALL_S)
    assert not connection.wire.closed
    connection.it.pause_writing()
    connection.clock.pass_time(server_protocol.WRITE_STALL_S + 1)
    assert connection.wire.closed


async def test_a_connection_that_never_says_anything_closes(connection: Connection) -> None:
    """After the time for which one is kept between two requests."""
    connection.clock.pass_time(74)
    assert not connection.wire.closed
    connection.clock.pass_time(2)
    assert (connection.wire.closed, connection.wire.sent) == (True, b"")


async def test_empty_lines_are_no_request(connection: Connection) -> None:
    """They neither begin one nor prolong the time for it."""
    connection.clock.pass_time(74)
    await connection.receive(b"\r\n")
    connection.clock.pass_time(2)
    assert connection.wire.closed


async def test_idle_connection_closes_after_its_time(connection: Connection) -> None:
    """The timer that comes early waits for the rest; the one in time closes."""
    await connection.receive(GET)
    connection.clock.pass_time(40)
    await connection.receive(GET)
    connection.clock.pass_time(74)
    assert not connection.wire.closed
    connection.clock.pass_time(2)
    assert connection.wire.closed


async def test_a_connection_at_work_is_not_idle(connection: Connection) -> None:
    """However long an answer takes, its client may wait for it."""
    await connection.receive(GET)
    connection.hold(GET)
    connection.clock.pass_time(10_000)
    assert (connection.wire.closed, connection.wire.ended) == (False, False)
    await connection.answered()
    assert connection.statuses() == [200, 200]


async def test_half_a_head(connection: Connection) -> None:
    """A head has its time from its first byte, however often a byte comes; then the client is told, and after a while
    in which it may take note of that, the connection ends."""
    await connection.receive(GET)
    connection.clock.pass_time(70)
    await connection.receive(b"GET /")
    for _ in range(int(server_protocol.HEAD_S) - 1):
        connection.clock.pass_time(1)
        await connection.receive(b"a")
    assert connection.statuses() == [200]
    connection.clock.pass_time(1)
    assert (connection.statuses(), connection.wire.ended, connection.wire.closed) == ([200, 408], True, False)
    connection.clock.pass_time(server_protocol.LINGER_S)
    assert connection.wire.closed


async def test_half_a_body(connection: Connection) -> None:
    """A body that doesn't come on is waited for no longer, and its request is told that its client left."""
    await connection.receive(GET)
    connection.hold(post(5, b"ab"))
    connection.clock.pass_time(server_protocol.BODY_WINDOW_S - 1)
    assert connection.statuses() == [200]
    connection.clock.pass_time(1)
    await connection.answered()
    assert (connection.statuses(), connection.wire.ended) == ([200, 408], True)


async def test_a_slow_body(connection: Connection) -> None:
    """One that comes on at a modest rate may take all the time that it needs."""
    seconds = int(server_protocol.BODY_WINDOW_S) * 10
    connection.hold(post(server_protocol.MIN_BODY_RATE * seconds))
    for _ in range(seconds):
        connection.it.data_received(b"x" * server_protocol.MIN_BODY_RATE)
        connection.clock.pass_time(1)
        await asyncio.sleep(0)
    await connection.answered()
    assert connection.statuses() == [200]


async def test_a_body_slower_than_that(connection: Connection) -> None:
    """One that drips isn't waited for, though it comes on."""
    connection.hold(post(900_000))
    for _ in range(int(server_protocol.BODY_WINDOW_S)):
        connection.it.data_received(b"x" * (server_protocol.MIN_BODY_RATE // 2))
        connection.clock.pass_time(1)
        await asyncio.sleep(0)
    assert connection.statuses() == [408]


async def test_a_body_that_is_not_read_is_not_late(connection: Connection) -> None:
    """While nobody here reads, the client can't send."""
    connection.hold(post(900_000, b"x" * 100_000))
    assert not connection.wire.reading
    connection.clock.pass_time(10 * server_protocol.BODY_WINDOW_S)
    assert connection.wire.sent == b""


async def test_half_a_request_behind_another(connection: Connection) -> None:
    """Its time runs as well, and its refusal comes after the answer that is due."""
    connection.hold(GET + GET[:10])
    connection.clock.pass_time(server_protocol.HEAD_S)
    assert connection.wire.sent == b""
    await connection.answered()
    assert connection.statuses() == [200, 408]


async def test_what_follows_a_last_answer_is_bounded(connection: Connection) -> None:
    """A client that goes on and on after it was refused isn't read any more, and is cut off after a while: cut off at
    once, it would lose the answer."""
    await connection.receive(b"nonsense\r\n\r\n")
    for _ in range(server_protocol.LINGER_BYTES // 65_536):
        await connection.receive(b"x" * 65_536)
    assert connection.wire.reading
    await connection.receive(b"x" * 65_536)
    assert (connection.wire.reading, connection.wire.closed, connection.statuses()) == (False, False, [400])
    connection.clock.pass_time(server_protocol.LINGER_S + 1)
    assert connection.wire.closed


async def test_requests_ahead_are_read_on(connection: Connection) -> None:
    """Reading never stops while answers are due, so that the client's leaving shows; and what came too far ahead is
    answered as such after them."""
    ahead = post(9000, b"x" * 9000)
    for _ in range(20):
        connection.hold(ahead)
        assert connection.wire.reading
    await connection.answered()
    assert connection.statuses() == [200] * (1 + server_protocol.MAX_AHEAD // len(ahead)) + [503]
    assert connection.wire.ended


async def test_many_small_requests_ahead(connection: Connection) -> None:
    """Their number is bounded too, even where they come at once."""
    connection.hold(GET * 1000)
    await connection.answered()
    assert connection.statuses() == [200] * (1 + server_protocol.MAX_PIPELINED) + [503]


async def test_pipelining_goes_on_and_on(connection: Connection) -> None:
    """What was answered no longer counts: a client may always be one request ahead."""
    ahead = post(9000, b"x" * 9000)
    connection.hold(ahead)
    for number in range(30):
        connection.hold(ahead)
        connection.answers.set()
        while len(connection.statuses()) <= number:  # noqa: ASYNC110 - nothing to wait for
            await asyncio.sleep(0)
    await connection.answered()
    assert connection.statuses() == [200] * 31
    assert not connection.wire.ended


async def test_an_answer_before_the_end_of_the_body(connection: Connection) -> None:
    """The rest isn't read: the client is told, and its connection ends once it had time to notice."""
    connection.hold(post(5, b"ab"))
    assert connection.it.cycle is not None
    connection.it.cycle.answer(413, [], b"no")
    assert b"connection: close" in connection.wire.sent
    assert (connection.wire.ended, connection.wire.closed) == (True, False)
    connection.clock.pass_time(server_protocol.LINGER_S)
    assert connection.wire.closed


async def test_no_header_of_ours_breaks_a_line(connection: Connection) -> None:
    """Whatever an application says."""
    connection.hold(GET)
    assert connection.it.cycle is not None
    with pytest.raises(RuntimeError, match="line break"):
        connection.it.cycle.answer(200, [(b"x", b"a\r\nb: c")], b"")
    assert connection.wire.sent == b""
