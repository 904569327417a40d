"""The mock provider: a raw ASGI application that answers as a rate-limited, faulty provider does.

A request is checked in this order: a spell of overload, the concurrency limit, the rate windows, an injected refusal.
A request refused there is not charged. One that passes is charged to the windows, whatever becomes of it, and holds its
place in the concurrency limit until its answer ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Protocol

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from hivemind.providers.known import providers
from hivemind.providers.profiles import PROFILES
from hivemind.providers.table import Meaning, Refusal
from hivemind.proxy.asgi import read_body
from hivemind.records import replace
from hivemind_mock.provider.answer import Answer, Connection, decode
from hivemind_mock.provider.cache import Found, Prompt, PromptCaches
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.faults import REFUSALS, Dice, Fate, Fault, in_spell
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.formats.base import ApiError, Body, ErrorKind, Format, Headers, MockReply, Request, ToolCall
from hivemind_mock.provider.limits import RateLimiter
from hivemind_mock.provider.structured import structured

_CATALOGUE: dict[str, object] = {
    "/": {},
    "/api/hello": {},
    "/v1/models": {"object": "list", "data": [{"id": "mock-1", "type": "model", "object": "model", "created": 0}]},
    "/v1beta/models": {"models": [{"name": "models/mock-1", "displayName": "mock-1"}]},
    "/api/tags": {"models": [{"name": "mock-1", "model": "mock-1"}]},
    "/api/version": {"version": "0.1.0"},  # HiveMind tells an Ollama by it, whose tokens cost nothing
}
AGENT = re.compile(r"^/agent/([^/]+)")
"""HiveMind's way to name an agent in the base URL, so that the same agent can be pointed at the mock itself."""
_KEYS = (b"x-api-key", b"authorization", b"x-goog-api-key", b"api-key")
_ECHO = re.compile(rb"\[echo ([A-Za-z0-9_-]{1,64})\]")
"""A prompt with this gets its word, and the piece's number, in front of each piece of the answer. It travels in the
prompt, which every gateway passes on as it is, so that an answer can be told from every other."""
_KINDS = {
    Meaning.USED_UP: ErrorKind.QUOTA,
    Meaning.FORBIDDEN: ErrorKind.QUOTA,
    Meaning.THROTTLED: ErrorKind.RATE_LIMITED,
    Meaning.FULL: ErrorKind.OVERLOADED,
}
_UNKNOWN_PATH = {"error": {"type": "not_found_error", "message": "no such path", "code": None, "param": None}}


class Stats(Struct):
    """Counters of one provider since its start; `GET /_mock/stats` shows them."""

    arrived: int = 0
    """Requests for tokens, whatever became of them."""
    charged: int = 0
    """Requests that took a place in the rate window."""
    answered: int = 0
    """Answers given to the end."""
    left: int = 0
    """Requests whose client went away first."""
    rate_limited: int = 0
    """Refused with 429 because a window was used up."""
    over_capacity: int = 0
    """Refused as overloaded because of the concurrency limit or a spell."""
    faults: Counter[Fault] = msgspec.field(default_factory=lambda: Counter(dict.fromkeys(Fault, 0)))
    """Injected faults."""
    active: int = 0
    peak_active: int = 0
    input_tokens: int = 0
    """Of answered requests."""
    output_tokens: int = 0


class Asked(Struct, frozen=True):
    """A request for tokens, read."""

    wire: Format
    request: Request
    path: str
    headers: dict[bytes, bytes]
    echo: str
    planned: ToolCall | str
    found: Found
    """What the cache has of its prompt."""

    @property
    def counted(self) -> int:
        """Its input tokens, as far as they count toward a limit."""
        counts = PROFILES[self.wire.profile].count_cache_reads
        return self.request.input_tokens - (0 if counts else self.found.read)


class Observer(Protocol):
    """Told what becomes of requests that want an echo, by its word."""

    def arrived(self, echo: str) -> None:
        """A request has arrived."""

    def answered(self, echo: str) -> None:
        """Its answer was given to the end."""


class MockProvider:
    """One provider. `clock` and `wall` are read and `sleep` is awaited as given, so it runs in virtual time too."""

    def __init__(
        self,
        config: MockConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        observer: Observer | None = None,
    ) -> None:
        self.config = config
        self.stats = Stats()
        self.clock = clock
        self.wall = wall
        self._sleep = sleep
        self.observer = observer
        self.caches = PromptCaches()
        self._limiter = RateLimiter(config.limits)
        self._dice = Dice(config)
        slots = config.latency.slots
        self._slots = asyncio.Semaphore(slots) if slots else contextlib.nullcontext()
        self._formats = [FORMATS[name] for name in config.formats]
        self._recorded = recorded(config.words)
        self.started = clock()
        self._hangs_at = self.started + (config.latency.hang_first_s or config.latency.hang_every_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the mock provider speaks http, not {scope['type']}")
        body, path = await read_body(receive), scope["path"]
        if body is None:
            return
        connection = Connection(scope, receive, send)
        if scope["method"] == "POST":
            await self._post(scope, body, connection)
        elif path == "/_mock/stats":
            await connection.reply_json(200, self.stats)
        elif path in _CATALOGUE and (path != "/api/version" or self.config.formats == ("ollama",)):
            await connection.reply_json(200, _CATALOGUE[path])
        else:
            await connection.reply_json(404, _UNKNOWN_PATH)

    async def _post(self, scope: Scope, body: bytes, connection: Connection) -> None:
        headers = dict(scope["headers"])
        try:
            body = decode(body, headers.get(b"content-encoding", b""))
            fields = msgspec.json.decode(body, type=dict)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors too
            problem = {"type": "invalid_request_error", "message": str(error), "code": None, "param": None}
            await connection.reply_json(400, {"type": "error", "error": problem})
            return
        path, query = AGENT.sub("", scope["path"]), scope["query_string"].decode("latin-1")
        for wire in self._formats:
            request = wire.parse(path, query, fields)
            if request is not None:
                found = _ECHO.search(body)
                echo = found[1].decode() if found else ""
                prompt = wire.prompt(fields) if self.config.reply.cache else Prompt()
                cached = self.cached(scope["path"], headers, fields, (key_of(headers), request.model), prompt)
                planned = self.planned(wire, fields)
                asked = Asked(wire, request, scope["path"], headers, echo, planned, cached)
                self.ended(asked, await self._generate(asked, connection))
                return
        await connection.reply_json(404, _UNKNOWN_PATH)

    def cached(
        self, path: str, headers: Mapping[bytes, bytes], body: Body, where: tuple[str, str], prompt: Prompt
    ) -> Found:
        """Return what the cache has of a prompt; subclasses look at more of the request."""
        return self.caches.look(self.clock(), where, prompt)

    def planned(self, wire: Format, body: Body) -> ToolCall | str:
        """Return what to answer; empty: a text of usual length."""
        return structured(body)

    def ended(self, asked: Asked, reply: MockReply | None) -> None:
        """Take note of a request that has ended, and of its answer if it was given to the end; for subclasses."""

    async def _generate(self, asked: Asked, connection: Connection) -> MockReply | None:
        """Answer, and return the answer if it was given to the end."""
        now, stats, wire, request, echo = self.clock(), self.stats, asked.wire, asked.request, asked.echo
        stats.arrived += 1
        if echo and self.observer is not None:
            self.observer.arrived(echo)
        error = self._refusal(asked, now)
        if error is not None:
            await self._refuse(wire, request, error, connection)
            return None
        fate = self._dice.draw(stream=request.stream)
        latency = self.config.latency
        if latency.hang_every_s and now >= self._hangs_at:
            self._hangs_at += latency.hang_every_s
            fate = replace(fate, fault=None, first_s=latency.hang_s)
        if fate.fault is not None:
            # Counted now: a reset ends this task along with its connection.
            stats.faults[fate.fault] += 1
        if fate.fault in REFUSALS:
            await self._refuse(wire, request, _injected(fate), connection)
            return None
        self._limiter.charge(now, asked.counted, request.max_tokens)
        stats.charged += 1
        stats.active += 1
        stats.peak_active = max(stats.peak_active, stats.active)
        try:
            async with self._slots:
                reply = await self._answer(asked, fate, connection)
        finally:
            stats.active -= 1
        if connection.dropped:
            await connection.ended()
        return reply

    def _refusal(self, asked: Asked, now: float) -> ApiError | None:
        config = self.config
        # A refusal draws no fate, so that a storm of 429s doesn't change what becomes of the requests that pass.
        ident = f"{self.stats.arrived:024d}"
        full = 0 < config.limits.concurrency <= self.stats.active
        if full or in_spell(config.faults, now - self.started):
            self.stats.over_capacity += 1
            return ApiError(ErrorKind.OVERLOADED, "Overloaded", ident)
        refusal = self._limiter.check(now, asked.counted, asked.request.max_tokens)
        if refusal is None:
            return None
        self.stats.rate_limited += 1
        message = f"This request would exceed your {self._limiter.in_words(refusal[0])}. Please try again later."
        return ApiError(ErrorKind.RATE_LIMITED, message, ident, refusal[1])

    async def _refuse(self, wire: Format, request: Request, error: ApiError, connection: Connection) -> None:
        status, headers, body = wire.error(error)
        said: object = body
        if (row := self._recorded.get(error.kind)) is not None:
            status, said = row.status, msgspec.Raw(row.example.encode())
            headers = [(name.encode(), value.encode()) for name, value in row.headers]
        await connection.reply_json(status, said, headers + self._headers(wire, request, error.ident))

    async def _answer(self, asked: Asked, fate: Fate, connection: Connection) -> MockReply | None:
        wire, request, echo = asked.wire, asked.request, asked.echo

        def headers() -> Headers:
            return self._headers(wire, request, fate.ident)

        def begins() -> None:
            if self.config.reply.cache:
                self.caches.keep(self.clock(), asked.found)

        found = asked.found if self.config.reply.cache else None
        answer = Answer(
            *(self.config, wire, request, fate, connection, self._sleep, headers, begins, echo, asked.planned, found)
        )
        if not await answer.run(asked.headers.get(b"accept-encoding", b""), self.wall()):
            self.stats.left += 1
            return None
        if fate.fault is None:
            self.stats.answered += 1
            self.stats.input_tokens += request.input_tokens
            self.stats.output_tokens += answer.produced
            if echo and self.observer is not None:
                self.observer.answered(echo)
        self._limiter.settle(self.clock(), answer.produced)
        return answer.reply if fate.fault is None else None

    def _headers(self, wire: Format, request: Request, ident: str) -> Headers:
        wall = self.wall()
        date = (b"date", formatdate(wall, usegmt=True).encode())
        return [date, *wire.headers(request, ident, self._limiter.readings(self.clock()), wall)]


def key_of(headers: Mapping[bytes, bytes]) -> str:
    """Return a short hash of the credential of a request; empty: it has none."""
    credential = next((headers[name] for name in _KEYS if name in headers), b"")
    return hashlib.sha256(credential).hexdigest()[:8] if credential else ""


def recorded(name: str) -> dict[ErrorKind, Refusal]:
    """Return the first recorded refusal of each kind by the provider of this name, if one is known by it."""
    rows = [row for provider in providers() if provider.name == name for row in provider.refusals]
    return {_KINDS[row.meaning]: row for row in reversed(rows) if row.meaning in _KINDS}


def _injected(fate: Fate) -> ApiError:
    if fate.fault is Fault.QUOTA:
        return ApiError(ErrorKind.QUOTA, "You have reached your specified usage limits.", fate.ident)
    if fate.fault is Fault.RATE_LIMITED:
        return ApiError(ErrorKind.RATE_LIMITED, "Number of requests is too high right now.", fate.ident, 1.0)
    return ApiError(ErrorKind.OVERLOADED, "Overloaded", fate.ident)
