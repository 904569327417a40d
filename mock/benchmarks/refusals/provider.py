"""The mock provider behind refusals: for good, or for a while."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from starlette.types import Message, Receive, Scope, Send

from benchmarks.planned.plan import Plan, Step
from benchmarks.planned.provider import PlannedProvider
from hivemind.providers.dialect import Dialect
from hivemind.providers.paths import dialect_for, is_free
from hivemind.proxy.asgi import read_body
from hivemind_mock.provider.answer import Connection, decode
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.serve import serving

TEXT = (
    "HiveMind: alice's budget is used up (7 of 5 tokens used this run); raise it with `hivemind budget alice AMOUNT`,"
    " or with B in the control room, then ask again"
)
MARK = "budget is used up (7 of 5 tokens used this run)"
"""Of the text, what a client has to show."""
BUSY = "Overloaded, please try again later"
"""The provider's words where it refuses for a while."""
UNTOLD_S = 30
"""How long the provider refuses where it doesn't say how long."""
SILENCE_S = 120
"""How long the first answer takes where the provider is silent."""
When = Literal["at once", "in a session", "in a stream", "for a while", "for a while in a stream", "silent"]
"""Final refusals: of every request; of those with a tool's output, the others being answered with a call of a tool; of
the first one as the event of a stream that had begun. Temporary ones: with a status, or as the event of a stream that
had begun. Silent: not refused, but the first answer takes long."""
_OUTPUTS = (b"tool_result", b"function_call_output", b"functionResponse", b'"role":"tool"', b'"role": "tool"')
"""What a request with a tool's output holds."""


@dataclass(slots=True)
class Refusing:
    """One client's provider, as an ASGI application."""

    status: int
    when: When = "at once"
    retry_after_s: int | None = None
    """How long it refuses, as it says. None: it doesn't say, and refuses for :data:`UNTOLD_S`."""
    kind: str = ""
    """The error's type, in place of the one that goes with the status."""
    url: str = ""
    refused: list[float] = field(default_factory=list)
    """When each request that was refused came, in seconds since the first."""
    answered: int = 0
    """Requests for tokens that were answered."""
    agents: set[str] = field(default_factory=set)
    """The User-Agents that asked."""
    _mock: PlannedProvider = field(init=False)
    _began: float = 0.0

    def __post_init__(self) -> None:
        steps = (Step(run="echo hi"),) if self.when == "in a session" else ()
        self._mock = PlannedProvider(MockConfig(), plan=Plan((*steps, Step(say="Done."))))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request for tokens, or have the mock answer it."""
        headers, connection = dict(scope["headers"]), Connection(scope, receive, send)
        if b"upgrade" in headers:
            await connection.reply(426, [(b"upgrade", b"HTTP/1.1")], b"")  # Codex asks by HTTP then
            return
        sent = await read_body(receive)
        if sent is None:
            return
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        dialect = dialect_for(path)
        if scope["method"] == "POST" and dialect.name != "plain" and not is_free("POST", path.encode(), b""):
            self.agents.add(headers.get(b"user-agent", b"").decode("latin-1"))
            body = decode(sent, headers.get(b"content-encoding", b""))
            stream = dialect.facts(path, query, [], body).stream
            if self.when == "silent":
                first, self._began = not self._began, time.monotonic()
                await asyncio.sleep(SILENCE_S if first else 0)
            elif (refusal := self._refusal(dialect, body, stream=stream)) is not None:
                await connection.reply(*refusal)
                return
            self.answered += 1

        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": sent, "more_body": False}

        await self._mock(scope, again, send)

    def _refusal(
        self, dialect: Dialect, body: bytes, *, stream: bool
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
        """Return status, headers and body of a refusal; None: the request is answered."""
        now = time.monotonic()
        self._began = self._began or now
        if self.when == "in a session" and not any(output in body for output in _OUTPUTS):
            return None
        passed_s = now - self._began
        left_s = (UNTOLD_S if self.retry_after_s is None else self.retry_after_s) - passed_s
        for_a_while = self.when.startswith("for a while")
        if for_a_while and left_s <= 0:
            return None
        self.refused.append(round(passed_s, 1))
        words = BUSY if for_a_while else TEXT
        if stream and self.when.endswith("in a stream") and (for_a_while or len(self.refused) == 1):
            event = dialect.stream_error(self.status, "budget", words)
            return 200, dialect.stream_headers(), self._typed(event)
        retry_s = None if self.retry_after_s is None else max(1, math.ceil(left_s))
        headers = [(b"content-type", b"application/json")]
        if not for_a_while:
            headers.append((b"x-should-retry", b"false"))
        elif retry_s is not None:
            headers.append((b"retry-after", str(retry_s).encode()))
        return self.status, headers, self._typed(dialect.error_body(self.status, "budget", words, retry_s))

    def _typed(self, body: bytes) -> bytes:
        if not self.kind:
            return body
        names = (b"overloaded_error", b"api_error", b"rate_limit_error")
        for name in names:
            body = body.replace(b'"' + name + b'"', b'"' + self.kind.encode() + b'"')
        return body


@asynccontextmanager
async def refusing(provider: Refusing) -> AsyncIterator[Refusing]:
    """Serve such a provider on a free port."""
    async with serving(provider) as provider.url:
        yield provider
