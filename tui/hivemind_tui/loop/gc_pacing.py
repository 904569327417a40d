"""The garbage collector, kept from holding the loop: nothing while the program starts, then a little at a time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LATEST = (50_000, 10, 10)
"""When Python collects by itself, in the middle of whatever makes objects; only where that is more than we can tend."""
_GROWS_S = 3.0
_TEND_EVERY_S = 0.1
_YOUNG = 1_500
"""New objects worth a collection; walking so many takes less than a millisecond."""
_AGED = 3
"""Collections of one generation before one of the next."""


class Collector:
    """The collector of this process while a program is at work in it; made by :func:`quiet`."""

    def __init__(self) -> None:
        self._next: asyncio.TimerHandle | None = None

    def settle(self, after_s: float = _GROWS_S) -> None:
        """The program is up, or has grown: in a moment collect again, but only among what is made from then on. Until
        then what was begun in the background (prices, the demo) may come in. Call it on the loop; also more than once.

        What there is by then is freed by its reference counts alone, and so is what outlives a full collection: rubbish
        that only a cycle keeps alive stays. There is little of that, and walking all of Textual takes 50 ms and more.
        """
        self.stop()
        gc.disable()
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(after_s, self._begin, loop)

    @property
    def begun(self) -> bool:
        """Whether it collects, or will in a moment."""
        return self._next is not None

    def unfreeze(self) -> None:
        """Have the next full collection walk everything, once: what a screen left behind is full of cycles."""
        gc.unfreeze()

    def stop(self) -> None:
        """Stop collecting."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        gc.freeze()
        gc.set_threshold(*_LATEST)
        gc.enable()
        self._tend(loop)

    def _tend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Collect between other things rather than in the midst of one, so that two pauses don't add up."""
        young, middle, old = gc.get_count()
        if young > _YOUNG:
            gc.collect(0 if middle < _AGED else 1 if old < _AGED else 2)
        self._next = loop.call_later(_TEND_EVERY_S, self._tend, loop)


@contextmanager
def quiet() -> Iterator[Collector]:
    """Nothing is collected before :meth:`Collector.settle`: what a start makes stays, and looking for rubbish in it
    again and again takes a tenth of the time. At the end everything is as it was."""
    collector, thresholds, enabled = Collector(), gc.get_threshold(), gc.isenabled()
    gc.disable()
    gc.callbacks.append(_freeze_survivors)
    try:
        yield collector
    finally:
        collector.stop()
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if enabled:
            gc.enable()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
