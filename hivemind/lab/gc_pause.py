"""Python's garbage collector walks everything there is again and again while millions of small things are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Meanwhile nothing is collected: for work that makes few cycles, takes seconds, and ends."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
