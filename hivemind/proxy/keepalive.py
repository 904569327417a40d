"""Keeping a streaming client company while its request waits, so that it doesn't give up.

After a while in the queue its response is begun with a 200, and from time to time gets a few bytes that its SDK
ignores. From then on a failure can only be told as the provider's error event, which is why it isn't done at once.
"""

from __future__ import annotations

import asyncio

from hivemind.proxy.response_writer import Audience


class Company:
    """A timer, then a task that begins the response and beats. Nothing else may write until :meth:`leave` returned."""

    __slots__ = ("_audience", "_beat", "_every_s", "_headers", "_task", "_timer")

    def __init__(
        self,
        audience: Audience,
        headers: list[tuple[bytes, bytes]],
        beat: bytes,
        *,
        after_s: float,
        every_s: float,
    ) -> None:
        self._audience = audience
        self._headers = headers
        self._beat = beat
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(after_s, self._begin)

    @property
    def begun(self) -> bool:
        """The response is begun, or about to be."""
        return self._task is not None

    async def leave(self) -> None:
        """Stop; the caller writes from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not awaited itself: its end by cancellation would pass for ours, and ours for its.
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()

    def drop(self) -> None:
        """Stop without waiting; nobody will write."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="keep a waiting client company")

    async def _keep(self) -> None:
        await self._audience.start(200, self._headers)
        while True:
            await self._audience.write(self._beat)
            await asyncio.sleep(self._every_s)
