"""Garbage collection in small steps, and none while the program starts, so that it doesn't hold the loop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hivemind.gc_pause import gc_paused

_LATEST = (50_000, 10, 10)
"""Thresholds at which Python collects by itself, in the middle of other work, where steps don't suffice."""
_SETTLES_S = 3.0
_STEP_EVERY_S = 0.1
_YOUNG = 1_500
"""New objects before a collection, which takes less than a millisecond for so many."""
_LONG_S = 0.002
"""CPU time of a collection of new objects that only much traffic brings about. To walk those that are still in use once
or twice more, with the older generations, would hold the loop for 10 ms and more."""
_AGED = 3
"""Collections of one generation before one of the next generation."""


class Collector:
    """Collects garbage of this process between other work; made by :func:`quiet`."""

    def __init__(self) -> None:
        self._next: asyncio.TimerHandle | None = None

    def settle(self, after_s: float = _SETTLES_S) -> None:
        """Collect again after a moment, in which background work (prices, the demo) may end, but only objects made from
        then on. Call it on the loop when the program is up, and again when it has grown.

        Older objects, and those that survive a full collection or a long one, are freed by reference counts
        alone: cycles among them stay. There are few, and walking all of Textual takes 50 ms and more.
        """
        self.stop()
        gc.disable()
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(after_s, self._begin, loop)

    def stop(self) -> None:
        """Stop collecting."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        gc.freeze()
        gc.set_threshold(*_LATEST)
        gc.enable()
        self._step(loop)

    def _step(self, loop: asyncio.AbstractEventLoop) -> None:
        """Collect in a callback of its own, so that the pause doesn't lengthen another one's."""
        young, middle, old = gc.get_count()
        if young > _YOUNG:
            generation = 0 if middle < _AGED else 1 if old < _AGED else 2
            began_s = time.thread_time()
            gc.collect(generation)
            if generation == 0 and time.thread_time() - began_s > _LONG_S:
                gc.freeze()
        self._next = loop.call_later(_STEP_EVERY_S, self._step, loop)


@contextmanager
def quiet() -> Iterator[Collector]:
    """Yield a collector that collects nothing before :meth:`Collector.settle`; at the end restore all settings.

    What a start makes stays, and collections would take a tenth of its time.
    """
    collector, thresholds = Collector(), gc.get_threshold()
    gc.callbacks.append(_freeze_survivors)
    with gc_paused():
        try:
            yield collector
        finally:
            collector.stop()
            gc.callbacks.remove(_freeze_survivors)
            gc.set_threshold(*thresholds)
            gc.unfreeze()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
