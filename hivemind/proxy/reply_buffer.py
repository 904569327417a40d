"""The part of a reply that is held back, so that another attempt can still replace it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hivemind.providers.encoding import Decoder
from hivemind.proxy.response_writer import ResponseWriter
from hivemind.proxy.step_runner import StepRunner
from hivemind.upstream.base import Truncated


class ReplyBuffer:
    """Holds bytes until they are released, by the caller or by itself after `release_s`.

    `begin` sends the head to the client and returns the decoder of the body, where it needs one.
    """

    __slots__ = ("_begin", "_held", "_steps", "_task", "_timer", "_writer", "size")

    def __init__(
        self,
        begin: Callable[[], Awaitable[Decoder | None]],
        writer: ResponseWriter,
        release_s: float,
        steps: StepRunner,
    ) -> None:
        self._begin = begin
        self._writer = writer
        self._steps = steps
        self._held: list[bytes] = []
        self.size = 0
        self._task: asyncio.Task[Decoder | None] | None = None
        self._timer = asyncio.get_running_loop().call_later(release_s, self._expired)

    @property
    def released(self) -> bool:
        """Whether the client has, or is about to have, the head of this reply."""
        return self._task is not None

    def hold(self, data: bytes) -> None:
        """Keep the next bytes."""
        self._held.append(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Return what is held and wasn't sent, and hold it no longer."""
        held = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        return held

    async def release(self) -> Decoder | None:
        """Send the head, unless that is done. Return the decoder of the body."""
        if self._task is not None:
            return await self._task
        self._timer.cancel()  # or a long stream would begin a second time
        return await self._begin()

    def cancel(self) -> None:
        """Release nothing by itself any more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _expired(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._send(), name="release a long prelude")

    async def _send(self) -> Decoder | None:
        decoder = await self._begin()
        while self._held:
            await write(self._writer, decoder, self.take(), self._steps)
        return decoder


async def write(writer: ResponseWriter, decoder: Decoder | None, data: bytes, steps: StepRunner) -> None:
    """Send the bytes, decoded where the client's head promised no encoding; without a decoder they go unchanged.

    Raises: Truncated: they can't be decoded, so the response can't continue.
    """
    if decoder is None:
        await writer.write(data)
        return
    first = True
    for piece in decoder.steps(data):
        if not first:
            await steps.yield_to_others()
        first = False
        if piece:
            await writer.write(piece)
    if decoder.failed:
        raise Truncated(f"the stream can't be decoded: {decoder.failed}")
