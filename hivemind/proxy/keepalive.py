"""Signs of life for a streaming client whose request waits, so that it doesn't give up.

After a while in the queue its response is begun with a 200, and from time to time gets a few bytes that its SDK
ignores. From then on a failure can only be sent as the provider's error event, which is why it isn't done at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hivemind.proxy.response_writer import ResponseWriter


@dataclass(frozen=True, slots=True)
class KeepaliveTiming:
    """When a waiting stream is begun, and how often it gets a sign of life."""

    after_s: float
    every_s: float


class KeepaliveSender:
    """A timer, then a task that begins the response and sends `ping` again and again.

    Nothing else may write to the response until :meth:`stop` has returned.
    """

    __slots__ = ("_every_s", "_headers", "_ping", "_task", "_timer", "_writer")

    def __init__(
        self,
        writer: ResponseWriter,
        headers: list[tuple[bytes, bytes]],
        ping: bytes,
        *,
        after_s: float,
        every_s: float,
    ) -> None:
        self._writer = writer
        self._headers = headers
        self._ping = ping
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after_s, self._start)

    @property
    def started(self) -> bool:
        """Whether the response is begun, or about to be."""
        return self._task is not None

    async def stop(self) -> None:
        """Stop, so that the caller may write."""
        self._timer.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not awaited itself: its cancellation would be taken for the caller's, and the caller's for its.
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()

    def cancel(self) -> None:
        """Stop without waiting, because nothing more is written."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="keep a waiting client alive")

    async def _run(self) -> None:
        await self._writer.start(200, self._headers)
        while True:
            await self._writer.write(self._ping)
            await asyncio.sleep(self._every_s)
