"""A terminal that stops reading: the loop goes on, the screen comes back, and a signal still ends the program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import termios
import threading
from types import SimpleNamespace

import pytest
from textual.drivers.linux_driver import LinuxDriver

from hivemind_tui.loop import lossy_driver as driver

PATIENCE_S = 30.0
"""For a machine under load; nothing waits so long where all is well."""


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


async def test_a_frame_waits_until_the_last_one_has_left() -> None:
    """The driver isn't ready while something is queued, or written and not flushed; a long wait is told afterwards."""
    app = App()
    lossy = app._driver
    file = SimpleNamespace(write=len, flush=lambda: None)
    lossy._watched = driver._Watched(file)  # type: ignore[arg-type]
    assert lossy.ready
    lossy.write("a frame")
    assert not lossy.ready
    lossy._watched.write(lossy._writer_thread._queue.get_nowait() or "")
    assert not lossy.ready
    lossy._watched.flush()
    assert lossy.ready
    assert app.got == []
    lossy._watched.took_s = 60.0
    assert lossy.ready
    assert [message.stalled_s for message in app.got] == [60.0]


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
