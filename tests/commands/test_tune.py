"""`hivemind tune`: on real recordings, with the real optimiser and processes."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest
from commands.journals import badly_tuned, does, slow

from hivemind.cli import progress
from hivemind.cli.lab import tune
from hivemind.cli.main import main
from hivemind.cli.progress import Progress
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.tune.space import RecordedSettings
from hivemind.lab.tune.tuning import TuningPlan, TuningResult
from hivemind.scheduler.types import Price
from hivemind.text.humanise import duration

_HIVEMIND = Path(sys.executable).with_name("hivemind")
_BRIEF = ("--trials", "4", "--seeds", "4", "--knobs", "aimd.latency_target_s,retry.base_s")

Tuned = tuple[list[Recording], list[RecordedSettings], TuningResult]

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("at_a_shell")]


@pytest.fixture(scope="module")
def badly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose settings can be bettered."""
    return badly_tuned(tmp_path_factory.mktemp("badly"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that takes long to search."""
    return slow(tmp_path_factory.mktemp("long"), turns=40)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no line says how far the search is."""
    monkeypatch.setattr(progress, "FIRST_S", math.inf)


@pytest.fixture(scope="module")
def searches() -> dict[str, Tuned]:
    """Results of searches by what was searched, so that tests of what is done with one needn't search again."""
    return {}


@pytest.fixture
def searched_once(in_one_process: None, monkeypatch: pytest.MonkeyPatch, searches: dict[str, Tuned]) -> None:
    """The same search is carried out once for all tests of this module."""
    run = tune._tuned

    def remembered(
        plan: TuningPlan, knobs: Sequence[str], paths: Sequence[Path], price: Price, progress: Progress
    ) -> Tuned:
        key = repr((plan, knobs, paths))
        if key not in searches:
            searches[key] = run(plan, knobs, paths, price, progress)
        return searches[key]

    monkeypatch.setattr(tune, "_tuned", remembered)


@pytest.mark.slow
@pytest.mark.usefixtures("searched_once")
def test_finds_better_settings(badly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """First a sentence with what is promised, then what to change and what comes of it."""
    out = does(capsys, "tune", str(badly), *_BRIEF)
    first = out.splitlines()[0]
    assert re.fullmatch(r"retry\.base_s 15 would take about \d+ % \(\d+ to \d+ %\) off the wall time\.", first)
    assert re.search(r"^ +RECORDED +PREDICTED +INTERVAL$", out, re.MULTILINE)
    recorded_s = load(badly).figures.wall_s
    assert re.search(rf"^wall time +{duration(recorded_s)} ", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.usefixtures("searched_once")
def test_json(badly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs, with the interval of the promise."""
    first = json.loads(does(capsys, "tune", str(badly), *_BRIEF, "--json"))
    assert first["recommended"] is True
    assert first["changes"] == {"retry.base_s": 15.0}
    assert first["recorded"] == {"retry.base_s": [30.0]}
    assert 0 < first["gain"]["low"] <= first["gain"]["value"] <= first["gain"]["high"] < 1


@pytest.mark.usefixtures("searched_once")
def test_fits(badly: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider than the terminal."""
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, does(capsys, "tune", str(badly), *_BRIEF).splitlines())) <= columns


@pytest.mark.usefixtures("searched_once")
def test_written_down(badly: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found goes into the settings' file, which is otherwise as it was."""
    Path("hivemind.toml").write_text("# mine\nport = 9000 # ours\n")
    out = does(capsys, "tune", str(badly), *_BRIEF, "--write", "--yes")
    text = Path("hivemind.toml").read_text()
    assert text.startswith("# mine\nport = 9000 # ours\n")
    assert "base_s = 15" in text
    assert out.rstrip().endswith("hivemind.toml is written; a proxy reads it when it starts")
    assert "+++ " in out
    does(capsys, "tune", str(badly), *_BRIEF, "--write", "other.toml", "--yes")
    assert Path("other.toml").exists()
    assert "other.toml says so already" in does(capsys, "tune", str(badly), *_BRIEF, "--write", "other.toml", "--yes")
    for answer, told in (("n", "nothing is written"), ("y", "asked.toml is written")):
        monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: True, readline=lambda answer=answer: answer))
        assert main(["tune", str(badly), *_BRIEF, "--write", "asked.toml"]) == 0
        out, err = capsys.readouterr()
        assert (told in out, err) == (True, "write this to asked.toml? [y/N] ")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--goal", "speed"], "--goal speed: must be wall_time, p95_wait or dollars"),
        (["--trials", "0"], "--trials 0: must be a whole number from 1 to 10,000"),
        (["--seeds", "1"], "--seeds 1: must be a whole number from 4 to 1,000"),
        (["--knobs", "aimd.bta"], "aimd.bta: no such setting; did you mean aimd.beta?"),
        (["--verify"], "--verify: no such flag"),
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
    command = [str(_HIVEMIND), "tune", str(journal)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True, start_new_session=True
    ) as process:
        os.close(theirs)
        seen = b""
        while b"searching 8 of 60" not in seen:
            seen += os.read(ours, 4096)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (started := children.read_text().split()):  # between two batches there are none
            time.sleep(0.001)
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
def test_ctrl_c(long: Path) -> None:
    """Gives the best so far, in words that promise nothing, and leaves no process behind."""
    with searching(long) as (process, started, _):
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.startswith("Nothing is recommended: it was interrupted before")
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
def test_ctrl_c_while_its_processes_begin(long: Path) -> None:
    """They never hear of it, so that none dies with a traceback and nobody waits for it."""
    command = [str(_HIVEMIND), "tune", str(long)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (started := children.read_text().split()):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert out.startswith(b"Nothing is recommended: it was interrupted before")
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_killed(long: Path, number: int, code: int) -> None:
    """Its processes end with it, however it ends; told to end, it says nothing more."""
    with searching(long) as (process, started, _):
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    all_end(started)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its processes in /proc")
def test_a_process_of_its_own_is_killed(long: Path) -> None:
    """One line says so, and the others end too."""
    with searching(long) as (process, started, said):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while process.poll() is None:  # one that is killed at its end isn't missed
            with contextlib.suppress(OSError):
                for pid in children.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert said.rstrip().endswith(b"hivemind: a process that computes ended by itself; is there enough memory?")
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
