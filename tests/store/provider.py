"""A provider that counts, and agents that ask it without end: what was really used, and what was really answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator

import httpx
from proxy.wire import event
from starlette.types import Receive, Scope, Send

from hivemind.proxy.asgi import read_body
from hivemind_mock.provider.serve import serving

INPUT = 50
"""Tokens of every request."""
EVENTS = 12
"""Of a stream, with a token each (of four letters, as tokens are guessed by the proxy)."""
OUTPUT = 7
"""Tokens of an answer that isn't a stream."""


class Provider:
    """Counts a token when it is sent, so nobody can know of one before."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        """By agent, which it knows by the model that the request names."""
        self.event_s = 0.005
        """Between two events of a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is None:
            return
        ask = json.loads(body)
        answering = asyncio.ensure_future((self._stream if ask["stream"] else self._whole)(ask["model"], send))
        # The proxy may be killed at any time, and what nobody reads isn't used.
        leaving = asyncio.ensure_future(_left(receive))
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, leaving):
            task.cancel()
        for done in await asyncio.gather(answering, leaving, return_exceptions=True):
            if isinstance(done, Exception):
                raise done

    async def _whole(self, agent: str, send: Send) -> None:
        await asyncio.sleep(self.event_s)
        usage = {"input_tokens": INPUT, "output_tokens": OUTPUT}
        body = json.dumps({"type": "message", "content": [{"type": "text", "text": "x" * 28}], "usage": usage}).encode()
        self.used[agent] += INPUT + OUTPUT
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, agent: str, send: Send) -> None:
        usage = {"input_tokens": INPUT, "output_tokens": 0}
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        self.used[agent] += INPUT
        await self._tell(send, event("message_start", message={"id": "m", "usage": usage}))
        await self._tell(send, event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
        for _ in range(EVENTS):
            await asyncio.sleep(self.event_s)
            self.used[agent] += 1
            delta = {"type": "text_delta", "text": "word"}
            await self._tell(send, event("content_block_delta", index=0, delta=delta))
        end = event("content_block_stop", index=0) + event(
            "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": EVENTS}
        )
        await self._tell(send, end + event("message_stop"))
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@contextlib.asynccontextmanager
async def providing() -> AsyncIterator[tuple[Provider, str]]:
    """One on a socket, and its URL."""
    provider = Provider()
    async with serving(provider) as url:
        yield provider, url


class Fleet:
    """Agents that ask one request after the other, every second one a stream."""

    def __init__(self, url: str, names: tuple[str, ...]) -> None:
        self.answered: Counter[str] = Counter()
        """Tokens of answers that have come to their end, by agent."""
        self.answers = 0
        self._url = url
        self._names = names
        self._changed = asyncio.Event()

    async def until(self, answers: int) -> None:
        """Wait until there were so many answers in all."""
        while self.answers < answers:
            self._changed.clear()
            await self._changed.wait()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """For as long as the context lasts; the proxy may die meanwhile."""
        tasks = [asyncio.create_task(self._work(name), name=name) for name in self._names]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(each is None or isinstance(each, asyncio.CancelledError) for each in done), done

    async def _work(self, name: str) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            stream = False
            while True:
                stream = not stream
                body = {
                    "model": name,
                    "stream": stream,
                    "max_tokens": 100,
                    "messages": [{"role": "user", "content": ""}],
                }
                try:
                    answer = await http.post(f"{self._url}/agent/{name}/v1/messages", json=body)
                except httpx.HTTPError:
                    return  # the proxy is gone
                if answer.status_code == 200:
                    self.answered[name] += INPUT + (EVENTS if stream else OUTPUT)
                    self.answers += 1
                    self._changed.set()
                else:
                    await asyncio.sleep(0.01)
