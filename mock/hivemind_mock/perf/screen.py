"""The control room under measurement: streams through `hivemind-tui`, in a terminal whose reader can be paused.

The screen shares its event loop with the traffic, so what it draws, and a terminal that takes none of it, must not be
felt by any stream.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .clients import PATIENCE_S
from .streams import Streamed, read_streams
from .target import PerfError, Target
from .wire import Pace

_PROGRAM = "import sys; from hivemind_tui.main import main; sys.exit(main())"
_UNLIMITED = ("--max-concurrency", "0", "--rpm", "0", "--tpm", "0")
_ROWS, _COLUMNS = 45, 160
_ADDRESS = re.compile(rb"(http://127\.0\.0\.1:\d+)/agent/")
_KEPT = 1 << 20


class Terminal:
    """A pseudo terminal of 160 x 45 cells with a program in it, read as long as nobody pauses it."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = bytearray()
        """The newest that the program wrote and we have read."""
        self._master = master
        self._news = asyncio.Event()
        self.resume()

    def pause(self) -> None:
        """Read nothing more."""
        asyncio.get_running_loop().remove_reader(self._master)

    def resume(self) -> None:
        """Read again."""
        asyncio.get_running_loop().add_reader(self._master, self._read)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    async def until(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Wait until the program has written something that matches.

        Raises: PerfError: it ended before, or didn't in half a minute.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (found := pattern.search(self.output)) is None:
                    self._news.clear()
                    if self._master < 0:
                        raise PerfError("hivemind-tui ended before its time")
                    await self._news.wait()
                return found
        except TimeoutError:
            raise PerfError(f"hivemind-tui didn't show {pattern.pattern!r} in {PATIENCE_S:g} s") from None

    async def ended(self) -> int:
        """The program's exit code, once it has ended.

        Raises: PerfError: it didn't in half a minute.
        """
        try:
            return await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        except TimeoutError:
            raise PerfError(f"hivemind-tui didn't end in {PATIENCE_S:g} s") from None

    def close(self) -> None:
        """Take the terminal away."""
        if self._master >= 0:
            self.pause()
            os.close(self._master)
            self._master = -1
            self._news.set()

    def _read(self) -> None:
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # Linux's way to say that nobody has the other side open any more
            data = b""
        if not data:
            self.close()
            return
        self.output += data
        del self.output[:-_KEPT]
        self._news.set()


@asynccontextmanager
async def hivemind_tui(behind: Target, program: str = _PROGRAM) -> AsyncIterator[tuple[Target, Terminal]]:
    """The proxy with its control room, and no limits of its own; each client is an agent. `program` is Python.

    Raises: PerfError.
    """
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (_ROWS, _COLUMNS))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HIVEMIND_", "SSH_"))}
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program, "--upstream", behind.url, "--port", "0", *_UNLIMITED),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=folder,
                env={**environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
                start_new_session=True,
            )
        finally:
            os.close(slave)
        terminal = Terminal(master, process)
        try:
            address = (await terminal.until(_ADDRESS))[1]
            yield Target("screen", address.decode(), "/agent/perf-{}"), terminal
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            terminal.close()


@dataclass(frozen=True, slots=True)
class ScreenSizes:
    """How much goes through the proxy while the control room is up."""

    streams: int
    pace: Pace
    skip: int
    """Events at the start of each stream that don't count, while other streams are still being opened."""


async def measure_screen(behind: Target, proxied: Target, sizes: ScreenSizes) -> list[Streamed]:
    """The same streams through the proxy alone (`no screen`), with a control room whose terminal reads (`screen`), and
    with one whose terminal takes nothing from the first event to the last (`unread`).

    Raises: PerfError.
    """
    alone = Target("no screen", proxied.url, proxied.prefix)
    found = [await read_streams(alone, sizes.streams, sizes.pace, skip=sizes.skip)]
    async with hivemind_tui(behind) as (screen, terminal):
        found.append(await read_streams(screen, sizes.streams, sizes.pace, skip=sizes.skip))
        terminal.pause()
        unread = Target("unread", screen.url, screen.prefix)
        found.append(await read_streams(unread, sizes.streams, sizes.pace, skip=sizes.skip))
        terminal.resume()
        terminal.process.terminate()
        if code := await terminal.ended():
            raise PerfError(f"hivemind-tui ended with {code}")
    return found
