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
from hivemind_mock.agents.demo import SEED, demo_agents
from hivemind_tui.__main__ import main as program
from hivemind_tui.loop.gc_pacing import Collector, quiet
from hivemind_tui.program import main, sessions
from hivemind_tui.program.sessions import RemoteProxy
from hivemind_tui.sources.demo import Demo

UPSTREAM = ["--upstream", "http://127.0.0.1:9"]


def test_flags_are_the_proxys_and_the_demos(tmp_path: Path) -> None:
    """Every setting of the proxy is a flag here too, beside the demo's own."""
    asked = main.parse([*UPSTREAM, "--port", "0", "--rpm", "7"], {}, tmp_path)
    assert (asked.settings.port, asked.settings.rpm, asked.demo) == (0, 7, None)
    asked = main.parse(["--demo", "--demo-agents", "3", "--seed", "5"], {}, tmp_path)
    assert asked.demo == Demo(agents=3, seed=5)
    asked = main.parse(["--demo"], {}, tmp_path)
    assert asked.demo == Demo(agents=len(demo_agents()), seed=SEED)


def test_knobs_are_written_to_the_file_that_was_read(tmp_path: Path) -> None:
    """The one named, else the one in the working directory."""
    assert main.parse(["--demo"], {}, tmp_path).file == tmp_path / "hivemind.toml"
    (tmp_path / "own.toml").write_text("rpm = 7\n")
    assert main.parse(["--demo", "--config", "own.toml"], {}, tmp_path).file == tmp_path / "own.toml"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "no upstream: .* --upstream .* --demo"),
        (["--demo", "--demo-agents", "-1"], "--demo-agents"),
        (["--demoo"], "--demoo"),
        (["--attach", "http://127.0.0.1:8765", "--demo"], "--demo: doesn't go with --attach"),
        (["--attach", "http://127.0.0.1:8765", *UPSTREAM], "--upstream: doesn't go with --attach"),
        (["--demo", "--token-file", "t"], "--token-file: only goes with --attach"),
    ],
)
def test_mistakes_are_named(argv: list[str], named: str, tmp_path: Path) -> None:
    """A wrong flag is one line that names it."""
    with pytest.raises(UsageError, match=named):
        main.parse(argv, {}, tmp_path)


def test_with_nothing_set_the_screen_explains_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is a screen, requests go by their path to the provider they are for, and the demo is offered."""
    monkeypatch.setattr(main, "has_screen", lambda: True)
    asked = main.parse([], {}, tmp_path)
    assert asked.first_run
    assert [origin.profile.name for origin in asked.settings.origins()] == ["anthropic", "openai", "google"]
    assert not main.parse(UPSTREAM, {}, tmp_path).first_run


def test_attaching_needs_no_upstream(tmp_path: Path) -> None:
    """The proxy elsewhere has its own."""
    asked = main.parse(["--attach", "http://127.0.0.1:8765", "--token-file", "note.json"], {}, tmp_path)
    assert asked.remote == RemoteProxy("http://127.0.0.1:8765", Path("note.json"), {})


def test_nothing_is_imported_before_it_is_needed() -> None:
    """Without a screen no Textual; up to the first frame neither the demo's HTTP client nor the mock provider, nor what
    another process simulates with; for the control API nothing before its first request."""
    code = (
        "import sys, hivemind_tui.program.main, hivemind_tui.program.supervisor; print(*sys.modules);"
        "import hivemind_tui.program.screens, hivemind_tui.sources.demo, hivemind.host.proxy; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    headless, framed = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"textual", "plotext"} & headless
    assert "textual.app" in framed
    assert not {"httpx", "hivemind_mock", "plotext", "hivemind.lab.fit", "hivemind.lab.trace", "starlette"} & framed


def test_a_report_needs_a_screen_and_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--monitor is refused before anything starts where there would be nothing to write, or nowhere."""
    monkeypatch.setattr(main, "has_screen", lambda: False)
    asked = main.parse(["--demo", "--monitor", str(tmp_path / "report.json")], {}, tmp_path)
    with pytest.raises(UsageError, match="--monitor watches the screen"):
        main.run(asked, Collector())
    monkeypatch.setattr(main, "has_screen", lambda: True)
    asked = main.parse(["--demo", "--monitor", str(tmp_path / "none" / "report.json")], {}, tmp_path)
    with pytest.raises(UsageError, match="can't be written"):
        main.run(asked, Collector())


async def test_demo_without_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The demo says where it is ready, on another port where its own is taken, runs for its time, prints the closing
    table and ends by itself."""
    monkeypatch.setattr(sessions, "_DEMO_WITHOUT_SCREEN_S", 0.3)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    async with server:
        asked = main.parse(["--demo", "--demo-agents", "2", "--port", str(taken)], {}, tmp_path)
        console = Console(io.StringIO())
        with quiet() as collector:
            assert not await sessions.run_session(asked, console, collector, with_screen=False)
            assert collector._next is not None
        assert console.close(5.0)
    out = capsys.readouterr().out
    assert out.startswith("hivemind-tui: ready on http://127.0.0.1:")
    assert f":{taken} " not in out
    assert "hivemind-tui --replay " in out


def test_errors_are_one_line_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error goes to standard error as one line, exit code 2."""
    assert program(["--port", "99999"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_left_for_a_terminal_that_is_gone(stream: str) -> None:
    """It is dropped, and no failure."""
    script = (
        "import sys; from hivemind_tui.program import main\n"
        f"main.run = lambda *_: sys.stdin.read() or sys.{stream}.write('left') and 0\n"
        "from hivemind_tui.__main__ import main; sys.exit(main(['--demo']))"
    )
    master, slave = os.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=slave, stderr=slave, env=environ) as process:
        os.close(slave)
        os.close(master)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_no_terminal_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen needs a terminal on both ends, to draw on and to read keys from."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stdin, open(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not main.has_screen()
