"""`hivemind tune`: on real recordings, with the real optimiser and processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands.journals import badly_set, does, recorded

from hivemind.cli.lab import tune
from hivemind.cli.main import main
from hivemind.lab.tune.tuning import TuningResult

_HIVEMIND = Path(sys.executable).with_name("hivemind")
_BRIEF = ("--trials", "4", "--seeds", "4", "--knobs", "max_concurrency,retry.base_s")

pytestmark = pytest.mark.usefixtures("at_a_shell")


@pytest.fixture(scope="module")
def badly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose settings can be bettered."""
    return badly_set(tmp_path_factory.mktemp("badly"))


@pytest.fixture(scope="module")
def searches() -> dict[object, TuningResult]:
    """Results of searches by what was searched, so that tests of what is done with one needn't search again."""
    return {}


@pytest.fixture
def searched_once(in_one_process: None, monkeypatch: pytest.MonkeyPatch, searches: dict[object, TuningResult]) -> None:
    """The same search is carried out once for all tests of this module."""
    search = tune._search

    def remembered(*args: Any) -> TuningResult:
        key = repr(args)
        if key not in searches:
            searches[key] = search(*args)
        return searches[key]

    monkeypatch.setattr(tune, "_search", remembered)


@pytest.mark.usefixtures("searched_once")
def test_finds_better_settings(badly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What to change, what each change is worth, what comes of it, and how sure that is."""
    out = does(capsys, "tune", str(badly), *_BRIEF)
    assert out.splitlines()[0] == "goal: less wall time; 4 candidates tried"
    assert "SETTING" in out
    assert re.search(r"^ +AS RECORDED +BEST FOUND +DIFFERENCE$", out, re.MULTILINE)
    assert "off the wall time; on 4 seeds not used in the search, between" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.e2e
def test_the_same_again(badly: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    """However many processes there are and whichever ends first: the same seed gives the same result."""
    first = json.loads(does(capsys, "tune", str(badly), *_BRIEF, "--json"))
    request.getfixturevalue("in_one_process")
    assert json.loads(does(capsys, "tune", str(badly), *_BRIEF, "--json")) == first


@pytest.mark.usefixtures("searched_once")
def test_json(badly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs."""
    first = json.loads(does(capsys, "tune", str(badly), *_BRIEF, "--json"))
    assert first["better"] is True
    assert first["changes"]
    assert first["recorded"]["max_concurrency"] == [1]
    assert 0 < first["check"]["gain_low"] <= first["check"]["gain"] <= first["check"]["gain_high"]
    assert first["search"]["best"] <= first["search"]["recorded"]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.usefixtures("searched_once")
def test_fits(badly: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """No line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, does(capsys, "tune", str(badly), *_BRIEF).splitlines())) <= columns


@pytest.mark.e2e
@pytest.mark.usefixtures("in_one_process")
def test_several_journals(badly: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A row each."""
    other = recorded(tmp_path, "micro-5")
    out = does(capsys, "tune", str(badly), str(other), *_BRIEF, "--goal", "wall-time")
    rows = [line.split()[0] for line in out.splitlines() if line.startswith(("JOURNAL ", "badly-set ", "micro-5-1 "))]
    assert rows == ["JOURNAL", "badly-set", "micro-5-1"]


@pytest.mark.usefixtures("searched_once")
def test_written_down(badly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was found goes into the settings' file, which is otherwise as it was."""
    Path("hivemind.toml").write_text("# mine\nport = 9000 # ours\n")
    out = does(capsys, "tune", str(badly), *_BRIEF, "--write", "--yes")
    text = Path("hivemind.toml").read_text()
    assert text.startswith("# mine\nport = 9000 # ours\n")
    assert "max_concurrency = " in text
    assert out.rstrip().endswith("hivemind.toml is written; a proxy reads it when it starts")
    assert "+++ " in out
    does(capsys, "tune", str(badly), *_BRIEF, "--write", "other.toml", "--yes")
    assert Path("other.toml").exists()


@pytest.mark.usefixtures("in_one_process")
def test_nothing_is_written_that_is_not_better(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Where nothing is certainly better the file stays as it is."""
    journal = recorded(tmp_path / "journals", "micro-5")
    args = ["tune", str(journal), "--trials", "1", "--seeds", "2", "--goal", "dollars", "--write", "--yes"]
    assert main(args) == 2
    assert capsys.readouterr().err == "hivemind: nothing is written: no settings were found that are certainly better\n"
    assert not Path("hivemind.toml").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--goal", "speed"], "--goal speed: must be wall_time, p95_wait or dollars"),
        (["--trials", "0"], "--trials 0: must be a whole number from 1 to 10,000"),
        (["--seeds", "1"], "--seeds 1: must be a whole number from 2 to 1,000"),
        (["--seed", "-1"], "--seed -1: must be a whole number from 0 to 4,294,967,295"),
        (["--timeout", "0"], "--timeout 0: must be a number of seconds above 0"),
        (["--knobs", "aimd.bta"], "aimd.bta: no such setting; did you mean aimd.beta?"),
        (["--yes"], "--yes: goes with --write"),
        (["--write", ".", "--yes"], "."),
    ],
)
def test_refused(badly: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: str) -> None:
    """One line and exit code 2, before anything is searched."""
    assert main(["tune", str(badly), *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"hivemind: {told}")
    assert len(err.splitlines()) == 1


def test_nobody_to_ask(badly: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a file is only written with --yes, which is said before the search."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["tune", str(badly), "--write"]) == 2
    assert capsys.readouterr() == ("", "hivemind: --write: asks at a terminal; --yes writes without asking\n")


@contextlib.contextmanager
def searching(journal: Path) -> Iterator[tuple[subprocess.Popen[str], list[str], bytearray]]:
    """The program in the middle of a search that wouldn't end, the processes that it started, and what it writes to its
    terminal, which is complete when the context has ended."""
    ours, theirs = pty.openpty()
    command = [str(_HIVEMIND), "tune", str(journal), "--trials", "10000"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True, start_new_session=True
    ) as process:
        os.close(theirs)
        seen = b""
        while b"searching 8 of 10000" not in seen:
            seen += os.read(ours, 4096)
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert started
        # A terminal that isn't read would block the program when it reports its progress.
        said = bytearray()
        reading = threading.Thread(target=_read_all, args=(ours, said), daemon=True)
        reading.start()
        yield process, started, said
        reading.join()
    os.close(ours)


def _read_all(terminal: int, said: bytearray) -> None:
    """Read until the last process that has the terminal open ends."""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 4096):
            said += data


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
def test_ctrl_c(badly: Path) -> None:
    """Gives the best so far, in words that promise nothing, and leaves no process behind."""
    with searching(badly) as (process, started, _):
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "until interrupted" in out
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
def test_ctrl_c_while_its_processes_begin(badly: Path) -> None:
    """They never hear of it, so that none dies with a traceback and nobody waits for it."""
    command = [str(_HIVEMIND), "what-if", str(badly), "--seeds", "1000", "--set", "max_concurrency=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(started := children.read_text().split()) < 2:  # the first one counts what they share
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_killed(badly: Path, number: int, code: int) -> None:
    """Its processes end with it, however it ends; told to end, it says nothing more."""
    with searching(badly) as (process, started, _):
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
def test_a_process_of_its_own_is_killed(badly: Path) -> None:
    """One line says so, and the others end too."""
    with searching(badly) as (process, started, said):
        (*_, last) = (pid for pid in started if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(int(last), signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert said.rstrip().endswith(b"hivemind: a simulating process ended by itself; is there enough memory?")
    all_end(started)


def all_end(pids: list[str]) -> None:
    """Wait until none of them runs."""
    until = time.monotonic() + 60
    while any(map(runs, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)


def runs(pid: str) -> bool:
    """Whether there is such a process, which isn't only waiting to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
