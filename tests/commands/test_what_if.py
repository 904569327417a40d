"""`hivemind what-if`: a sentence, and recorded and changed side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from commands.journals import does, recorded

from hivemind.cli.main import main
from hivemind.journal.figures import Figures
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("at_a_shell", "foreseen_once")]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eleven agents."""
    return recorded(tmp_path_factory.mktemp("journals"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five agents, for what any journal shows."""
    return recorded(tmp_path_factory.mktemp("small"), "micro-5")


def row(out: str, name: str) -> list[str]:
    """The cells of a row."""
    line = next(line for line in out.splitlines() if line.startswith(name))
    return re.split(r"  +", line.removeprefix(name).strip())


def test_the_answer(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, then what was recorded beside what the changes do, with intervals, and what the recording shows."""
    out = does(capsys, "what-if", str(journal), "--set", "max_concurrency=1", "--set", "beta=0.7")
    assert re.match("With max_concurrency 1 and aimd.beta 0.7 this run (would|might) have ", out)
    assert "replay-11-1: 11 agents, 88 requests, " in out
    titles = next(line for line in out.splitlines() if "RECORDED" in line)
    assert titles.split() == ["RECORDED", "CHANGED", "DIFFERENCE", "90", "%", "INTERVAL"]
    assert row(out, "agents finished")[:2] == ["11", "11"]
    assert row(out, "most in flight")[:2] == ["5", "1"]
    assert row(out, "wait, p50")[-1] == "worse"
    assert "What the recording shows:\n- " in out
    assert "On a part of the recording that the fit hadn't seen, the models were off by " in " ".join(out.split())


def test_nothing_changed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a change it shows how much another run of the same would differ."""
    out = does(capsys, "what-if", str(journal))
    assert out.startswith("With the recorded settings another run like this one would end after about 62.3 s (")
    assert "DIFFERENCE" not in out
    assert len(row(out, "wall time")) == 3


def test_json(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, for programs."""
    found = json.loads(does(capsys, "what-if", str(journal), "--set", "max_concurrency=8", "--json"))
    assert found["changes"] == {"max_concurrency": 8}
    assert re.match("With max_concurrency 8 this run (would|might) have ended ", found["sentence"])
    assert found["columns"] == ["recorded", "changed"]
    recording = load(journal)
    simulated = msgspec.convert(found["simulated"], Figures)
    expected = simulate(recording, parse_changes(["max_concurrency=8"]))
    assert (simulated.wall_s, simulated.waits, simulated.retries) == (expected.wall_s, expected.waits, expected.retries)
    assert found["recorded"]["requests"] == recording.figures.requests
    wall = next(each for each in found["figures"] if each["name"] == "wall time")
    assert wall["recorded"] == recording.figures.wall_s
    assert wall["low"] < wall["value"] < wall["high"]
    assert wall["difference_low"] < wall["difference"] < wall["difference_high"]
    assert (wall["unit"], wall["difference_is"]) == ("seconds", "share")
    assert wall["verdict"] in ("better", "unclear")
    assert found["shows"] == [*recording.providers["mock:all"].sentences()]
    assert found["held_out"]["wall_time"] > 0
    assert any("no more than 5 in flight were recorded; with 8" in note for note in found["notes"])
    assert any("after `hivemind set max_concurrency 8` would tell more" in note for note in found["notes"])


def test_a_scenario(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes of a file, and those of --set on top of them: settings and questions alike."""
    Path("evening.toml").write_text('max_concurrency = 3\nagents = "x2"\n[provider]\nlatency = "x2"\n')
    args = ("what-if", str(journal), "--scenario", "evening.toml", "--set", "max_concurrency=4", "--json")
    found = json.loads(does(capsys, *args))
    assert found["changes"] == {"max_concurrency": 4, "agents": "x2", "provider.latency": "x2"}
    assert found["simulated"]["agents"] == 22
    assert {each["verdict"] for each in found["figures"]} == {""}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[aimd]\nbeta = 7\n", "aimd.beta 7: must be a number above 0"),
        ("beta =", "can't be read as TOML: Invalid value"),
    ],
)
def test_a_scenario_with_a_mistake(journal: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    """One line that names the file, and exit code 2."""
    Path("evening.toml").write_text(text)
    assert main(["what-if", str(journal), "--scenario", "evening.toml"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"--scenario evening.toml: {told}" in err


def test_two_priorities(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits are told by priority where there are several."""
    out = does(capsys, "what-if", str(journal), "--set", "agent.agent-01.priority=critical")
    assert len(row(out, "  critical, p95")) in (1, 2)
    assert len(row(out, "  normal, p95")) > 3


def test_fits(journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider than the terminal, and the verdict stays; from 80 columns on the difference's interval too."""
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = does(capsys, "what-if", str(journal), "--set", "max_concurrency=8")
        assert max(map(len, out.splitlines())) <= columns
        (wall,) = (line for line in out.splitlines() if line.startswith("wall time"))
        assert wall.endswith(("better", "worse", "unclear"))
        assert (" to " in wall) == (columns >= 80)


def test_a_damaged_recording(small: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What can be read is used, and what is wrong is told."""
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(small.read_bytes()[:-30])
    assert "Note: the last line isn't whole" in does(capsys, "what-if", str(torn))


def test_by_name(journal: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A journal is found in the state directory by its name."""
    folder = tmp_path / "state" / "journals"
    folder.mkdir(parents=True)
    shutil.copy(journal, folder / journal.name)
    named, latest, by_path = (does(capsys, "what-if", each) for each in ("replay-11-1", "latest", str(journal)))
    assert named == latest == by_path


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
        (
            ["--set", "provider.teir=x2"],
            "provider.teir: nothing of that name can be asked about a provider; did you mean tier?",
        ),
        (["--scenario", "none.toml"], "--scenario none.toml: No such file or directory"),
    ],
)
def test_refused(journal: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: str) -> None:
    """One line, exit code 2, and nothing is written."""
    assert main(["what-if", str(journal), *args]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"hivemind: {told}")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("source", ["har", pytest.param("mitmproxy", marks=pytest.mark.slow)])
def test_what_was_imported(small: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str) -> None:
    """HiveMind had no part in it, so what it makes of it is an answer and not a test of the model."""
    first, _, rest = small.read_bytes().partition(b"\n")
    imported = tmp_path / "imported.jsonl"
    imported.write_bytes(first.replace(b'"source":"proxy"', f'"source":"{source}"'.encode()) + b"\n" + rest)
    out = does(capsys, "what-if", str(imported))
    assert re.search("\nWith HiveMind's usual settings this run (would|might) have ended ", out)
    assert "WITH HIVEMIND" in out
    assert out.index("Note: this was recorded without HiveMind: ") < out.index("With HiveMind's usual")
    changed = does(capsys, "what-if", str(imported), "--set", "max_concurrency=1")
    assert re.search(" (as|than) with HiveMind's usual settings ", " ".join(changed.split()))
    assert "CHANGED" in changed
    assert json.loads(does(capsys, "what-if", str(imported), "--json"))["source"] == source


def test_no_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What isn't a journal is told in one line."""
    (tmp_path / "noise").write_bytes(b"\x00\xff" * 100)
    assert main(["what-if", "./noise"]) == 2
    assert capsys.readouterr().err.startswith("hivemind: noise: isn't a journal")
