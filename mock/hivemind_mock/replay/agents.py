"""The agents of a recording: each request is sent as long after the step that it followed as it was recorded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Literal

import httpx
import msgspec

from hivemind.lab.fit.clients import ClientState
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.steps import RequestStep, TraceStep
from hivemind.scheduler.ticket import FINAL_STATUS
from hivemind.wire.identity import PRIORITY_HEADER
from hivemind_mock.agents.agent import read_answer
from hivemind_mock.replay.provider import NUMBER_HEADER

_PATH = "/v1/messages"
_TIMEOUTS = {"connect": 10.0, "read": 900.0, "write": 10.0, "pool": None}
_LONGEST_ANSWER = 32_000
Ended = Literal["answered", "failed", "refused", "left"]


class RecordedAgents:
    """All agents of a recording on one transport. Its commands aren't repeated."""

    def __init__(self, recording: Recording, seed: int, transport: httpx.AsyncBaseTransport, base_url: str) -> None:
        self._trace = recording.trace
        self._transport, self._url = transport, base_url
        self._clients = ClientState(recording.clients, random.Random(f"clients {seed}").getrandbits(62), True)
        self._awaits: dict[TraceStep, int] = {}
        self._dead: set[tuple[int, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes = {key: f"mock-key-{number}" for number, key in enumerate(recording.lanes)}
        self._idle = asyncio.Event()

    async def run(self) -> None:
        """Send every request, and return when all are over."""
        for delay_s, step in self._trace.start:
            self._follow(delay_s, step)
        if self._tasks:
            await self._idle.wait()

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._idle.set()
        task.result()  # an error in here is a bug

    def _follow(self, delay_s: float, step: TraceStep) -> None:
        """Begin a step after a delay, once everything that it follows from is over."""
        if step.awaits > 1:
            left = self._awaits[step] = self._awaits.get(step, step.awaits) - 1
            if left:
                return
        self._begin(self._step(delay_s, step))

    async def _step(self, delay_s: float, step: TraceStep) -> None:
        await asyncio.sleep(max(0.0, delay_s))
        if not isinstance(step, RequestStep):
            for after_s, following in step.after:
                self._follow(after_s, following)
            return
        if (step.proxy, step.arrived.agent) in self._dead:
            self._skip(step)
            return
        for after_s, following in step.concurrent:
            self._follow(after_s, following)
        self._over(step, await self._asked(step))

    def _over(self, request: RequestStep, how: Ended) -> None:
        agent = request.arrived.agent
        if how != "answered" and request.end == "answered" and not self._clients.survives(agent, left=how == "left"):
            self._dead.add((request.proxy, agent))
        for delay_s, step in request.after:
            if isinstance(step, RequestStep) and step.repeats is request and how == "answered":
                self._skip(step)
            else:
                self._follow(self._clients.thinks_s(request, delay_s), step)

    def _skip(self, request: RequestStep) -> None:
        """Leave out a request whose client has its answer or whose agent is dead, but not what followed from it."""
        for delay_s, step in (*request.concurrent, *request.after):
            if isinstance(step, RequestStep) and step.repeats is request:
                self._skip(step)
            else:
                self._follow(delay_s, step)

    async def _asked(self, request: RequestStep) -> Ended:
        """Send a request as often as its client does, and return how it ended."""
        tries = 0
        while True:
            how, asked_s, again = await self._sent(request)
            if how == "answered" or request.end != "answered" or not again:
                return how
            tries += 1
            number = request.repeated + tries
            delay_s = self._clients.retry_in_s(
                request, number, left=how == "left", asked_s=asked_s if how == "failed" else None
            )
            if delay_s is None:
                return how
            await asyncio.sleep(delay_s)

    async def _sent(self, request: RequestStep) -> tuple[Ended, float | None, bool]:
        """Return how it ended, what Retry-After asked for, and whether sending it again may help."""
        patience_s = self._clients.timeout_s(request.arrived.agent)
        if patience_s is None and request.end == "left":
            patience_s = request.ended_at - request.at
        try:
            async with asyncio.timeout(patience_s):
                status, after_s = await self._reply(request)
        except TimeoutError:
            return "left", None, True
        except httpx.TransportError:
            return "failed", None, True
        return ("answered" if status == 200 else "failed"), after_s, status != FINAL_STATUS

    async def _reply(self, request: RequestStep) -> tuple[int, float | None]:
        """Return status and Retry-After. Raises: httpx.TransportError."""
        arrived, body = request.arrived, _body(request)
        headers = [
            ("content-type", "application/json"),
            ("anthropic-version", "2023-06-01"),
            ("x-api-key", self._lanes[arrived.lane]),
            ("content-length", str(len(body))),
            (NUMBER_HEADER, str(request.number)),
        ]
        if arrived.asked is not None:
            headers.append((PRIORITY_HEADER.decode(), arrived.asked.name.lower()))
        url = f"{self._url}/agent/{arrived.agent}{_PATH}"
        sent = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": _TIMEOUTS})
        response = await self._transport.handle_async_request(sent)
        try:
            received = b"".join([chunk async for chunk in response.aiter_bytes()])
        finally:
            await response.aclose()
        after = response.headers.get("retry-after")
        if response.status_code != 200:
            return response.status_code, None if after is None else float(after)
        _, wrong = read_answer(_PATH, body, response.headers["content-type"], received)
        return (0 if wrong else 200), None


def _body(request: RequestStep) -> bytes:
    """Return a request of the recorded size."""
    arrived = request.arrived
    chars = arrived.size_chars or 4 * arrived.estimated_input
    fields = {
        "model": arrived.model or "mock",
        "max_tokens": arrived.max_output_tokens or _LONGEST_ANSWER,
        "stream": arrived.stream,
        "messages": [{"role": "user", "content": "x" * max(1, chars)}],
    }
    return msgspec.json.encode(fields)
