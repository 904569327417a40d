"""`hivemind what-if`: recorded, replayed and changed side by side."""

from __future__ import annotations

import json
import re
import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from commands.journals import does, recorded

from hivemind.cli.main import main
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.reader import open_journal
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate

pytestmark = pytest.mark.usefixtures("at_a_shell")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eleven agents."""
    return recorded(tmp_path_factory.mktemp("journals"))


def row(out: str, name: str) -> list[str]:
    """The cells of a row."""
    line = next(line for line in out.splitlines() if line.startswith(name))
    return re.split(r"  +", line.removeprefix(name).strip())


def test_side_by_side(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was recorded, replayed and changed stands in a row, with the difference and what that means."""
    out = does(capsys, "what-if", str(journal), "--set", "max_concurrency=1", "--set", "beta=0.7")
    assert out.splitlines()[0].startswith("replay-11-1: 11 agents, 88 requests, ")
    assert "changed: max_concurrency=1, aimd.beta=0.7" in out
    titles = next(line for line in out.splitlines() if "RECORDED" in line)
    assert titles.split() == ["RECORDED", "REPLAYED", "OFF", "BY", "CHANGED", "DIFFERENCE"]
    assert row(out, "agents finished") == ["11", "11", "=", "11", "="]
    assert row(out, "most in flight")[0::3] == ["5", "1"]
    assert row(out, "wall time")[-1] == "worse"
    told = "Replayed with the recorded settings, it is off in wall time by 0.0 % and in total wait by 0.0 %."
    assert told in " ".join(out.split())


def test_nothing_changed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a change it shows how well the recording is reproduced, and nothing else."""
    out = does(capsys, "what-if", str(journal))
    assert "CHANGED" not in out
    assert len(row(out, "wall time")) == 3


def test_json(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same figures as the simulator's own, for programs."""
    found = json.loads(does(capsys, "what-if", str(journal), "--set", "max_concurrency=8", "--json"))
    recording = load(journal)
    assert found["changes"] == {"max_concurrency": 8}
    assert found["faults"] == "recorded"
    (changed,) = msgspec.convert(found["changed"], list[Figures])
    expected = simulate(recording, parse_changes(["max_concurrency=8"]))
    assert (changed.wall_s, changed.waits, changed.retries) == (expected.wall_s, expected.waits, expected.retries)
    assert found["recorded"]["requests"] == recording.figures.requests
    assert any("no more than 5 requests in flight were recorded; latencies with 8" in note for note in found["notes"])


@pytest.mark.usefixtures("in_one_process")
def test_seeds(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several runs, faults drawn anew for each and the same for both sides: means, and how sure the difference is."""
    args = (str(journal), "--set", "max_concurrency=1", "--seeds", "3")
    found = json.loads(does(capsys, "what-if", *args, "--json"))
    assert [len(found[side]) for side in ("replayed", "changed")] == [3, 3]
    assert len({run["wall_s"] for run in found["changed"]}) > 1
    recording, changes = load(journal), parse_changes(["max_concurrency=1"])
    expected = [simulate(recording, changes, seed=seed, faults="drawn").wall_s for seed in range(3)]
    assert [run["wall_s"] for run in found["changed"]] == expected
    out = does(capsys, "what-if", *args)
    assert "means of 3 runs, faults and latencies drawn anew for each" in out
    assert re.search(r"[+-]\d+\.\d % ± \d+\.\d", row(out, "wait, p50")[-2])


@pytest.mark.e2e
def test_seeds_on_all_cores(journal: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    """Worker processes find the same as this one."""
    args = ("what-if", str(journal), "--set", "max_concurrency=1", "--seeds", "3", "--json")
    found = does(capsys, *args)
    request.getfixturevalue("in_one_process")
    assert does(capsys, *args) == found


def test_two_priorities(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits are told by priority where there are several."""
    out = does(capsys, "what-if", str(journal), "--set", "agent.agent-01.priority=critical")
    assert len(row(out, "  critical, p95")) == 1
    assert len(row(out, "  normal, p95")) > 3


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.usefixtures("in_one_process")
def test_fits(journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """No line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out = does(capsys, "what-if", str(journal), "--set", "max_concurrency=20", "--seeds", "3")
    assert max(map(len, out.splitlines())) <= columns


def test_kept(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The simulated run is a journal like any other, for this user alone: it holds what was counted, and can be asked
    about in turn."""
    args = (str(journal), "--set", "max_concurrency=2", "--out", "slower")
    found = json.loads(does(capsys, "what-if", *args, "--json"))
    path = Path("slower.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept, tally = open_journal(path), FiguresFold()
    for event in kept.events():
        tally.apply(event)
    assert kept.damage.messages() == []
    assert kept.damage.ended
    assert (kept.began.journal, kept.began.source) == ("slower", "what-if")
    assert tally.figures().wall_s == pytest.approx(found["changed"][0]["wall_s"])
    assert tally.figures().answered == found["changed"][0]["answered"]
    again = load(path)
    assert {lane.max_concurrency for lane in again.lanes.values()} == {2}
    assert main(["what-if", *args]) == 2
    assert capsys.readouterr().err == "hivemind: --out slower.jsonl: is there already; --force writes over it\n"
    assert main(["what-if", *args, "--force"]) == 0
    assert [each.name for each in Path().iterdir() if each.is_file()] == ["slower.jsonl"]


def test_a_damaged_recording(journal: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What can be read is used, and what is wrong is told."""
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(journal.read_bytes()[:-30])
    assert "Note: the last line isn't whole" in does(capsys, "what-if", str(torn))


def test_by_name(journal: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A journal is found in the state directory by its name."""
    folder = tmp_path / "state" / "journals"
    folder.mkdir(parents=True)
    shutil.copy(journal, folder / journal.name)
    assert (
        does(capsys, "what-if", "replay-11-1")
        == does(capsys, "what-if", "latest")
        == does(capsys, "what-if", str(journal))
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--set", "aimd.bta=3"], "aimd.bta: no such setting; did you mean aimd.beta?"),
        (
            ["--set", "retry.base_s=90"],
            "retry.base_s=90: contradicts other settings: retry.max_s must be at least retry.base_s, which is 90;"
            " change both",
        ),
        (
            ["--set", "agent.agent-1.budget=5k"],
            "agent-1: no agent of that name is in replay-11-1; did you mean agent-11?",
        ),
        (["--seeds", "0"], "--seeds 0: must be a whole number from 1 to 1,000"),
        (
            ["--seeds", "3", "--faults", "recorded"],
            "--seeds: recorded faults are always the same; it goes with --faults drawn",
        ),
        (
            ["--seeds", "3", "--out", "x"],
            "--out: writes one run, so it goes with one seed (--seed says which)",
        ),
        (["--force"], "--force: goes with --out"),
        (["--out", "no/such"], "--out no/such.jsonl: can't be written (no such folder)"),
        (["--out", "/"], "--out /: can't be written (is a folder)"),
    ],
)
def test_refused(journal: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: str) -> None:
    """One line, exit code 2, and nothing is written."""
    assert main(["what-if", str(journal), *args]) == 2
    assert capsys.readouterr() == ("", f"hivemind: {told}\n")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("source", ["har", "mitmproxy"])
def test_what_was_imported(journal: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str) -> None:
    """HiveMind had no part in it, so what it makes of it is an answer and not a test of the model."""
    first, _, rest = journal.read_bytes().partition(b"\n")
    imported = tmp_path / "imported.jsonl"
    imported.write_bytes(first.replace(b'"source":"proxy"', f'"source":"{source}"'.encode()) + b"\n" + rest)
    out = does(capsys, "what-if", str(imported))
    assert "WITH HIVEMIND" in out
    assert "This was recorded without HiveMind: " in out
    assert "off" not in out.lower().split()
    assert len(row(does(capsys, "what-if", str(imported), "--set", "max_concurrency=1"), "wall time")) == 6
    assert json.loads(does(capsys, "what-if", str(imported), "--json"))["source"] == source


def test_no_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What isn't a journal is told in one line."""
    (tmp_path / "noise").write_bytes(b"\x00\xff" * 100)
    assert main(["what-if", "./noise"]) == 2
    assert capsys.readouterr().err.startswith("hivemind: noise: isn't a journal")
