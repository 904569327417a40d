"""A thread that writes, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundWriter(ABC, Generic[T]):
    """Writes items in order. One that can't be written stays first, and is tried again every `retry_s` seconds.

    Subclasses define :meth:`write`, and bound what waits: by :meth:`merge`, or by putting nothing more once
    :attr:`waiting` is large. They call :meth:`start` once they are ready to write.
    """

    def __init__(self, name: str, retry_s: float) -> None:
        self.waiting = 0  # the sizes of all items that wait, as `size` has them
        self.error: Exception | None = None  # why the last write failed; None: it didn't
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._items: deque[T] = deque()
        self._writing = False  # the first item is being written, so that nothing can be merged with it
        self._waiters: list[asyncio.Future[None]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    # --- For subclasses -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Prepare for writing. Called in the thread."""

    @abstractmethod
    def write(self, item: T) -> tuple[T | None, Exception | None]:
        """Write the item. Return what is left of it, and why. Called in the thread."""

    def finish(self) -> None:
        """Clean up after the last write. Called in the thread."""

    def size(self, item: T) -> int:
        """Return the item's size, which must not change."""
        return 1

    def merge(self, last: T, item: T) -> T | None:
        """Return an item that stands for the last one that waits and the one that is put; None: keep both."""
        return None

    def can_retry_at_once(self, first: T) -> bool:
        """Return whether writing may succeed now although it has just failed. Called with the lock held."""
        return False

    # --- From one other thread, which never waits for the disk ----------------------------------------------------

    def put(self, item: T) -> None:
        """Have the item written after all that waits."""
        with self._changed:
            self._append(item)
            self._changed.notify()

    def take_waiting(self) -> list[T]:
        """Remove all that waits, and return it."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self.waiting = 0
        return items

    async def settled(self) -> None:
        """Wait until everything that was put so far is written, or a write has failed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._waiters.append(waiter)
            self._changed.notify()
        await waiter

    def join(self, timeout_s: float) -> bool:
        """Write what is left, and end. Blocks so long at most. Return whether everything is written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return self.error is None and not self._thread.is_alive()

    # --- In the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self.begin()
        while (item := self._next()) is not None:
            rest, error = self.write(item)
            with self._changed:
                self.error, self._writing = error, False
                if self._items and self._items[0] is item:  # else it was taken away meanwhile
                    self._replace_first(rest)
                if error is not None:
                    self._answer()
                    if self._closing:
                        break
                    self._changed.wait_for(self._may_retry, self._retry_s)
        self.finish()

    def _next(self) -> T | None:
        """Return the first item, which stays where it is; None: there will be none."""
        with self._changed:
            while not self._items:
                self._answer()
                if self._closing:
                    return None
                self._changed.wait()
            self._writing = True
            return self._items[0]

    def _append(self, item: T) -> None:
        if len(self._items) > self._writing and (merged := self.merge(self._items[-1], item)) is not None:
            self.waiting -= self.size(self._items.pop())
            item = merged
        self._items.append(item)
        self.waiting += self.size(item)

    def _replace_first(self, rest: T | None) -> None:
        self.waiting -= self.size(self._items.popleft())
        if rest is None:
            return
        if len(self._items) == 1 and (merged := self.merge(rest, self._items[0])) is not None:
            self.waiting -= self.size(self._items.pop())
            rest = merged
        self._items.appendleft(rest)
        self.waiting += self.size(rest)

    def _may_retry(self) -> bool:
        if self._closing or self._waiters:
            return True
        return bool(self._items) and self.can_retry_at_once(self._items[0])

    def _answer(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
