"""What `y` puts on the clipboard is pasted into a shell, and other people chose the names in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from tui.kit import press, room, screen
from tui.trials import LOOKED
from tui.worlds import FakeSource, world

from hivemind.lab.simulate.overrides import Change
from hivemind.records import replace
from hivemind.text.shells import Shell
from hivemind_tui.commands.actions import text_to_copy
from hivemind_tui.commands.whatif import shell_lines, what_if_line
from hivemind_tui.state.view import View
from hivemind_tui.whatif.state import WhatIf

ADDRESS = "http://127.0.0.1:8765"
NAMES = [
    "x$(touch PWNED)",
    "x`touch PWNED`",
    "it's; touch PWNED",
    '"; touch PWNED; "',
    "a|touch PWNED&",
    "a!!b",
    "~",
    "*",
    "a b  c",
    "-x",
    "a\\'; touch PWNED #",
    "YOUR-TOKEN$(touch PWNED)",
]
SHELLS: list[Shell] = ["bash", "fish"]


def pasted(shell: Shell, script: str, folder: Path) -> list[str]:
    """What a script prints, ended by zero bytes; it may do nothing else."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "HIVEMIND_TOKEN": "t0k"}
    done = subprocess.run([shell, "-c", script], env=environ, cwd=folder, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr, list(folder.glob("[!.]*"))) == (0, b"", [])
    return done.stdout.decode().split("\0")[:-1]


def of(name: str, shell: Shell, *, address: str = ADDRESS, token: bool = False, page: str = "overview") -> View:
    """An agent of that name is selected."""
    snapshot = world()
    first, *others = snapshot.agents
    snapshot = replace(snapshot, address=address, agents=(replace(first, name=name), *others))
    return View(snapshot, trail=(page,), selected=name, token=token, shell=shell)


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_an_agents_line(shell: Shell, token: bool, tmp_path: Path) -> None:
    """The variable has the agent's URL, whatever it is called, and nothing runs."""
    script = []
    for name in NAMES:
        script += [text_to_copy(of(name, shell, token=token)), "printf '%s\\0' \"$ANTHROPIC_BASE_URL\""]
    before = ADDRESS + ("/token/t0k" if token else "") + "/agent/"
    found = pasted(shell, "\n".join(script), tmp_path)
    assert [unquote(value.removeprefix(before)) for value in found] == NAMES
    assert all(value.startswith(before) for value in found)


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_false_address(shell: Shell, token: bool, tmp_path: Path) -> None:
    """The address comes from the proxy, which may be another's: nothing in it runs either."""
    for evil in ("http://x$(touch PWNED)", "http://x`touch PWNED`", "'\"; touch PWNED #", "http://x\ntouch PWNED\n"):
        for page in ("overview", "start"):
            line = text_to_copy(of("alice", shell, address=evil, token=token, page=page))
            (value,) = pasted(shell, f"{line}\nprintf '%s\\0' \"$ANTHROPIC_BASE_URL\"", tmp_path)
            assert value.startswith(evil)


def test_lines_of_a_what_if(tmp_path: Path) -> None:
    """Each line is one command with the words that were meant."""
    for name in NAMES:
        changes = (Change(f"agent.{name}.priority", "high"), Change(f"agent.{name}.budget", "50k"))
        what_if = WhatIf(path=name, summary=LOOKED, changes=changes)
        lines = "\n".join([*shell_lines(what_if), what_if_line(what_if)])
        words = pasted("bash", f"hivemind() {{ printf '%s\\0' \"$@\"; }}\n{lines}", tmp_path)
        path = f"./{name}" if name.startswith("-") else name
        assert [word for word in words if word != "--"] == [
            *("set", "priority", name, "high"),
            *("budget", name, "50k"),
            *("what-if", path, "--set", f"agent.{name}.priority=high", "--set", f"agent.{name}.budget=50k"),
        ]


async def test_the_clipboard_holds_no_controls() -> None:
    """What a terminal would obey, or would show in another order, is replaced; so a paste can't end early."""
    line = replace(world().lines[-1], text="a\x1b[201~\ntouch PWNED\r\u202ex\u200b")
    async with screen(FakeSource(replace(world(), lines=(line,)))) as pilot:
        await press(pilot, "5 y")
        assert pilot.app.clipboard.endswith("a·[201~·touch PWNED··x·")
        room(pilot).copy("one\x1b]52;c;x\x07\ntwo")
        assert pilot.app.clipboard == "one·]52;c;x·\ntwo"
