"""The end of a proxy that nobody uses any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hivemind.host.start_lock import StartLock
from hivemind.text.humanise import short_duration

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind.settings import Settings

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0


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
        await asyncio.sleep(min(_LOOK_EVERY_S, after_s / 4))
        use, now = _use(proxy), loop.time()
        if use != seen or proxy.processes.agents or proxy.app.answering:
            seen, since = use, now
        elif now - since >= after_s and lock.take():  # a starter that had it was answered before, which is use
            _log.info("nobody used the proxy for %s, so it ends", short_duration(after_s))
            stop.set()


def _use(proxy: Proxy) -> tuple[int, int]:
    return proxy.engine.arrived, proxy.asked
