"""The garbage collector, kept from walking what will stay anyway while every agent waits for it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_THRESHOLDS = (2_000, 5, 5)
"""Small, so that a pause is too: walking 2,000 objects takes a millisecond."""

Settle = Callable[[], None]


@contextmanager
def quiet() -> Iterator[Settle]:
    """Nothing is collected before the given function is called, once the program is up: what a start makes stays, and
    looking for rubbish in it again and again takes a tenth of the time. At the end everything is as it was.

    From that call on only what is made later is looked at. The rest is freed by its reference counts alone, and so is
    what outlives a full collection: rubbish that only a cycle keeps alive stays. There is little of that, and walking
    all of Textual takes 50 ms and more.
    """
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    gc.disable()
    gc.callbacks.append(_freeze_survivors)
    try:
        yield _settle
    finally:
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if enabled:
            gc.enable()


def loosen() -> None:
    """Have the next full collection walk everything, once: what a screen left behind is full of cycles."""
    gc.unfreeze()


def _settle() -> None:
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
