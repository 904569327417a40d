"""The garbage collector, out of the way and back."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from hivemind_tui import collector


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    yield
    assert before == (gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count())


async def test_nothing_is_collected_while_the_program_starts() -> None:
    """Then everything that was made by then is left out, and the rest is collected again."""
    with collector.quiet() as tended:
        assert not gc.isenabled()
        made = [Knot() for _ in range(10)]
        tended.settle()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10
        gone = weakref.ref(made.pop())
        gc.collect()
        assert gone() is not None
        tended.loosen()
        gc.collect()
        assert gone() is None


async def test_rubbish_is_taken_away_a_little_at_a_time() -> None:
    """Without Python's own collections, which come in the midst of something."""
    freed = asyncio.Event()
    loop = asyncio.get_running_loop()
    with collector.quiet() as tended:
        tended.settle()
        gc.disable()
        knots = [Knot() for _ in range(3 * collector._YOUNG)]
        last = weakref.ref(knots[-1], lambda _: loop.call_soon(freed.set))
        del knots
        async with asyncio.timeout(30.0):
            await freed.wait()
        assert last() is None


async def test_what_outlives_a_full_collection_is_not_walked_again() -> None:
    """It is frozen: full collections only ever see what is new."""
    with collector.quiet() as tended:
        tended.settle()
        kept = [Knot() for _ in range(100)]
        gc.collect()
        frozen = gc.get_freeze_count()
        assert not any(one is kept[0] for one in gc.get_objects())
        assert frozen > 100


async def test_settling_twice_tends_once() -> None:
    """A program that grows after its start settles again."""
    with collector.quiet() as tended:
        tended.settle()
        timer = tended._tending
        tended.settle()
        assert tended._tending is timer
    assert timer is not None
    assert timer.cancelled()
