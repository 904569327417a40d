"""`hivemind-tui` in a pseudo terminal whose reader can be paused, with keys that can be pressed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.perf.servers import UNLIMITED
from benchmarks.perf.target import PerfError, Target

PROGRAM = "import sys; from hivemind_tui.__main__ import main; sys.exit(main())"
_ROWS, _COLUMNS = 45, 160
_ADDRESS = re.compile(rb"(http://127\.0\.0\.1:\d+)/agent/")
_KEPT = 1 << 20
_PATIENCE_S = 120.0  # on a machine that tests keep busy
_REPORT = "monitor.json"


@dataclass(frozen=True, slots=True)
class Held:
    """How long the screen held the loop, as the monitor inside tells it; from its first frame to its end."""

    target: str
    steps: int
    p99_ms: float
    over: int
    """Steps of more than 10 ms."""
    worst_ms: float
    worst: str
    """Whose step that was."""
    worst_cpu_ms: float
    """On a processor: a machine that has other things to do isn't counted in."""
    worst_cpu: str


class Terminal:
    """A pseudo terminal of 160 x 45 cells with a program in it, read as long as nobody pauses it."""

    def __init__(self, master: int, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process = process
        self.output = bytearray()
        """The newest that the program wrote and we have read."""
        self._folder = folder
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
            async with asyncio.timeout(_PATIENCE_S):
                while (found := pattern.search(self.output)) is None:
                    await self.news()
                return found
        except TimeoutError:
            raise PerfError(f"hivemind-tui didn't show {pattern.pattern!r} in {_PATIENCE_S:g} s") from None

    async def news(self) -> None:
        """Wait until there is more to read than when this was last called.

        Raises: PerfError: the program has ended.
        """
        if self._master < 0:
            raise PerfError("hivemind-tui ended before its time")
        await self._news.wait()
        self._news.clear()

    async def ended(self) -> int:
        """The program's exit code, once it has ended.

        Raises: PerfError: it didn't in half a minute.
        """
        try:
            return await asyncio.wait_for(self.process.wait(), _PATIENCE_S)
        except TimeoutError:
            raise PerfError(f"hivemind-tui didn't end in {_PATIENCE_S:g} s") from None

    async def left(self, target: str) -> Held:
        """End the program; what its monitor saw.

        Raises: PerfError: it ended badly, or not at all.
        """
        self.process.terminate()
        if code := await self.ended():
            raise PerfError(f"hivemind-tui ended with {code}")
        return _held(target, (self._folder / _REPORT).read_bytes())

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
async def in_terminal(program: str, flags: Sequence[str]) -> AsyncIterator[Terminal]:
    """A Python program, without the user's settings, in a folder of its own."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (_ROWS, _COLUMNS))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HIVEMIND_", "SSH_"))}
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", program, *flags, "--monitor", _REPORT),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=folder,
                env={**environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_STATE_HOME": folder},
                start_new_session=True,
            )
        finally:
            os.close(slave)
        terminal = Terminal(master, process, Path(folder))
        try:
            yield terminal
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            terminal.close()


@asynccontextmanager
async def hivemind_tui(behind: Target, program: str = PROGRAM) -> AsyncIterator[tuple[Target, Terminal]]:
    """As :func:`.servers.hivemind`, with the control room in the proxy's process. `program` is Python.

    Raises: PerfError.
    """
    async with in_terminal(program, ("--upstream", behind.url, "--port", "0", *UNLIMITED)) as terminal:
        address = (await terminal.until(_ADDRESS))[1]
        pid = terminal.process.pid
        yield Target("screen", address.decode(), "/agent/perf-{}", pid=pid, has_metrics=True), terminal


def _held(target: str, report: bytes) -> Held:
    seen = msgspec.json.decode(report)
    worst, worst_cpu = (seen["worst"] or [None])[0], seen["worst_cpu"]
    return Held(
        target=target,
        steps=seen["steps"],
        p99_ms=seen["p99_s"] * 1e3,
        over=seen["over"],
        worst_ms=worst["wall_s"] * 1e3 if worst else 0.0,
        worst=f"{worst['where']} {worst['doing']}".rstrip() if worst else "",
        worst_cpu_ms=worst_cpu["cpu_s"] * 1e3 if worst_cpu else 0.0,
        worst_cpu=f"{worst_cpu['where']} {worst_cpu['doing']}".rstrip() if worst_cpu else "",
    )
