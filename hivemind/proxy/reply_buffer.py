"""The part of a reply that is held back because it can still be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hivemind.providers.encoding import Decoder
from hivemind.proxy.response_writer import Audience
from hivemind.proxy.step_runner import Turns
from hivemind.upstream.base import Truncated


class Prelude:
    """Holds bytes until somebody lets them go, or by itself after `release_s` (None: never).

    `begin` sends the head to the client and says how to decode what follows it.
    """

    __slots__ = ("_audience", "_begin", "_held", "_task", "_timer", "_turns", "size")

    def __init__(
        self, begin: Callable[[], Awaitable[Decoder | None]], audience: Audience, release_s: float | None, turns: Turns
    ) -> None:
        self._begin = begin
        self._audience = audience
        self._turns = turns
        self._held: list[bytes] = []
        self.size = 0
        self._task: asyncio.Task[Decoder | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if release_s is not None:
            self._timer = asyncio.get_running_loop().call_later(release_s, self._release)

    @property
    def released(self) -> bool:
        """The client has, or is about to have, the head of this reply."""
        return self._task is not None

    def hold(self, data: bytes) -> None:
        """Keep the next bytes."""
        self._held.append(data)
        self.size += len(data)

    def rest(self) -> bytes:
        """What is held and wasn't sent."""
        held = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        return held

    async def let_go(self) -> Decoder | None:
        """Send the head, if that isn't done yet. Returns how to decode the body."""
        if self._task is not None:
            return await self._task
        if self._timer is not None:
            self._timer.cancel()  # or a long stream would begin a second time
        return await self._begin()

    def drop(self) -> None:
        """Nothing is let go by itself any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _release(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._send(), name="let a long prelude go")

    async def _send(self) -> Decoder | None:
        decoder = await self._begin()
        while self._held:
            await write(self._audience, decoder, self.rest(), self._turns)
        return decoder


async def write(audience: Audience, decoder: Decoder | None, data: bytes, turns: Turns) -> None:
    """Send the bytes without the encoding that a head of ours didn't promise; None: they go as they are.

    Raises: Truncated: they can't be decoded, so there is no way to go on.
    """
    if decoder is None:
        await audience.write(data)
        return
    first = True
    for piece in decoder.steps(data):
        if not first:
            await turns.give_way()
        first = False
        if piece:
            await audience.write(piece)
    if decoder.failed:
        raise Truncated(f"the stream can't be decoded: {decoder.failed}")
