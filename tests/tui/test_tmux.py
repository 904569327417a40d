"""The real program in a real terminal multiplexer: typed at and read as an operator would."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TMUX = shutil.which("tmux")
PATIENCE_S = 60.0

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(TMUX is None, reason="tmux isn't installed")]


class Pane:
    """One tmux server with one pane, and the program in it."""

    def __init__(self, socket: Path, command: str, size: tuple[int, int]) -> None:
        self._socket = socket
        width, height = size
        # What an operator's terminal would say of itself; nothing of this machine's settings.
        environ = {"PATH": os.environ["PATH"], "HOME": str(socket.parent), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        new = ("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), command)
        subprocess.run(self._command(*new), env=environ, check=True, timeout=PATIENCE_S)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def type(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        for key in keys:
            self._tmux("send-keys", *(("-l", key) if len(key) == 1 else (key,)))

    def text(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p")

    def until(self, seen: Callable[[str], bool]) -> str:
        """The screen, as soon as it shows what is waited for."""
        end = time.monotonic() + PATIENCE_S
        while not seen(text := self.text()):
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text

    def resize(self, width: int, height: int) -> None:
        """Another size of window."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def exit_code(self) -> int:
        """Of the program, once it has ended."""
        end = time.monotonic() + PATIENCE_S
        server = int(self._tmux("display-message", "-p", "#{pid}"))
        while not (state := self._tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}").split())[1:]:
            assert time.monotonic() < end, self.text()
            os.kill(server, signal.SIGCHLD)  # tmux misses now and then that a program has ended
            time.sleep(0.05)
        return int(state[1])

    def close(self) -> None:
        """End the server and whatever is in it."""
        subprocess.run(self._command("kill-server"), check=False, capture_output=True, timeout=PATIENCE_S)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(self._command(*arguments), check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [TMUX or "tmux", "-S", str(self._socket), *arguments]


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    """The demo, in a pane of 160 by 45."""
    program = f"{sys.executable} -c 'import sys; from hivemind_tui.__main__ import main; sys.exit(main())'"
    pane = Pane(tmp_path / "tmux", f"cd {tmp_path} && exec {program} --demo --port 0", (160, 45))
    try:
        yield pane
    finally:
        pane.close()


def test_the_real_program_is_steered_from_a_real_terminal(pane: Pane) -> None:
    """Start, look around, filter, freeze everything, turn a knob, take it back, make the window small, and leave."""
    text = pane.until(lambda text: "HEALTHY" in text and "farid" in text)
    assert "1 Overview" in text
    pane.type("2", "/")
    pane.type(*"farid", "Enter")
    text = pane.until(lambda text: "1 of 11" in text)
    assert "farid" in text
    pane.type("p")
    pane.until(lambda text: "PAUSED nothing" in text)
    pane.type("u")
    pane.until(lambda text: "PAUSED nothing" not in text)
    pane.type("4", "Right")
    pane.until(lambda text: "was " in text)
    pane.type("u")
    pane.until(lambda text: "was " not in text)
    pane.type("1")
    pane.until(lambda text: "[1 Overview]" in text)
    pane.resize(80, 24)
    text = pane.until(lambda text: len(text.splitlines()) == 24 and "3 Requests" in text)
    assert max(len(line) for line in text.splitlines()) <= 80
    pane.type("q")
    pane.until(lambda text: "drain and quit" in text)
    pane.type("y")
    assert pane.exit_code() == 0
    assert "retried OK" in pane.text()
