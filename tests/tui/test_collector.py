"""The garbage collector, out of the way and back."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from hivemind_tui.loop import gc_pacing as collector


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    gc.unfreeze()  # what an earlier test may have left
    before = gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    yield
    assert before == (gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count())


async def enabled() -> None:
    """Until collections are allowed again."""
    async with asyncio.timeout(30.0):
        while not gc.isenabled():  # noqa: ASYNC110 - the collector tells nobody
            await asyncio.sleep(0)


async def test_nothing_is_collected_while_the_program_starts() -> None:
    """Then everything that was made by then is left out, and the rest is collected again."""
    with collector.quiet() as tended:
        assert not gc.isenabled()
        made = [Knot() for _ in range(10)]
        tended.settle(0.0)
        assert not gc.isenabled()
        await enabled()
        assert gc.get_freeze_count() > 10
        gone = weakref.ref(made.pop())
        gc.collect()
        assert gone() is not None
        gc.unfreeze()
        gc.collect()
        assert gone() is None


async def test_rubbish_is_taken_away_a_little_at_a_time() -> None:
    """Without Python's own collections, which come in the midst of something."""
    freed = asyncio.Event()
    loop = asyncio.get_running_loop()
    with collector.quiet() as tended:
        tended.settle(0.0)
        await enabled()
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
        tended.settle(0.0)
        await enabled()
        kept = [Knot() for _ in range(100)]
        gc.collect()
        assert not any(one is kept[0] for one in gc.get_objects())
        assert gc.get_freeze_count() > 100


@pytest.mark.parametrize(("long_s", "left"), [(-1.0, False), (60.0, True)])
async def test_what_outlives_a_long_collection_is_not_walked_again(
    monkeypatch: pytest.MonkeyPatch, long_s: float, left: bool
) -> None:
    """Which much traffic makes; else it is left to the older generations."""
    monkeypatch.setattr(collector, "_LONG_S", long_s)
    with collector.quiet() as tended:
        tended.settle(0.0)
        await enabled()
        gc.disable()
        kept = [Knot() for _ in range(2 * collector._YOUNG)]
        async with asyncio.timeout(30.0):
            while any(one is kept[0] for one in gc.get_objects(generation=0)):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(collector._STEP_EVERY_S)
        assert any(one is kept[0] for one in gc.get_objects()) is left
