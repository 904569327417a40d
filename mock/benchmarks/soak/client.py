"""Agents on raw connections: each sends one request after the other, reads what comes, and sometimes goes away."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

from benchmarks.soak.messages import Message, Outcome, Reply, judged, message

HANGS_S = 150.0
"""A request without an answer for so long is lost."""
_REPORTED = 50
"""Broken promises that are told in full."""
_TOLD = (b"content-type", b"content-encoding")


class Connection(asyncio.Protocol):
    """One connection; httptools calls the `on_…` methods."""

    def __init__(self, still_open: set[Connection]) -> None:
        self._open = still_open
        """All connections that are open."""
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[None] | None = None
        self.reply = Reply()
        self.usable = False
        """Another request may be sent."""
        self.unasked = b""
        """What came while no answer was awaited."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.usable = True
        self._open.add(self)

    async def ask(self, data: bytes) -> Reply:
        """Send a request, and return what came of it."""
        self.reply = Reply()
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        await self._waiting
        return self.reply

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self.unasked += data
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.unasked += data
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._open.discard(self)
        self._end()

    def on_message_begin(self) -> None:
        if self.reply.complete:
            self.unasked += b"(a second answer)"

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in _TOLD:
            self.reply.headers += value.lower() + b";"

    def on_headers_complete(self) -> None:
        self.reply.status = self._parser.get_status_code()
        self.usable = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.reply.body += body

    def on_message_complete(self) -> None:
        self.reply.complete = True
        self._end()

    def _end(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


@dataclass(slots=True)
class Pace:
    """Which request is next, and when it is due."""

    rate: float = 0.0
    """A second; 0: as fast as it goes."""
    requests: int = 0
    """In all; 0: until it is stopped."""
    issued: int = 0
    stopped: bool = False
    _begun: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        """Issue no more."""
        self.stopped = True

    async def next(self) -> int | None:
        """Return the number of the next request once it is due; None: there is none."""
        if self.stopped or (self.requests and self.issued >= self.requests):
            return None
        number, self.issued = self.issued, self.issued + 1
        if self.rate:
            late_s = time.monotonic() - self._begun - number / self.rate
            if late_s < 0:
                await asyncio.sleep(-late_s)
        return number


class Agents:
    """Many agents, and the book of what came of their requests."""

    def __init__(self, address: tuple[str, int], pace: Pace, *, seed: int, agents: int, visitors: int) -> None:
        self.names = [f"soak-{number}" for number in range(agents)]
        self.outcomes = bytearray()
        """An :class:`Outcome` for each request, by its number."""
        self.statuses: Counter[int] = Counter()
        self.broken: list[str] = []
        self.broken_count = 0
        self.torn: list[int] = []
        """Requests that were never sent to their end."""
        self.is_excused: Callable[[str], bool] = lambda name: False
        """Whether the answers of an agent may just be ended by its operator."""
        self.excused: set[int] = set()
        self._address = address
        self._authority = f"{address[0]}:{address[1]}"
        self._pace = pace
        self._seed = seed
        self._visitors = visitors
        self._open: set[Connection] = set()

    async def work(self) -> None:
        """Send requests until there are no more."""
        async with asyncio.TaskGroup() as group:
            for index, name in enumerate(self.names):
                group.create_task(self._work(name, random.Random(f"{self._seed} {index}")))
        for connection in list(self._open):
            connection.transport.abort()
        while self._open:  # noqa: ASYNC110 - they end in the next turns of the loop
            await asyncio.sleep(0.01)

    async def _work(self, name: str, rng: random.Random) -> None:
        connection: Connection | None = None
        while (number := await self._pace.next()) is not None:
            agent = name if rng.random() > 0.1 else f"visitor-{number % self._visitors}"
            sent = message(number, agent, rng, self._authority)
            excused = self.is_excused(agent)
            if connection is None or not connection.usable:
                connection = await self._connected(connection)
            self._note(number, Outcome.NONE)
            outcome, wrong = await self._ask(connection, sent, rng)
            if outcome is Outcome.LEFT:
                connection = None
            elif connection.unasked:
                outcome, wrong = Outcome.BROKEN, f"more than an answer: {connection.unasked[:200]!r}"
                connection.usable = False
            self._note(number, outcome)
            if wrong:
                self.blame(f"number {number} ({sent.form}{', stream' if sent.stream else ''}): {wrong}")
            if excused or self.is_excused(agent):
                self.excused.add(number)

    async def _connected(self, before: Connection | None) -> Connection:
        if before is not None:
            before.transport.close()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self._open), *self._address)
        return connection

    async def _ask(self, connection: Connection, sent: Message, rng: random.Random) -> tuple[Outcome, str]:
        chance = rng.random()
        if chance < 0.005:
            connection.transport.write(sent.data[: rng.randrange(1, len(sent.data))])
            self.torn.append(sent.number)
            await asyncio.sleep(rng.random() * 0.05)
            connection.transport.abort()
            return Outcome.LEFT, ""
        stays_s = rng.random() * 0.2 if chance < 0.05 else HANGS_S
        try:
            async with asyncio.timeout(stays_s):
                reply = await connection.ask(sent.data)
        except TimeoutError:
            (connection.transport.abort if rng.random() < 0.7 else connection.transport.close)()
            return (Outcome.LEFT, "") if stays_s < HANGS_S else (Outcome.BROKEN, f"no answer within {HANGS_S:g} s")
        self.statuses[reply.status] += 1
        return judged(sent, reply)

    def _note(self, number: int, outcome: Outcome) -> None:
        if len(self.outcomes) <= number:
            self.outcomes += bytes(number + 4096 - len(self.outcomes))
        self.outcomes[number] = outcome

    def blame(self, text: str) -> None:
        """Note a broken promise."""
        self.broken_count += 1
        if len(self.broken) < _REPORTED:
            self.broken.append(text)
