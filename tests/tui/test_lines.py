"""Plain lines: each event once, never waiting for whoever reads them."""

from __future__ import annotations

import asyncio
import io
import logging
import threading

import pytest
from tui.worlds import FakeSource, world

from hivemind.console import Console
from hivemind.records import replace
from hivemind.world.snapshot import LaneView, Line, Snapshot
from hivemind.world.verdict import judged
from hivemind_tui.program import headless
from hivemind_tui.program.headless import follow, new_lines, text_of


def line(n: int, text: str = "x") -> Line:
    return Line(at=float(n), wall=1_700_000_000.0 + n, level="info", tag="t", who="w", text=f"{text}{n}")


def test_only_new_lines() -> None:
    """Lines come once, also when the last one seen has fallen out of the snapshot."""
    lines = tuple(line(n) for n in range(5))
    assert new_lines(lines, None) == lines
    assert new_lines(lines, lines[2]) == lines[3:]
    assert new_lines(lines, lines[4]) == ()
    assert new_lines(lines[3:], lines[1]) == lines[3:]


def test_a_line_is_one_line() -> None:
    """Line feeds and escapes in an event don't reach the terminal."""
    told = text_of(replace(line(1), who="a\nb", text="c\x1b[2J"))
    assert told.endswith("c·[2J")
    assert told.isprintable()


async def test_a_changed_verdict_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once when it changes, not at each countdown."""
    monkeypatch.setattr(headless, "_LOOK_EVERY_S", 0.001)
    source = FakeSource(judged(world()))
    stream, stop = io.StringIO(), asyncio.Event()
    console = Console(stream)
    running = asyncio.create_task(follow(source, console, stop))
    for reopens_in_s in (9.0, 8.0):
        source.become(_shut(reopens_in_s))
        await asyncio.sleep(0.05)
    stop.set()
    await running
    console.close(5.0)
    told = [each for each in stream.getvalue().splitlines() if "BLOCKED" in each]
    assert len(told) == 1
    assert "BLOCKED circuit open, probe in 9 s" in told[0]


def _shut(reopens_in_s: float) -> Snapshot:
    """Its circuit is open."""
    full = world()
    state = replace(full.lanes[0].state, active=0, circuit="open", circuit_reopens_in_s=reopens_in_s)
    return judged(replace(full, slots=(), lanes=(LaneView(state, ()),)))


def test_console_holds_back_while_a_screen_is_up() -> None:
    """What is logged under a screen is written after it, the newest 200 lines at most."""
    stream = io.StringIO()
    console = Console(stream)
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(console))
    console.hold()
    for n in range(300):
        logger.warning("line %d", n)
    console.release()
    console.line("after")
    assert console.close(5.0)
    lines = stream.getvalue().splitlines()
    assert lines == [*(f"line {n}" for n in range(100, 300)), "after"]


class Stuck(io.StringIO):
    """A stream that takes nothing until it is let go, as a stopped terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def write(self, text: str) -> int:
        self.let_go.wait()
        return super().write(text)


def test_console_says_what_was_lost() -> None:
    """Dropped lines are counted, and the count is written with the next line that gets through."""
    stream = Stuck()
    console = Console(stream)
    for n in range(1500):
        console.line(str(n))
    stream.let_go.set()
    while console._queue.qsize() > 900:
        threading.Event().wait(0.001)
    console.line("again")
    assert console.close(10.0)
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "again"
    assert "lines were not read in time" in lines[-2]


def test_a_reader_that_left_is_no_error() -> None:
    """Where the other end is gone, lines go nowhere."""

    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    console = Console(Broken())
    console.line("x")
    assert console.close(10.0)
