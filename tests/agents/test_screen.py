"""A terminal's last lines kept up to date, seen as a terminal shows them."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hivemind.agents.progress import BatchProgress, Screen, TaskRow


class Terminal(io.StringIO):
    """Obeys what the screen uses: line ends, back so many lines, and clear from there."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether it claims to be one."""
        return self._terminal

    def shown(self) -> list[str]:
        """What is to be seen."""
        lines: list[str] = []
        for part in re.findall(r"\x1b\[\d+F\x1b\[J|[^\x1b\n]*\n", self.getvalue()):
            if part.startswith("\x1b"):
                del lines[len(lines) - int(part[2 : part.index("F")]) :]
            else:
                lines.append(part[:-1])
        return lines


def screen(terminal: Terminal, environ: Mapping[str, str]) -> Screen:
    """Of 60 columns and 20 lines."""
    return Screen(terminal, {"TERM": "xterm", "NO_COLOR": "1", **environ}, lambda: (60, 20))


def standing(*rows: TaskRow) -> BatchProgress:
    """A batch of these."""
    return BatchProgress("b", rows, 1.0, Path("/logs"))


def test_live() -> None:
    """What stays goes by above what changes, log lines too; at the end only what stays is there."""
    terminal = Terminal()
    shown = screen(terminal, {})
    shown.say("begun")
    shown.show(standing(TaskRow("a", "a", "running", 1), TaskRow("c", "c", "waiting")))
    shown.say("c started", "start")
    shown.show(standing(TaskRow("a", "a", "running", 1), TaskRow("c", "c", "running", 1)))
    shown.say("a is done", "good")
    shown.write("a line of the log\n")
    shown.show(standing(TaskRow("a", "a", "done", 1), TaskRow("c", "c", "running", 1)))
    while "c  " not in terminal.getvalue().partition("log")[2].partition("1 running")[2]:
        time.sleep(0.001)  # a thread writes it
    assert terminal.shown()[:3] == ["begun", "a is done", "a line of the log"]
    assert [line.split()[0] for line in terminal.shown()[3:]] == ["b", "1", "running", "c"]
    shown.close()


def test_nothing_changed() -> None:
    """The same picture isn't painted again, and after the end nothing but the lines is there."""
    terminal = Terminal()
    shown = screen(terminal, {})
    for _ in range(3):
        shown.show(standing(TaskRow("a", "a", "running", 1)))
    shown.say("over")
    shown.close()
    assert terminal.getvalue().count("running try") == 2
    assert terminal.shown() == ["over"]
    shown.say("afterwards")
    assert terminal.shown() == ["over", "afterwards"]


@pytest.mark.parametrize(("terminal", "environ"), [(False, {}), (True, {"TERM": "dumb"})])
def test_lines_alone(terminal: bool, environ: Mapping[str, str]) -> None:
    """Where nothing can be painted there is a line for each thing that happens, and nothing else."""
    stream = Terminal(terminal=terminal)
    shown = screen(stream, environ)
    shown.show(standing(TaskRow("a", "a", "running", 1)))
    shown.say("a started", "start")
    shown.say("a failed\x1b[2J", "bad")
    shown.close()
    assert stream.getvalue() == "a started\na failed [2J\n"


def test_colours() -> None:
    """Lines have them on a terminal, unless they aren't wanted."""
    for environ, text in (({"NO_COLOR": ""}, "\x1b[31mno\x1b[0m\n"), ({"NO_COLOR": "1"}, "no\n")):
        stream = Terminal()
        shown = screen(stream, environ)
        shown.say("no", "bad")
        shown.close()
        assert stream.getvalue() == text
