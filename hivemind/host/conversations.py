"""The newest request of each agent that calls a model: its body is the conversation so far.

On the path of a request only a reference is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import blake2b

from hivemind.text import humanise
from hivemind.wire.call import Call

TOTAL_LIMIT = 256 << 20
"""Bytes of all bodies together; beyond it the bodies of the least recently active agents are dropped."""
AGENTS_LIMIT = 4096
_END = 64 << 10


@dataclass(slots=True)
class Conversation:
    """An agent's newest request."""

    call: Call
    at: float
    """Time of arrival, in seconds since the epoch."""
    size: int
    """Length of the body as it was sent."""
    left_out: str = ""
    """Why its body isn't kept; empty where it is."""

    def fingerprint(self) -> bytes:
        """Return equal bytes for equal conversations. Of a long one only both ends are hashed: it grows at one end."""
        body = self.call.body
        ends = body[:_END], body[-_END:], self.size.to_bytes(8, "big")
        return blake2b(b"".join(ends), digest_size=16).digest()


class Conversations:
    """Newest requests by agent, the least recently active agent first. Bodies longer than `limit` bytes aren't kept."""

    def __init__(self, limit: int, total: int = TOTAL_LIMIT, agents: int = AGENTS_LIMIT) -> None:
        self._limit = limit
        self._total = total
        self._agents = agents
        self._held = 0
        self._newest: OrderedDict[str, Conversation] = OrderedDict()
        self._bodies: OrderedDict[str, int] = OrderedDict()
        """Lengths of the bodies that are kept."""

    def keep(self, call: Call, at: float) -> None:
        """Keep an agent's newest request."""
        agent, size = call.identity.agent, len(call.body)
        self._held -= self._bodies.pop(agent, 0)
        if size > self._limit:
            why = f"it is {humanise.size(size)}, more than checkpoint.max_mb ({self._limit >> 20}) allows"
            self._newest[agent] = Conversation(replace(call, body=b""), at, size, why)
        else:
            self._newest[agent] = Conversation(call, at, size)
            self._bodies[agent] = size
            self._held += size
            while self._held > self._total:
                self._drop_body(next(iter(self._bodies)))
        self._newest.move_to_end(agent)
        if len(self._newest) > self._agents:
            self.forget(next(iter(self._newest)))

    def find(self, agent: str) -> Conversation | None:
        """Return an agent's newest request; None where it sent none, or long ago."""
        return self._newest.get(agent)

    def forget(self, agent: str) -> None:
        """Drop an agent's request."""
        self._newest.pop(agent, None)
        self._held -= self._bodies.pop(agent, 0)

    def _drop_body(self, agent: str) -> None:
        self._held -= self._bodies.pop(agent)
        held = self._newest[agent]
        held.call = replace(held.call, body=b"")
        held.left_out = "others sent so much since that it wasn't held in memory any longer"
