"""The provider of a fleet, in a process of its own: the mock with sliding windows, which notes every request.

`python -m benchmarks.fleet.upstream JSON` serves a :class:`Provider` until it is killed, and says where on standard
output. `GET /_fleet/log` returns every request so far as an :class:`Arrival`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence

import msgspec
from starlette.types import Message, Receive, Scope, Send

from benchmarks.perf.upstream import READY
from hivemind.host.loop import run_loop
from hivemind.proxy.asgi import read_body
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

_WORD = re.compile(rb"\[echo ([A-Za-z0-9_-]{1,64})\]")


class Provider(msgspec.Struct, frozen=True):
    """A provider that is strict: no span of a minute may hold more than its limits."""

    host: str = "127.0.0.1"
    rpm: int = 0
    itpm: int = 0
    """Input tokens a minute."""
    concurrency: int = 0
    base_s: float = 1.75
    jitter_s: float = 1.25
    stated: bool = True
    """Responses state the limits in their headers."""
    seed: int = 15

    def config(self) -> MockConfig:
        limits = LimitConfig(
            rpm=self.rpm, itpm=self.itpm, window="sliding", concurrency=self.concurrency, stated=self.stated
        )
        return MockConfig(
            seed=self.seed,
            formats=("anthropic",),
            limits=limits,
            latency=LatencyConfig(base_s=self.base_s, jitter_s=self.jitter_s),
            reply=ReplyConfig(tokens=40, spread=20),
        )


class Arrival(msgspec.Struct, array_like=True):
    """One request at the provider."""

    at: float
    """On the machine's monotonic clock, which all processes share."""
    word: str
    """Names the request: its agent's name, `-`, and its number."""
    tokens: int
    """Input tokens, four characters each, as the mock counts them."""
    status: int = 0
    """0: it isn't answered yet, or was left."""


class Upstream:
    """The mock, and what arrived."""

    def __init__(self, provider: Provider) -> None:
        self._mock = MockProvider(provider.config())
        self._log: list[Arrival] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/_fleet/log":
            await _reply(send, msgspec.json.encode(self._log))
            return
        body = await read_body(receive)
        if body is None:
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        found = _WORD.search(body)
        # Nothing is awaited between this and the mock's look at its windows.
        entry = Arrival(time.monotonic(), found[1].decode() if found else "", _tokens(body))
        self._log.append(entry)

        async def again() -> Message:
            return unread.pop() if unread else await receive()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.status = message["status"]
            await send(message)

        await self._mock(scope, again, noted)


def _tokens(body: bytes) -> int:
    try:
        messages: Sequence[dict[str, str]] = msgspec.json.decode(body)["messages"]
        return max(1, sum(len(message["content"]) for message in messages) // 4)
    except (ValueError, KeyError, TypeError):
        return 0


async def _reply(send: Send, data: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(data))]})
    await send({"type": "http.response.body", "body": data})


async def serve(provider: Provider) -> None:
    """Serve until cancelled."""
    async with serving(Upstream(provider), provider.host) as url:
        print(f"{READY}{url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(serve(msgspec.json.decode(sys.argv[1], type=Provider)))
