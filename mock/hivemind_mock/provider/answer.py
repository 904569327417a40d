"""One admitted request, played out: the wait, the answer or its stream, and the fault that fate has in store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from hivemind_mock.provider.asgi import Drop, Receive, Send
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.encoding import Encoder, encoder
from hivemind_mock.provider.faults import Fate, Fault
from hivemind_mock.provider.formats.base import Ask, Format, Headers, Problem, Reply, Trouble
from hivemind_mock.provider.words import pieces

_EDGE_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    b"<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
)
_EARLY = frozenset({Fault.RESET_EARLY, Fault.ERROR_EARLY})


class Connection:
    """The client's side of one request: the reply goes out here, and here it shows that the client has left."""

    def __init__(self, send: Send, drop: Drop | None, receive: Receive) -> None:
        self._send = send
        self._drop = drop
        self._receive = receive
        self.dropped = False

    async def start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def drop(self, *, reset: bool) -> None:
        """End the connection with the reply unfinished. Raises RuntimeError under a server that can't."""
        if self._drop is None:
            raise RuntimeError("this server can't drop connections; use hivemind_mock.provider's serve or inprocess")
        self.dropped = True
        self._drop(reset)

    async def ended(self) -> None:
        """Wait until the connection is gone, or the reply complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Answer:
    """Plays one fate to one client."""

    def __init__(
        self,
        config: MockConfig,
        wire: Format,
        ask: Ask,
        fate: Fate,
        connection: Connection,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self.produced = 0
        """Output tokens generated so far."""
        self._config = config
        self._wire = wire
        self._ask = ask
        self._fate = fate
        self._connection = connection
        self._sleep = sleep
        self._left = False

    async def run(self, accepted: bytes, wall: float, headers: Callable[[], Headers]) -> bool:
        """Play to the end; False where the client left before it.

        `accepted` is the client's `accept-encoding`, `headers` is asked when the reply's head goes out.
        """
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.ensure_future(self._watch(task))
        try:
            await self._play(encoder(self._config.reply.encoding, accepted), self._reply(wall), headers)
        except asyncio.CancelledError:
            if not self._left:
                raise
            task.uncancel()
            return False
        finally:
            watch.cancel()
        return True

    async def _watch(self, task: asyncio.Task[object]) -> None:
        await self._connection.ended()
        self._left = True
        task.cancel()

    def _reply(self, wall: float) -> Reply:
        fate, longest = self._fate, self._ask.max_tokens
        tokens = min(fate.tokens, longest) if longest else fate.tokens
        latency = self._config.latency
        return Reply(
            ident=fate.ident,
            created=int(wall),
            pieces=pieces(fate.start, tokens, self._config.reply.event_tokens),
            output_tokens=tokens,
            cut=tokens < fate.tokens,
            took_s=fate.first_s + latency.token_s * tokens,
        )

    async def _play(self, coder: Encoder | None, reply: Reply, headers: Callable[[], Headers]) -> None:
        fate = self._fate
        if fate.fault in (Fault.BAD_GATEWAY, Fault.RESET):
            await self._sleep(fate.first_s * fate.strikes)
            if fate.fault is Fault.RESET:
                self._connection.drop(reset=True)
            else:
                await self._bad_gateway(headers)
        elif self._ask.stream:
            await self._stream(coder, reply, headers)
        else:
            await self._whole(coder, reply, headers)

    async def _bad_gateway(self, headers: Callable[[], Headers]) -> None:
        if self._fate.from_edge:
            ray = self._fate.ident[:16].lower().encode() + b"-MCK"
            head = [(b"content-type", b"text/html"), (b"server", b"cloudflare"), (b"cf-ray", ray)]
            status, page = 502, _EDGE_PAGE
        else:
            problem = Problem(Trouble.BAD_GATEWAY, "Bad gateway", self._fate.ident)
            status, extra, body = self._wire.problem(problem)
            head, page = [(b"content-type", b"application/json"), *extra, *headers()], msgspec.json.encode(body)
        await self._connection.start(status, [*head, (b"content-length", b"%d" % len(page))])
        await self._connection.finish(page)

    async def _whole(self, coder: Encoder | None, reply: Reply, headers: Callable[[], Headers]) -> None:
        await self._sleep(reply.took_s)
        self.produced = reply.output_tokens
        body = msgspec.json.encode(self._wire.whole(self._ask, reply))
        head = [(b"content-type", b"application/json"), *headers()]
        if coder is not None:
            body = coder.piece(body) + coder.end()
            head.append((b"content-encoding", coder.name))
        await self._connection.start(200, [*head, (b"content-length", b"%d" % len(body))])
        fault = self._fate.fault
        if fault is None:
            await self._connection.finish(body)
            return
        if fault is not Fault.RESET_EARLY:
            await self._connection.body(body[: len(body) // 2])
        self._connection.drop(reset=fault is not Fault.TRUNCATED)

    async def _stream(self, coder: Encoder | None, reply: Reply, headers: Callable[[], Headers]) -> None:
        await self._sleep(self._fate.first_s / 2)
        head = [(b"content-type", self._wire.stream_type), (b"cache-control", b"no-cache"), *headers()]
        if coder is not None:
            head.append((b"content-encoding", coder.name))
        await self._connection.start(200, head)
        if opening := self._wire.opening(self._ask, reply):
            await self._connection.body(coder.piece(opening) if coder else opening)
        await self._sleep(self._fate.first_s / 2)
        sent = self._pieces_before_fault(reply)
        for index in range(sent):
            if index:
                await self._sleep(self._config.latency.token_s * self._config.reply.event_tokens)
            piece = self._wire.piece(self._ask, reply, index)
            await self._connection.body(coder.piece(piece) if coder else piece)
            self.produced = min(reply.output_tokens, self.produced + self._config.reply.event_tokens)
        await self._end_stream(coder, reply, sent)

    def _pieces_before_fault(self, reply: Reply) -> int:
        count, fault = len(reply.pieces), self._fate.fault
        if fault is None:
            return count
        return 0 if fault in _EARLY else max(1, int(count * self._fate.strikes))

    async def _end_stream(self, coder: Encoder | None, reply: Reply, sent: int) -> None:
        fault = self._fate.fault
        if fault in (Fault.RESET_EARLY, Fault.RESET_MID):
            self._connection.drop(reset=True)
            return
        if fault in (Fault.ERROR_EARLY, Fault.ERROR_MID):
            problem = Problem(Trouble.OVERLOADED, "Overloaded", self._fate.ident)
            last = self._wire.stream_problem(self._ask, problem, sent)
        else:
            last = b"" if fault is Fault.TRUNCATED else self._wire.closing(self._ask, reply)
        if coder is not None:
            last = (coder.piece(last) if last else b"") + coder.end()
        await self._connection.finish(last)
