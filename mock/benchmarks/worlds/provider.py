"""A provider made of rules: a raw ASGI application that speaks Anthropic's Messages API."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from starlette.types import Receive, Scope, Send

from benchmarks.worlds.rules import Asked, Cache, Failing, Gate, Refusal
from benchmarks.worlds.server import Server, Speed
from hivemind.proxy.asgi import read_body
from hivemind_mock.provider.answer import Connection
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.formats.anthropic import Anthropic
from hivemind_mock.provider.formats.base import ApiError, ErrorKind, MockReply, Request

_WIRE = Anthropic()
_PIECES = 4
"""Events of a stream."""
_STALL = 8.0
_QUICK_S = (0.01, 0.04)
"""A refusal takes so long."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The work of an answer, in seconds at full speed."""

    base_s: float
    input_s: float
    """Of a token that isn't in the cache."""
    output_s: float
    jitter: float
    """The standard deviation of the logarithm of it all."""
    power: float = 1.0
    """The work of the input grows with this power; a thousand tokens are as much work with any."""
    stalls: float = 0.0
    """This share of answers takes eight times as long."""

    def first_s(self, input_tokens: int) -> float:
        """Return the work to the first content."""
        return self.base_s + self.input_s * 1000 * math.pow(input_tokens / 1000, self.power)


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that a provider does."""

    cost: Cost
    gates: Callable[[], Sequence[Gate]] = tuple
    failing: Sequence[Failing] = ()
    speed: Speed = lambda now, active: 1.0
    places: int = 0
    """So many are served at once, the others wait at the provider; 0: all of them."""
    last_first: bool = False
    """Of those that wait at the provider, the last one is next."""
    pools: int = 1
    """Servers between which requests are drawn by lot; each has its own speed and places."""
    cache_s: float = 0.0
    """Prompts of a conversation are kept so long; 0: there is no cache."""


class WorldProvider:
    """One provider with its luck. Make it in a running event loop, by whose clock it goes."""

    def __init__(self, rules: Rules, luck: random.Random, *, wall: float = 1_800_000_000.0) -> None:
        self._rules = rules
        self._luck = luck
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._wall = wall
        self._gates = rules.gates()
        self._cache = Cache(rules.cache_s) if rules.cache_s else None
        began = self._began
        self._servers = [
            Server(lambda at, active: rules.speed(at - began, active), places=rules.places, last_first=rules.last_first)
            for _ in range(rules.pools)
        ]
        self._active = self._tokens_active = 0
        self._count = 0

    def wall(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._wall + self._loop.time()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is None:
            return
        connection = Connection(scope, receive, send)
        fields = msgspec.json.decode(body, type=dict) if body else {}
        request = _WIRE.parse(scope["path"], "", fields)
        if request is None:
            await connection.reply_json(404, {"type": "error", "error": {"type": "not_found_error", "message": "?"}})
            return
        # Each agent says who it is in its system prompt, so that this names the conversation.
        asked = Asked(request.input_tokens, request.max_tokens, str(fields.get("system")), self._tokens_active)
        self._count += 1
        ident = f"{self._count:024d}"
        refusal = self._refusal(asked)
        if refusal is not None:
            await self._refuse(request, refusal, ident, connection)
            return
        await self._take(request, asked, ident, connection)

    @property
    def _now(self) -> float:
        return self._loop.time() - self._began

    def _refusal(self, asked: Asked) -> Refusal | Fault | None:
        now, active = self._now, self._active
        for gate in self._gates:
            refusal = gate.refuses(now, asked, active)
            if refusal is not None:
                return refusal
        for failing in self._rules.failing:
            fault = failing.fault(now, active + 1, self._luck)
            if fault is not None:
                return fault
        return None

    async def _refuse(self, request: Request, why: Refusal | Fault, ident: str, connection: Connection) -> None:
        if why is Fault.RESET:
            await asyncio.sleep(self._rules.cost.base_s * self._luck.random())
            connection.drop(reset=True)
            return
        await asyncio.sleep(self._luck.uniform(*_QUICK_S))
        kind = why.kind if isinstance(why, Refusal) else ErrorKind.BAD_GATEWAY
        after_s = why.retry_after_s if isinstance(why, Refusal) else None
        status, headers, body = _WIRE.error(ApiError(kind, kind.value, ident, after_s))
        await connection.reply_json(status, body, headers + self._headers(request, ident))

    def _headers(self, request: Request, ident: str) -> list[tuple[bytes, bytes]]:
        now = self._now
        readings = [reading for gate in self._gates for reading in gate.readings(now)]
        return _WIRE.headers(request, ident, readings, self.wall())

    async def _take(self, request: Request, asked: Asked, ident: str, connection: Connection) -> None:
        now = self._now
        for gate in self._gates:
            gate.taken(now, asked)
        cached = 0 if self._cache is None else self._cache.read(now, asked)
        self._active += 1
        self._tokens_active += asked.input_tokens + asked.max_tokens
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.ensure_future(_cancel_with(connection, task))
        try:
            await self._answer(request, self._reply(request, cached, ident), asked, connection)
        except asyncio.CancelledError:
            if not watch.done():
                raise
            task.uncancel()
        finally:
            watch.cancel()
            self._active -= 1
            self._tokens_active -= asked.input_tokens + asked.max_tokens

    def _reply(self, request: Request, cached: int, ident: str) -> MockReply:
        longest = request.max_tokens or 400
        tokens = max(1, round(longest * self._luck.uniform(0.5, 1.0)))
        text = "word " * tokens
        size = -(-len(text) // _PIECES)
        pieces = tuple(text[at : at + size] for at in range(0, len(text), size))
        written = request.input_tokens - cached if self._cache is not None else 0
        return MockReply(ident, 0, pieces, tokens, False, 0.0, cache_read=cached, cache_written=written)

    async def _answer(self, request: Request, reply: MockReply, asked: Asked, connection: Connection) -> None:
        cost = self._rules.cost
        server = self._servers[0] if len(self._servers) == 1 else self._luck.choice(self._servers)
        luck = self._luck.lognormvariate(0.0, cost.jitter)
        if cost.stalls and self._luck.random() < cost.stalls:
            luck *= _STALL
        first_s = cost.first_s(request.input_tokens - reply.cache_read) * luck
        rest_s = cost.output_s * reply.output_tokens * luck
        async with server.place():
            await server.work(first_s)
            if not request.stream:
                await server.work(rest_s)
            else:
                head = [(b"content-type", _WIRE.stream_type), *self._headers(request, reply.ident)]
                await connection.start(200, head)
                await connection.body(_WIRE.opening(request, reply))
                for index in range(len(reply.pieces)):
                    await connection.body(_WIRE.piece(request, reply, index))
                    await server.work(rest_s / len(reply.pieces))
        for gate in self._gates:
            gate.settled(self._now, reply.output_tokens)
        if request.stream:
            await connection.body(_WIRE.closing(request, reply), more=False)
        else:
            await connection.reply_json(200, _WIRE.whole(request, reply), self._headers(request, reply.ident))


async def _cancel_with(connection: Connection, task: asyncio.Task[object]) -> None:
    await connection.ended()
    task.cancel()
