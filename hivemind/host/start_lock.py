"""The lock that a starter holds from the look for a proxy to its first answer, and a proxy that ends when idle from its
decision to its end.

So several starters start one proxy, and none finds one that is about to end. The system frees it, however its holder
ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.store.locks import take_lock
from hivemind.store.token_file import state_dir
from hivemind.text.humanise import short_duration

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind.settings import Settings

_log = logging.getLogger(__name__)
LONGEST_S = 30.0
"""How long a starter waits for others: one of them may be suspended."""
_LOOK_EVERY_S = 0.05
_IDLE_LOOK_EVERY_S = 1.0


class StartLock:
    """The lock of one port. Where no file can be written there is none, and it counts as free."""

    def __init__(self, directory: Path | None, port: int) -> None:
        self._path: Path | None = None
        self._file = -1
        with contextlib.suppress(OSError):
            self._path = state_dir(directory) / f"start-{port}.lock"

    def take(self) -> bool:
        """Take it if it is free."""
        if self._path is None:
            return True
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = take_lock(self._path)
        except BlockingIOError:
            return False
        except OSError:  # nothing can be written there, or the file system has no locks
            return True
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def wait(self, within_s: float = LONGEST_S) -> None:
        """Take it when it is free; go on without it after that time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while not self.take() and loop.time() < until:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(_LOOK_EVERY_S)


@contextlib.contextmanager
def ending_when_idle(proxy: Proxy, settings: Settings, stop: asyncio.Event) -> Iterator[None]:
    """Set the event once the proxy was idle for as long as the settings say.

    From then on until this context is left no starter finds the proxy, because the lock of its port is held.
    """
    lock = StartLock(settings.state_dir, settings.port)
    task = asyncio.create_task(_watch(proxy, settings.idle_exit_s or 0.0, lock, stop), name="end when idle")
    try:
        yield
    finally:
        task.cancel()
        lock.release()


async def _watch(proxy: Proxy, after_s: float, lock: StartLock, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    seen, since = _use(proxy), loop.time()
    while not stop.is_set():
        await asyncio.sleep(min(_IDLE_LOOK_EVERY_S, after_s / 4))
        use, now = _use(proxy), loop.time()
        if use != seen or proxy.processes.agents or proxy.app.answering:
            seen, since = use, now
        elif now - since >= after_s and lock.take():  # a starter that had it was answered before, which is use
            _log.info("nobody used the proxy for %s, so it ends", short_duration(after_s))
            stop.set()


def _use(proxy: Proxy) -> tuple[int, int]:
    return proxy.engine.arrived, proxy.asked
