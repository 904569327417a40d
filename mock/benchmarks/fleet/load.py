"""Agents in closed loops, so many at each proxy as its demand says: each sends its next request after an answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from benchmarks.fleet.programs import TOKEN, Proxy
from benchmarks.soak.client import Connection
from benchmarks.soak.messages import Reply

KEY = "sk-one-key-of-the-fleet"
HANGS_S = 300.0
"""A request without an answer for so long is lost."""
_AGAIN_S = 0.25
"""Between two attempts to reach a proxy that is gone."""
_PADDING = "say it in other words and leave nothing out " * 4


class Asked(msgspec.Struct, array_like=True):
    """One request, as its agent saw it. Times are the machine's monotonic clock."""

    word: str
    sent: float
    done: float
    status: int
    """0: no whole answer came."""
    excused: bool = False
    """Its proxy had been killed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Agents of one kind at one proxy."""

    proxy: Proxy
    count: int
    priority: str = ""
    think_s: float = 0.0
    """Between an answer and the next request."""
    padding: str = _PADDING


@dataclass(slots=True)
class Load:
    """All agents, and what they saw."""

    asked: list[Asked] = field(default_factory=list)
    answered: int = 0
    dead: int = 0
    """Agents that got no answer; each is followed by a new one."""
    begun: float = 0.0
    _active: list[int] = field(default_factory=list)
    _groups: list[Group] = field(default_factory=list)
    _stopped: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _killed_at: dict[str, float] = field(default_factory=dict)
    _open: set[Connection] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def at_work(self, groups: Sequence[Group]):  # type: ignore[no-untyped-def]
        """Agents send from now on; at the end they wait for the answers to what they sent."""
        self._groups, self._active = list(groups), [group.count for group in groups]
        self.begun = time.monotonic()
        tasks = [
            asyncio.create_task(self._work(index, group, number))
            for index, group in enumerate(groups)
            for number in range(group.count)
        ]
        try:
            yield
            self._stopped = True
            self._changed.set()
            await asyncio.wait(tasks, timeout=HANGS_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for connection in list(self._open):
                connection.transport.abort()

    def shift(self, active: Sequence[int]) -> None:
        """Let so many agents of each group send from now on."""
        self._active = list(active)
        self._changed.set()
        self._changed = asyncio.Event()

    def excuse(self, proxy: Proxy) -> None:
        """A proxy is about to be killed: what it has in flight is its own loss."""
        self._killed_at[proxy.name] = time.monotonic()

    async def _work(self, index: int, group: Group, number: int) -> None:
        connection: Connection | None = None
        turn, lives = 0, 0
        while not self._stopped:
            if number >= self._active[index]:
                await self._changed.wait()
                continue
            connection = await self._connected(group.proxy, connection)
            if connection is None:
                await asyncio.sleep(_AGAIN_S)
                continue
            turn += 1
            agent = f"{group.proxy.name}-{group.priority or 'normal'}{index}-{number}-{lives}"
            asked = await self._ask(connection, group, agent, turn)
            self.asked.append(asked)
            if asked.status == 200:
                self.answered += 1
            elif not asked.excused:
                self.dead += 1
                lives += 1
            if group.think_s:
                await asyncio.sleep(group.think_s)

    async def _connected(self, proxy: Proxy, before: Connection | None) -> Connection | None:
        if before is not None and before.usable:
            return before
        if before is not None:
            before.transport.close()
        with contextlib.suppress(OSError):
            make: Callable[[], Connection] = partial(Connection, self._open)
            _, connection = await asyncio.get_running_loop().create_connection(make, *proxy.address)
            return connection
        return None

    async def _ask(self, connection: Connection, group: Group, agent: str, turn: int) -> Asked:
        word = f"{agent}-{turn}"
        data = _message(group, agent, word)
        sent = time.monotonic()
        reply = Reply()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANGS_S):
                reply = await connection.ask(data)
        if reply.status == 0 or not reply.complete:
            connection.transport.abort()
            connection.usable = False
        whole = reply.complete and (reply.status != 200 or word.encode() in reply.body)
        done = time.monotonic()
        excused = sent <= self._killed_at.get(group.proxy.name, -1.0) + 1.0 and not whole
        return Asked(word, sent, done, reply.status if whole else 0, excused)


def _message(group: Group, agent: str, word: str) -> bytes:
    content = f"[echo {word}] {group.padding}"
    body = msgspec.json.encode(
        {"model": "claude-fleet", "max_tokens": 64, "messages": [{"role": "user", "content": content}]}
    )
    priority = f"x-hivemind-priority: {group.priority}\r\n" if group.priority else ""
    host, port = group.proxy.address
    head = (
        f"POST /agent/{agent}/v1/messages HTTP/1.1\r\nhost: {host}:{port}\r\n"
        f"x-api-key: {KEY}\r\nx-hivemind-token: {TOKEN}\r\n{priority}"
        "anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
