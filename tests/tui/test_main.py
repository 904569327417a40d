"""The program: its flags, its run without a screen, and what it doesn't import for that."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hivemind.console import Console
from hivemind.errors import UsageError
from hivemind_mock.demo import SEED
from hivemind_mock.demo import demo as world
from hivemind_tui import main

UPSTREAM = ["--upstream", "http://127.0.0.1:9"]


def test_flags_are_the_proxys_and_the_demos(tmp_path: Path) -> None:
    """Every setting of the proxy is a flag here too, beside the demo's own."""
    settings, demo = main.parse([*UPSTREAM, "--port", "0", "--rpm", "7"], {}, tmp_path)
    assert (settings.port, settings.rpm, demo) == (0, 7, None)
    _, demo = main.parse(["--demo", "--demo-agents", "3", "--seed", "5"], {}, tmp_path)
    assert demo == main.Demo(agents=3, seed=5)
    _, demo = main.parse(["--demo"], {}, tmp_path)
    assert demo == main.Demo(agents=len(world().agents), seed=SEED)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "no upstream: .* --upstream .* --demo"),
        (["--demo", "--demo-agents", "-1"], "--demo-agents"),
        (["--demoo"], "--demoo"),
    ],
)
def test_mistakes_are_named(argv: list[str], named: str, tmp_path: Path) -> None:
    """A wrong flag is one line that names it."""
    with pytest.raises(UsageError, match=named):
        main.parse(argv, {}, tmp_path)


def test_without_a_screen_textual_is_not_imported() -> None:
    """The headless path starts fast and works where the terminal libraries don't."""
    code = "import sys, hivemind_tui.main; sys.exit('textual' in sys.modules or 'plotext' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_demo_without_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The demo says where it is ready, runs for its time, prints the closing table and ends by itself."""
    monkeypatch.setattr(main, "_DEMO_WITHOUT_SCREEN_S", 0.3)
    settings, demo = main.parse(["--demo", "--demo-agents", "2", "--port", "0"], {}, tmp_path)
    stream = io.StringIO()
    console = Console(stream)
    assert not await main._live(settings, demo, console, with_screen=False)
    assert console.close(5.0)
    out = capsys.readouterr().out
    assert out.startswith("hivemind-tui: ready on http://127.0.0.1:")
    assert "errors no agent saw" in out


async def test_a_demo_takes_another_port_where_its_own_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Somebody who only wants to look needn't find out about ports."""
    monkeypatch.setattr(main, "_DEMO_WITHOUT_SCREEN_S", 0.05)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    async with server:
        settings, demo = main.parse(["--demo", "--demo-agents", "0", "--port", str(taken)], {}, tmp_path)
        console = Console(io.StringIO())
        await main._live(settings, demo, console, with_screen=False)
        assert console.close(5.0)
    out = capsys.readouterr().out
    assert "ready on" in out
    assert f":{taken} " not in out


def test_errors_are_one_line_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error goes to standard error as one line, exit code 2."""
    assert main.main(["--port", "99999"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_no_terminal_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen needs a terminal on both ends, to draw on and to read keys from."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stdin, open(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not main.has_screen()
