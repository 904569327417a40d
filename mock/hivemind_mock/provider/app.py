"""The mock provider: a raw ASGI application that answers as a rate-limited, faulty provider does.

A request is checked in this order: a spell of overload, the concurrency limit, the rate windows, an injected refusal.
Whoever is refused there is not charged. What passes is charged to the windows, whatever becomes of it, and holds its
place in the concurrency limit until its answer ends.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate

import msgspec

from hivemind_mock.provider.answer import Answer, Connection
from hivemind_mock.provider.asgi import DROP, Receive, Scope, Send, read_body
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.encoding import decode
from hivemind_mock.provider.faults import REFUSALS, Dice, Fate, Fault, in_spell
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.formats.base import Ask, Format, Headers, Problem, Trouble
from hivemind_mock.provider.limits import Limiter
from hivemind_mock.provider.stats import Stats

_CATALOGUE: dict[str, object] = {
    "/v1/models": {"object": "list", "data": [{"id": "mock-1", "type": "model", "object": "model", "created": 0}]},
    "/v1beta/models": {"models": [{"name": "models/mock-1", "displayName": "mock-1"}]},
    "/api/tags": {"models": [{"name": "mock-1", "model": "mock-1"}]},
    "/api/version": {"version": "0.1.0"},
}
_AGENT = re.compile(r"^/agent/[^/]+")
"""HiveMind's way to name an agent in the base URL; ignored, so the same agent can be pointed at the mock itself."""
_UNKNOWN_PATH = {"error": {"type": "not_found_error", "message": "no such path", "code": None, "param": None}}


class MockProvider:
    """One provider. `clock` and `wall` are read and `sleep` is awaited as given, so it runs in virtual time too."""

    def __init__(
        self,
        config: MockConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.config = config
        self.stats = Stats()
        self._clock = clock
        self.wall = wall
        self._sleep = sleep
        self._limiter = Limiter(config.limits)
        self._dice = Dice(config)
        self._formats = [FORMATS[name] for name in config.formats]
        self._started = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the mock provider speaks http, not {scope['type']}")
        body = await read_body(receive)
        if body is None:
            return
        connection = Connection(send, scope.get("extensions", {}).get(DROP), receive)
        if scope["method"] == "POST":
            await self._post(scope, body, connection)
        else:
            await self._get(scope["path"], connection)

    async def _get(self, path: str, connection: Connection) -> None:
        if path == "/_mock/stats":
            await self._json(connection, 200, self.stats.as_dict())
        elif path in ("/", "/api/hello"):
            await self._json(connection, 200, {})
        else:
            await self._json(connection, *((200, _CATALOGUE[path]) if path in _CATALOGUE else (404, _UNKNOWN_PATH)))

    async def _post(self, scope: Scope, body: bytes, connection: Connection) -> None:
        headers = dict(scope["headers"])
        try:
            fields = msgspec.json.decode(decode(body, headers.get(b"content-encoding", b"")), type=dict)
        except ValueError as error:  # msgspec's errors are ValueErrors too
            problem = {"type": "invalid_request_error", "message": str(error), "code": None, "param": None}
            await self._json(connection, 400, {"type": "error", "error": problem})
            return
        path, query = _AGENT.sub("", scope["path"]), scope["query_string"].decode("latin-1")
        for wire in self._formats:
            ask = wire.ask(path, query, fields)
            if ask is not None:
                await self._generate(wire, ask, connection, headers.get(b"accept-encoding", b""))
                return
        await self._json(connection, 404, _UNKNOWN_PATH)

    async def _generate(self, wire: Format, ask: Ask, connection: Connection, accepted: bytes) -> None:
        now = self._clock()
        self.stats.arrived += 1
        problem = self._refusal(ask, now)
        if problem is not None:
            await self._refuse(wire, ask, problem, connection)
            return
        fate = self._dice.draw(stream=ask.stream)
        if fate.fault in REFUSALS:
            self.stats.faults[fate.fault] += 1
            await self._refuse(wire, ask, self._injected(fate), connection)
            return
        self._limiter.charge(now, ask.input_tokens, ask.max_tokens)
        self.stats.charged += 1
        if fate.fault is not None:
            # Counted now: a reset ends this task along with its connection.
            self.stats.faults[fate.fault] += 1
        self.stats.active += 1
        self.stats.peak_active = max(self.stats.peak_active, self.stats.active)
        try:
            await self._answer(wire, ask, fate, connection, accepted)
        finally:
            self.stats.active -= 1
        if connection.dropped:
            await connection.ended()

    def _refusal(self, ask: Ask, now: float) -> Problem | None:
        config = self.config
        full = 0 < config.limits.concurrency <= self.stats.active
        if full or in_spell(config.faults, now - self._started):
            self.stats.over_capacity += 1
            return Problem(Trouble.OVERLOADED, "Overloaded", self._ident())
        refusal = self._limiter.check(now, ask.input_tokens, ask.max_tokens)
        if refusal is None:
            return None
        self.stats.rate_limited += 1
        message = f"This request would exceed your rate limit of {refusal.kind} per minute. Please try again later."
        return Problem(Trouble.RATE_LIMITED, message, self._ident(), refusal.retry_after_s)

    def _injected(self, fate: Fate) -> Problem:
        if fate.fault is Fault.QUOTA:
            return Problem(Trouble.QUOTA, "You have reached your specified usage limits.", fate.ident)
        if fate.fault is Fault.RATE_LIMITED:
            return Problem(Trouble.RATE_LIMITED, "Number of requests is too high right now.", fate.ident, 1.0)
        return Problem(Trouble.OVERLOADED, "Overloaded", fate.ident)

    async def _refuse(self, wire: Format, ask: Ask, problem: Problem, connection: Connection) -> None:
        status, headers, body = wire.problem(problem)
        await self._json(connection, status, body, headers + self._limit_headers(wire, ask, problem.ident))

    async def _answer(self, wire: Format, ask: Ask, fate: Fate, connection: Connection, accepted: bytes) -> None:
        answer = Answer(self.config, wire, ask, fate, connection, self._sleep)
        if not await answer.run(accepted, self.wall(), lambda: self._limit_headers(wire, ask, fate.ident)):
            self.stats.left += 1
            return
        if fate.fault is None:
            self.stats.answered += 1
            self.stats.input_tokens += ask.input_tokens
            self.stats.output_tokens += answer.produced
        self._limiter.settle(self._clock(), answer.produced)

    def _limit_headers(self, wire: Format, ask: Ask, ident: str) -> Headers:
        wall = self.wall()
        date = (b"date", formatdate(wall, usegmt=True).encode())
        return [date, *wire.headers(ask, ident, self._limiter.readings(self._clock()), wall)]

    def _ident(self) -> str:
        # Refusals draw no fate, so that a storm of 429s doesn't change what becomes of the requests that pass.
        return f"{self.stats.arrived:024d}"

    async def _json(self, connection: Connection, status: int, body: object, headers: Headers | None = None) -> None:
        data = msgspec.json.encode(body)
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data)), *(headers or [])]
        await connection.start(status, head)
        await connection.finish(data)
