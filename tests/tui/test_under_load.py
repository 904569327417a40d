"""The real program in a real terminal, with streams through its proxy: whatever becomes of the screen, they go on."""

from __future__ import annotations

import asyncio
import re
import signal

import httpx
import pytest

from benchmarks.perf import servers
from benchmarks.perf.streams import Streamed, read_streams
from benchmarks.perf.target import Target
from benchmarks.perf.terminal import hivemind_tui
from benchmarks.perf.wire import Pace

STREAMS = 30
PACE = Pace(events=60, every_s=0.05)
REPAINT = b"\x0c"
"""A key that has everything drawn again, so that a terminal that reads nothing is full in three seconds too."""
GAP_MS = 1000.0
"""Far more than anything we would do, and less than a loop that waits for a terminal."""

SPOILED = f"""
import sys
from hivemind_tui.app import ControlRoom
from hivemind_tui.__main__ import main

def spoiled(self, tick=ControlRoom._tick, crashes=[]):
    if len(self.source.snapshot().slots) == {STREAMS} and len(crashes) < 2:
        crashes.append(1)
        raise ZeroDivisionError("a bug in the screen")
    tick(self)

ControlRoom._tick = spoiled
sys.exit(main())
"""
"""The program with a bug that ends the screen, twice, once every stream is in flight."""

FULL = """
import os, sys
from hivemind_tui.__main__ import main
from hivemind_tui.program.supervisor import Supervisor

async def drain(self, proxy, timeout_s, of=Supervisor.drain):
    await of(self, proxy, timeout_s)
    os.set_blocking(1, False)
    try:
        while os.write(1, b"."):
            pass
    except BlockingIOError:
        os.set_blocking(1, True)

Supervisor.drain = drain
sys.exit(main())
"""
"""The program, whose terminal takes the screen's last bytes and not one more."""

pytestmark = pytest.mark.e2e


def whole(seen: Streamed) -> bool:
    """Everything came, in order, and no stream stood still."""
    return (seen.events, seen.lost, seen.reordered) == (STREAMS * PACE.events, 0, 0) and seen.worst_ms < GAP_MS


async def in_flight(target: Target, count: int) -> None:
    """Until so many requests are in flight."""
    seen = 0
    async with httpx.AsyncClient() as client, asyncio.timeout(30):
        while seen < count:
            seen = len((await client.get(f"{target.url}/_stats")).json()["slots"])


async def test_streams_go_on_while_the_terminal_reads_nothing() -> None:
    """Through seconds of a paused reader every event of every stream comes in its time; then all is painted anew."""
    async with servers.upstream() as upstream, hivemind_tui(upstream) as (target, terminal):
        terminal.pause()
        reading = asyncio.create_task(read_streams(target, STREAMS, PACE, skip=0))
        await in_flight(target, STREAMS)
        while not reading.done():
            terminal.type(REPAINT)
            await asyncio.sleep(0.05)
        assert whole(await reading)
        terminal.output.clear()
        terminal.resume()
        await terminal.until(re.compile(rb"the terminal didn't read for"))
        await terminal.until(re.compile(rb"HiveMind"))
        terminal.process.terminate()
        assert await terminal.ended() == 0
        await terminal.until(re.compile(rb"\x1b\[\?1049l"))


async def test_a_signal_while_the_terminal_reads_nothing_lets_the_streams_finish() -> None:
    """The program drains, exits with 0, and leaves behind what restores the terminal, should it ever read again."""
    async with servers.upstream() as upstream, hivemind_tui(upstream) as (target, terminal):
        terminal.pause()
        reading = asyncio.create_task(read_streams(target, STREAMS, PACE, skip=0))
        await in_flight(target, STREAMS)
        terminal.process.terminate()
        assert whole(await reading)
        assert await terminal.ended() == 0
        terminal.resume()
        await terminal.until(re.compile(rb"\x1b\[\?1049l"))


async def test_a_terminal_that_takes_the_screens_last_bytes_and_no_more_is_not_waited_for() -> None:
    """Not even for the summary that is printed at the end."""
    async with servers.upstream() as upstream, hivemind_tui(upstream, FULL) as (_, terminal):
        terminal.pause()
        terminal.process.terminate()
        assert await terminal.ended() == 0
        terminal.resume()
        await terminal.until(re.compile(rb"\x1b\[\?1049l"))


async def test_a_screen_that_crashes_under_load_gives_way_to_lines_and_every_stream_completes() -> None:
    """It is drawn again, crashes again, and plain lines take over, with the terminal given back; no event is lost."""
    async with servers.upstream() as upstream, hivemind_tui(upstream, SPOILED) as (target, terminal):
        assert whole(await read_streams(target, STREAMS, PACE, skip=0))
        await terminal.until(re.compile(rb"the screen failed; the proxy goes on, in plain lines"))
        shown = bytes(terminal.output)
        assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 2
        terminal.process.terminate()
        assert await terminal.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
async def test_signals_restore_the_terminal(number: signal.Signals) -> None:
    """Each leaves the terminal's alternate screen first, and the exit code is 0."""
    async with servers.upstream() as upstream, hivemind_tui(upstream) as (_, terminal):
        terminal.process.send_signal(number)
        assert await terminal.ended() == 0
        await terminal.until(re.compile(rb"\x1b\[\?1049l"))


async def test_a_terminal_that_is_gone_ends_the_program() -> None:
    """Without a signal too: whoever started it in that terminal needn't pass it on."""
    async with servers.upstream() as upstream, hivemind_tui(upstream) as (_, terminal):
        terminal.close()
        assert await terminal.ended() == 0  # nobody is left whom a failed summary could be told
