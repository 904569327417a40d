"""Commands over the journals of several proxies, recorded by real ones that used one key."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands.journals import does

from benchmarks.prediction import World, record_apart
from hivemind.cli.main import main
from hivemind.journal.codec import event_of, line_of
from hivemind.journal.records import JournalBegan
from hivemind.lab.simulate.recording import load
from hivemind.records import replace
from hivemind_mock.agents.agent import AgentConfig
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("at_a_shell", "foreseen_once")]


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Two proxies before one provider whose limit is that of their key, each with agents of its own."""
    folder = tmp_path_factory.mktemp("journals")
    paths = tuple(folder / f"proxy-{number}.jsonl" for number in range(2))
    agents = tuple(AgentConfig(f"agent-{n}", 8, 0.5, stream=n % 2 == 0, prompt_tokens=100) for n in range(6))
    provider = MockConfig(limits=LimitConfig(rpm=30, concurrency=3), latency=LatencyConfig(0.5, 0.2))
    record_apart(World("apart", agents, provider, {"max_concurrency": 3}), paths)
    return paths


def named(journals: Sequence[Path]) -> list[str]:
    """Their paths as arguments."""
    return list(map(str, journals))


def in_a_fleet(journals: Sequence[Path], folder: Path) -> list[Path]:
    """The same journals, as members of a fleet would have written them."""
    found = []
    for path in journals:
        first, _, rest = path.read_bytes().partition(b"\n")
        began = event_of(first)
        assert isinstance(began, JournalBegan)
        member = folder / path.name
        member.write_bytes(line_of(began).replace(b'"fleet":false', b'"fleet":true') + rest)
        found.append(member)
    return found


def test_as_one_scheduler(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded figures are those of all proxies together; beside them stands what one scheduler does, by the limit
    that the key has, and with other settings."""
    found = json.loads(does(capsys, "what-if", *named(journals), "--set", "max_concurrency=1", "--json"))
    assert (found["proxies"], found["apart"], found["journal"]) == (2, True, "proxy-0 + proxy-1")
    apart = [load(path).figures for path in journals]
    for name in ("agents", "requests", "answered", "attempts", "retries", "tokens"):
        assert found["recorded"][name] == sum(getattr(each, name) for each in apart)
    assert found["recorded"]["waited_s"] == pytest.approx(sum(each.waited_s for each in apart))
    as_one, changed = found["compared"], found["simulated"]
    assert (as_one["answered"], changed["answered"]) == (48, 48)
    assert as_one["busiest"] <= 3
    assert changed["busiest"] == 1
    assert as_one["retries"] < found["recorded"]["retries"]  # more than the key's three at once are refused
    out = does(capsys, "what-if", *named(journals), "--set", "max_concurrency=1")
    titles = next(line for line in out.splitlines() if "CHANGED" in line)
    assert titles.split()[:3] == ["AS", "ONE", "CHANGED"]
    assert re.search(" (as|than) with the recorded settings in one scheduler ", " ".join(out.split()))
    alone = does(capsys, "what-if", *named(journals))
    assert re.search("\nWith one scheduler for all of these proxies,? ", alone)
    assert next(line for line in alone.splitlines() if "RECORDED" in line).split()[:3] == ["RECORDED", "AS", "ONE"]
    assert out.startswith("Note: each of these proxies scheduled for itself")


def test_in_a_fleet(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What proxies recorded that shared their key is one run already, so the simulation is held against it."""
    members = in_a_fleet(journals, tmp_path)
    found = json.loads(does(capsys, "what-if", *named(members), "--json"))
    assert (found["proxies"], found["apart"]) == (2, False)
    assert (
        "one scheduler is simulated: what the proxies of the fleet waited for their leases is left out"
        in found["doubts"]
    )
    assert "With the recorded settings another run like this one" in does(capsys, "what-if", *named(members))
    alone = does(capsys, "what-if", str(members[0]))
    assert "requests of the other proxies that used the same keys aren't in it" in " ".join(alone.split())


def test_the_same_twice(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One line, exit code 2; a copy, and a part that is elsewhere, too."""
    for command in ("what-if", "report"):
        assert main([command, str(journals[0]), *named(journals)]) == 2
        assert capsys.readouterr() == ("", "hivemind: proxy-0.jsonl: is named twice\n")
    first, _, rest = journals[0].read_bytes().partition(b"\n")
    began = event_of(first)
    assert isinstance(began, JournalBegan)
    for part, told in ((1, "are the same journal; name it once"), (2, "are parts of one journal; put them into one")):
        (tmp_path / "other.jsonl").write_bytes(line_of(replace(began, part=part)) + rest)
        assert main(["report", str(journals[0]), str(tmp_path / "other.jsonl")]) == 2
        assert told in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["other.jsonl"]


def test_report(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """One page about all of them, named after the first."""
    assert main(["report", *named(journals), "--markdown"]) == 0
    out, err = capsys.readouterr()
    assert "The journals of 2 proxies are read as one run (proxy-0.jsonl, proxy-1.jsonl); levels and windows" in err
    assert "proxy-0 + proxy-1" in out
    assert "agents finished | 6 of 6" in out
    assert main(["report", *named(journals)]) == 0
    assert [each.name for each in Path().iterdir()] == ["proxy-0+1.html"]


def test_listed(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The list says which journals are of members of a fleet."""
    folder = tmp_path / "state" / "journals"
    folder.mkdir(parents=True)
    members = {each.stem for each in in_a_fleet(journals, folder)}
    (folder / "alone.jsonl").write_bytes(journals[1].read_bytes())
    lines = {line.split()[0]: line.split() for line in does(capsys, "journal", "ls").splitlines()}
    assert {name for name, cells in lines.items() if "fleet" in cells} == members
    found = json.loads(does(capsys, "journal", "ls", "--json"))
    assert {each["name"]: each["fleet"] for each in found} == {"proxy-0": True, "proxy-1": True, "alone": False}


def test_stats(journals: tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of all together."""
    found = json.loads(does(capsys, "journal", "stats", *named(journals), "--json"))
    assert (found["journal"], found["requests"], found["agents"], found["told"]) == ("proxy-0 + proxy-1", 48, 6, [])
    assert main(["journal", "stats", *named(journals), str(journals[0])]) == 2
    assert capsys.readouterr() == ("", "hivemind: proxy-0.jsonl: is named twice\n")
