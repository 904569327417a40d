"""Requests as CSV and as HAR."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from journal.lines import LANE, NAME, PATH, answered, arrived, began, opened, run, written
from msgspec.structs import replace

from hivemind.cli.main import main
from hivemind.journal.export.requests import requests
from hivemind.journal.records import JournalEnded, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind
from hivemind.world.state import Carried
from hivemind.world.world import World

SCHEMA = json.loads((Path(__file__).parent / "har.schema.json").read_text("utf-8"))


def exported(tmp_path: Path, events: Iterable[ev.Event], form: str) -> str:
    """What the command writes of a journal."""
    path, out = written(tmp_path / f"{NAME}.jsonl", events), tmp_path / "out"
    assert main(["journal", "export", str(path), f"--{form}", "--out", str(out)]) == 0
    return out.read_text("utf-8")


def rows(text: str) -> list[dict[str, str]]:
    """A row each, by its titles."""
    return list(csv.DictReader(io.StringIO(text)))


def ends() -> list[ev.Event]:
    """A request for each way in which one can end, and bodies of the first."""
    kind = FailureKind.OVERLOADED
    return [
        replace(began(), bodies=True),
        opened(),
        arrived(101.0),
        RequestBody(101.0, 1, "POST", "/v1/messages?beta=true", (("content-type", "application/json"),), '{"a":1}'),
        ev.Granted(102.0, 1, "alice", LANE, 1, 1.0),
        ev.Finished(103.0, 1, "alice", LANE, "claude-sonnet-4-5", 200, 1, None, 2.0),
        ResponseBody(103.0, 1, 1, 200, (("content-type", "text/event-stream"),), "/w==", "base64"),
        arrived(110.0, 2, "bob"),
        ev.Granted(110.0, 2, "bob", LANE, 1, 0.0),
        ev.AttemptFailed(111.0, 2, "bob", LANE, 1, kind, 529, "529 overloaded_error", 2.0),
        ev.Granted(114.0, 2, "bob", LANE, 2, 1.0),
        ev.AttemptFailed(115.0, 2, "bob", LANE, 2, FailureKind.CONNECT, None, "refused", None),
        arrived(120.0, 3, "carol"),
        ev.Refused(125.0, 3, "carol", LANE, "wait_too_long", 503),
        arrived(130.0, 4, "dave"),
        ev.Granted(130.5, 4, "dave", LANE, 1, 0.5),
        ev.Abandoned(131.0, 4, "dave", LANE, True),
        arrived(140.0, 5, "erin"),
        JournalEnded(150.0),
    ]


def test_csv(tmp_path: Path) -> None:
    """A row a request, with what it waited, took, used and cost."""
    found = rows(exported(tmp_path, run(), "csv"))
    assert [row["agent"] for row in found] == ["alice", "bob"]
    tokens = {"input": "1000", "cache_read": "500", "cache_write": "0", "output": "200", "cache_write_1h": "0"}
    assert found[1] == {
        **{"arrived": "2026-11-21T18:23:51.000Z", "agent": "bob", "client": "claude-code"},
        **{"model": "claude-sonnet-4-5", "priority": "normal", "stream": "yes", "path": PATH, "lane": LANE},
        **{"end": "answered", "status": "200", "attempts": "2", "faults": "429 rate_limited"},
        **{"waited_s": "2.000", "ttft_s": "0.500", "duration_s": "3.000", "dollars": "0.006150", "tier": ""},
        **{f"{kind}_tokens": count for kind, count in (tokens | {"estimated": "0"}).items()},
    }


def test_every_end(tmp_path: Path) -> None:
    """Each way in which a request ends is told, in the order in which they came."""
    found = rows(exported(tmp_path, ends(), "csv"))
    assert [(row["end"], row["status"], row["attempts"], row["waited_s"]) for row in found] == [
        ("answered", "200", "1", "1.000"),
        ("failed", "", "2", "3.000"),
        ("refused", "503", "0", "5.000"),
        ("left", "", "1", "0.500"),
        ("open", "", "0", "0.000"),
    ]
    assert [row["faults"] for row in found] == ["", "529 overloaded; connect", "wait_too_long", "", ""]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@a", "\t=1", " =1", '=HYPERLINK("x")', "|cmd", "%0"])
def test_no_formulas(tmp_path: Path, name: str) -> None:
    """A name that a spreadsheet would take for a formula stands behind an apostrophe."""
    found = rows(exported(tmp_path, [began(), opened(), arrived(101.0, 1, name)], "csv"))
    assert found[0]["agent"].startswith("'")


def test_har_is_valid(tmp_path: Path) -> None:
    """What is written follows the specification, of whatever a journal holds."""
    for events in (run(), ends(), [began()], ends()[:-8]):
        jsonschema.validate(json.loads(exported(tmp_path, events, "har")), SCHEMA)


def test_har_entries(tmp_path: Path) -> None:
    """An entry an attempt, its times those of queue, first content and rest, which add up."""
    log: dict[str, Any] = json.loads(exported(tmp_path, run(), "har"))["log"]
    shown = [
        (entry["startedDateTime"], entry["response"]["status"], entry["timings"]["blocked"], entry["time"])
        for entry in log["entries"]
    ]
    assert shown == [
        ("2026-11-21T18:23:42.000000Z", 200, 250.0, 1000.0),
        ("2026-11-21T18:23:51.000000Z", 429, 250.0, 500.0),
        ("2026-11-21T18:23:53.000000Z", 200, 250.0, 1000.0),
    ]
    for entry in log["entries"]:
        assert entry["time"] == sum(value for value in entry["timings"].values() if value > 0)
        assert entry["request"]["url"] == "https://api.anthropic.com/v1/messages"


def test_har_bodies(tmp_path: Path) -> None:
    """Recorded bodies and heads are in it, also of an answer that was written down after the request's end."""
    first = json.loads(exported(tmp_path, ends(), "har"))["log"]["entries"][0]
    assert first["request"]["url"] == "https://api.anthropic.com/v1/messages?beta=true"
    assert first["request"]["queryString"] == [{"name": "beta", "value": "true"}]
    assert first["request"]["postData"] == {"mimeType": "application/json", "text": '{"a":1}'}
    said = {"size": 1, "mimeType": "text/event-stream", "text": "/w==", "encoding": "base64"}
    assert first["response"]["content"] == said


def test_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON leaves some control characters and reversed text as they are; a file gets them, a terminal doesn't."""
    path = written(tmp_path / f"{NAME}.jsonl", run())
    path.write_text(path.read_text().replace("alice", "al\u202eice\x9b2J"))
    for terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        assert main(["journal", "export", str(path), "--har"]) == 0
        out = capsys.readouterr().out
        assert ("\u202e" in out, "\x9b" in out, "al?ice?2J" in out) == (not terminal, not terminal, terminal)


def test_order_and_memory() -> None:
    """Requests come as they arrived; one that never ends holds the others back only so far."""
    long = [arrived(1.0, 1), *(each for n in range(2, 50) for each in answered(float(n), n))]
    assert [asked.arrived.ticket for asked in requests(long)] == list(range(1, 50))
    longer = iter([arrived(1.0, 1), *(each for n in range(2, 5100) for each in answered(float(n), n))])
    first = next(iter(requests(longer)))
    assert first.arrived.ticket == 2
    assert next(longer, None) is not None


def test_out_is_written_whole(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The file is its owner's alone; one that can't be written, or is the journal itself, leaves nothing behind."""
    path = written(tmp_path / f"{NAME}.jsonl", run())
    before = path.read_bytes()
    assert main(["journal", "export", str(path), "--csv", "--out", str(tmp_path / "a.csv")]) == 0
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == 0o600
    assert main(["journal", "export", str(path), "--csv"]) == 0
    assert capsysbinary.readouterr().out == (tmp_path / "a.csv").read_bytes()
    for out in (path, tmp_path, Path("/"), tmp_path / "no" / "such.csv"):
        assert main(["journal", "export", str(path), "--csv", "--out", str(out)]) == 2
    told = capsysbinary.readouterr().err.decode().splitlines()
    assert told == [
        f"hivemind: --out {path}: is the journal itself",
        f"hivemind: {tmp_path}: can't be written (is a folder)",
        "hivemind: /: can't be written (is a folder)",
        f"hivemind: {tmp_path / 'no' / 'such.csv'}: can't be written (No such file or directory)",
    ]
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{NAME}.jsonl", "a.csv"]


def test_damage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is left of a damaged journal is exported, and the damage told apart from it."""
    path = written(tmp_path / f"{NAME}.jsonl", run())
    path.write_bytes(path.read_bytes()[:-5])
    assert main(["journal", "export", str(path), "--csv"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.err.startswith(f"hivemind: {NAME}.jsonl: the last line isn't whole")


def test_a_journal_that_begins_in_the_middle(tmp_path: Path) -> None:
    """What was open then is exported whole, as far as it was carried over; what ended before isn't."""
    events = ends()
    world = World(at=100.0, wall=0.0, address="", upstreams=())
    for event in events[:10]:
        world.apply(event)
    carried = Carried(112.0, world.keep(112.0))
    (bob, *others) = rows(exported(tmp_path, [events[0], carried, *events[10:]], "csv"))
    assert (bob["agent"], bob["arrived"], bob["end"], bob["attempts"], bob["waited_s"]) == (
        "bob",
        rows(exported(tmp_path, events, "csv"))[1]["arrived"],
        "failed",
        "2",
        "3.000",
    )
    assert [row["agent"] for row in others] == ["carol", "dave", "erin"]
