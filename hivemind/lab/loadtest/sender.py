"""Requests sent at their time: as recorded, or each agent's once its last one is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from hivemind.lab.loadtest.messages import OutgoingRequest
from hivemind.lab.loadtest.plan import Predecessor, RecordedRequest, RequestResult
from hivemind.scheduler.types import record


@record
class Sent:
    """A request that was sent, and is over. Times are since the first was due."""

    ask: RecordedRequest
    course: RequestResult
    at_s: float
    late_s: float
    """So much later than it should have gone."""
    real: bool
    """As it was recorded, not made up."""


class Sender:
    """One run. `send` sees a message through, `make` gives that of a request; None where there is none to give.

    Times are divided by `speed`. At most `most` requests fly at once; 0: any number. What is made to wait by that, or
    because this program doesn't keep up, is late, and each is told how much.
    """

    def __init__(
        self,
        send: Callable[[OutgoingRequest], Awaitable[RequestResult]],
        make: Callable[[RecordedRequest], OutgoingRequest | None],
        *,
        speed: float = 1.0,
        most: int = 0,
    ) -> None:
        self.sent: list[Sent] = []
        """Those that are over."""
        self.failed = 0
        """Of those the ones that weren't answered."""
        self.flying = 0
        self._send = send
        self._make = make
        self._speed = speed
        self._places: AbstractAsyncContextManager[object] = asyncio.Semaphore(most) if most else nullcontext()
        self._clock = asyncio.get_running_loop().time
        self._began = 0.0
        self._asks: Sequence[RecordedRequest] = ()
        self._followers: dict[int, list[tuple[int, float]]] = {}

    async def run(
        self, asks: Sequence[RecordedRequest], predecessors: Sequence[Predecessor | None] | None = None
    ) -> None:
        """Send all of them. With `causes`, what has one waits for that one to end.

        Cancelled, it gives up what flies, and :attr:`sent` has what was over.
        """
        self._asks, self._followers, roots = asks, {}, []
        for number in range(len(asks)):
            cause = None if predecessors is None else predecessors[number]
            if cause is None:
                roots.append(number)
            else:
                self._followers.setdefault(cause.number, []).append((number, cause.think_s))
        self._began = self._clock()
        first_s = asks[0].at_s if asks else 0.0
        async with asyncio.TaskGroup() as group:
            for number in roots:
                message = self._make(asks[number])  # before it is due, because it may take a moment
                due = self._began + (asks[number].at_s - first_s) / self._speed
                await self._until(due)
                group.create_task(self._see_through(group, number, message, due))

    async def _until(self, due: float) -> None:
        """Others get their turn even where it is past."""
        await asyncio.sleep(max(0.0, due - self._clock()))

    async def _later(self, group: asyncio.TaskGroup, number: int, due: float) -> None:
        message = self._make(self._asks[number])
        await self._until(due)
        await self._see_through(group, number, message, due)

    async def _see_through(
        self, group: asyncio.TaskGroup, number: int, message: OutgoingRequest | None, due: float
    ) -> None:
        if message is not None:
            async with self._places:
                at = self._clock()
                self.flying += 1
                try:
                    course = await self._send(message)
                finally:
                    self.flying -= 1
            self.failed += bool(course.error)
            self.sent.append(Sent(self._asks[number], course, at - self._began, max(0.0, at - due), message.real))
        now = self._clock()
        for follower, think_s in self._followers.pop(number, ()):
            group.create_task(self._later(group, follower, now + think_s / self._speed))
