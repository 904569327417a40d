"""A terminal that stops reading: the loop goes on, the screen comes back, and a signal still ends the program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.drivers.linux_driver import LinuxDriver

from hivemind_tui.loop import lossy_driver as driver

SCRIPT = Path(__file__).parent / "stalled_screen.py"
PATIENCE_S = 30.0
"""For a machine under load; nothing waits so long where all is well."""


class Terminal:
    """A pseudo terminal with a control room in it, read only while :attr:`reading` is set."""

    def __init__(self, master: int, reports: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.output = b""
        self.reading = threading.Event()
        self.reading.set()
        self._master: int | None = master
        self._reports = reports
        self._pending = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while (master := self._master) is not None:
            self.reading.wait()
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            self.output = (self.output + data)[-200_000:]

    def type(self, text: str) -> None:
        assert self._master is not None
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Close the terminal, which is nobody's controlling one, so that the system sends no signal."""
        master, self._master = self._master, None
        if master is not None:
            os.close(master)

    def wait_for(self, word: str, times: int = 1) -> str:
        """Read reports until one begins with the word, so many times; the rest of that line."""
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if not newline:
                ready, _, _ = select.select([self._reports], [], [], PATIENCE_S)
                assert ready, f"no report of {word!r}: the event loop stands still"
                data = os.read(self._reports, 4096)
                assert data, f"the program ended before it reported {word!r}"
                self._pending += data
                continue
            self._pending = rest
            if line.decode().startswith(word):
                times -= 1
                if times == 0:
                    return line.decode().removeprefix(word).strip()


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A control room in a terminal of 160 x 45."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (45, 160))
    reports, report_end = os.pipe()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(report_end)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        pass_fds=[report_end],
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    os.close(report_end)
    screen = Terminal(master, reports, process)
    try:
        yield screen
    finally:
        process.kill()
        process.wait()
        screen.hang_up()
        os.close(reports)


@pytest.mark.e2e
def test_a_terminal_that_stops_reading_delays_nothing() -> None:
    """While the reader is paused the loop turns and frames are dropped; when it reads again all is painted anew."""
    with terminal() as screen:
        screen.wait_for("ready")
        screen.reading.clear()
        screen.wait_for("dropping", times=10)
        screen.output = b""
        screen.reading.set()
        screen.wait_for("back")
        screen.process.send_signal(signal.SIGTERM)
        assert float(screen.wait_for("lag")) < 1000
        screen.wait_for("end")
        assert screen.process.wait(PATIENCE_S) == 0
        assert b"HiveMind" in screen.output
        assert b"\x1b[?1049l" in screen.output, "the terminal wasn't given back"


@pytest.mark.e2e
def test_a_signal_ends_the_program_though_the_terminal_never_reads_again() -> None:
    """SIGTERM during the stall drains and exits with 0, and doesn't wait for the terminal."""
    with terminal() as screen:
        screen.wait_for("ready")
        screen.reading.clear()
        screen.wait_for("dropping", times=3)
        screen.process.send_signal(signal.SIGTERM)
        assert screen.wait_for("drained") == "7"
        assert float(screen.wait_for("lag")) < 1000
        assert screen.process.wait(PATIENCE_S) == 0


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_restore_the_terminal(number: signal.Signals) -> None:
    """Each signal that ends the program leaves the terminal's alternate screen first and exits with 0."""
    with terminal() as screen:
        screen.wait_for("ready")
        screen.process.send_signal(number)
        screen.wait_for("drained")
        assert screen.process.wait(PATIENCE_S) == 0
        screen.wait_for("end")
        assert b"\x1b[?1049l" in screen.output


@pytest.mark.e2e
def test_a_terminal_that_is_gone_ends_the_program() -> None:
    """Without a signal too: whoever started it in that terminal needn't pass it on."""
    with terminal() as screen:
        screen.wait_for("ready")
        screen.hang_up()
        screen.wait_for("drained")
        assert screen.process.wait(PATIENCE_S) == 0


class Writer(threading.Thread):
    """A writer with room for two frames, which ends when it is told to."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._queue: queue.Queue[str | None] = queue.Queue(2)
        self.ends = threading.Event()

    def run(self) -> None:
        self.ends.wait(PATIENCE_S)


class Ordinary:
    """What Textual's driver has, without a terminal."""

    def __init__(self, app: object) -> None:
        self._app = app
        self._file: object = sys.__stderr__
        self._key_thread: threading.Thread | None = threading.Thread(target=lambda: None)
        self._key_thread.start()
        self._writer_thread: Writer | None = Writer()
        self.fileno = -1
        self.left: list[str] = []

    def disable_input(self) -> None:
        self.left.append("input")

    def stop_application_mode(self) -> None:
        self.left.append("screen")


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the methods of Textual's driver that need one."""
    for name in ("__init__", "disable_input", "stop_application_mode"):
        monkeypatch.setattr(LinuxDriver, name, getattr(Ordinary, name))


class Lossy(driver.LossyDriver):
    """The driver under test, without a terminal."""

    _app: App  # type: ignore[assignment]
    _writer_thread: Writer  # type: ignore[assignment]
    left: list[str]


class App:
    """Notes the messages that it gets."""

    def __init__(self) -> None:
        self.got: list[driver.TerminalBack] = []
        self._driver = Lossy(self)

    def post_message(self, message: driver.TerminalBack) -> None:
        self.got.append(message)


async def test_frames_are_dropped_until_the_terminal_has_read_all() -> None:
    """Those that fit are queued; once the queue is empty, the app is told and frames are written again."""
    app = App()
    lossy = app._driver
    written = lossy._writer_thread._queue
    for number in range(5):
        lossy.write(str(number))
    assert (written.qsize(), lossy.dropped) == (2, 3)
    await asyncio.sleep(0)
    lossy._look()
    assert app.got == []
    assert [written.get_nowait(), written.get_nowait()] == ["0", "1"]
    lossy._look()
    lossy.write("5")
    assert written.get_nowait() == "5"


async def test_leaving_a_stalled_screen_makes_room_for_what_restores_the_terminal() -> None:
    """Queued frames are thrown away, later writes aren't; nothing is written once there is no writer."""
    lossy = App()._driver
    written = lossy._writer_thread._queue
    for number in range(3):
        lossy.write(str(number))
    lossy.disable_input()
    lossy.exit_event.set()
    lossy.exit_event.clear()
    assert lossy.exit_event.is_set()
    lossy.stop_application_mode()
    assert lossy.left == ["input", "screen"]
    lossy.write("restore")
    lossy.close()
    assert [written.get_nowait(), written.get_nowait()] == ["restore", None]
    lossy._writer_thread = None  # type: ignore[assignment]
    lossy.write("nothing")
    lossy.close()


async def test_an_app_is_closed_once_its_threads_have_ended() -> None:
    """A terminal that is stuck is told apart, also after what it didn't read was thrown away."""
    app = App()
    lossy = app._driver
    lossy.disable_input()
    lossy._writer_thread.start()
    assert not await driver.closed(app, 0.0)  # type: ignore[arg-type]
    assert not await driver.freed(app, 0.0)  # type: ignore[arg-type]
    lossy._writer_thread.ends.set()
    assert await driver.closed(app, PATIENCE_S)  # type: ignore[arg-type]
    assert await driver.freed(app, PATIENCE_S)  # type: ignore[arg-type]
    lossy._writer_thread = None  # type: ignore[assignment]
    assert await driver.freed(app, 0.0)  # type: ignore[arg-type]


async def test_what_restores_a_stuck_terminal_is_written_again_where_a_flush_discarded_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The writer gets through between a look at it and the flush, so that its last bytes are lost with the frames."""
    app = App()
    lossy = app._driver
    lossy._writer_thread.start()
    lossy.stop_application_mode()
    lossy.write("leave")
    master, slave = os.openpty()
    flush = termios.tcflush

    def late(fileno: int, which: int) -> None:
        if lossy._writer_thread.is_alive():
            os.write(slave, b"frame" * 2000 + b"leave")
            lossy._writer_thread.ends.set()
            lossy._writer_thread.join(PATIENCE_S)
        flush(fileno, which)

    monkeypatch.setattr(termios, "tcflush", late)
    monkeypatch.setattr(lossy, "_file", SimpleNamespace(fileno=lambda: slave))
    lossy.fileno = slave
    assert await driver.freed(app, PATIENCE_S)  # type: ignore[arg-type]
    os.close(slave)
    received = b""
    with contextlib.suppress(OSError):  # Linux's way to say that all was read
        while data := os.read(master, 1 << 16):
            received += data
    os.close(master)
    assert len(received) < 2000 * len(b"frame"), "nothing was discarded"
    assert received.endswith(b"leave")
