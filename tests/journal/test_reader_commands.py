"""`hivemind journal list`, `show` and `stats`, on whole and on damaged journals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal.lines import NAME, WALL, answered, arrived, began, opened, run, written
from msgspec.structs import fields

from hivemind.cli.main import main
from hivemind.errors import UsageError
from hivemind.journal.codec import KINDS, event_of, line_of
from hivemind.journal.event_text import clock, describe
from hivemind.journal.files import folder_in, parse_moment, part_path
from hivemind.journal.read.reader import listed
from hivemind.journal.records import Gap, JournalEnded
from hivemind.journal.write.segment import JournalPart
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage, WindowKind, WindowReading


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is UTC."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The journals of a state directory."""
    folder_in(tmp_path).mkdir()
    return folder_in(tmp_path)


def does(capsys: pytest.CaptureFixture[str], folder: Path, *args: str, code: int = 0) -> tuple[str, str]:
    """What the command prints, on standard output and standard error."""
    capsys.readouterr()
    assert main(["journal", *args, "--state-dir", str(folder.parent)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_ls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each journal with its length, parts, size, requests and how it ended; what can't be read is told."""
    written(part_path(folder, NAME, 1), run()[:-2])
    written(part_path(folder, NAME, 2), [began(130.0, part=2), *answered(131.0, 3), JournalEnded(221.0)])
    cut = "20261122-000000-8765"
    written(part_path(folder, cut, 1), [began(journal=cut, wall=WALL + 86_400), *answered(101.0)])
    (folder / "rubbish.jsonl").write_bytes(b"rubbish")
    live = JournalPart(part_path(folder, "live", 1))
    live.append(line_of(began(journal="live")))
    out, err = does(capsys, folder, "list")
    live.close()
    assert [line.split()[0] for line in out.splitlines()] == ["JOURNAL", cut, NAME, "live"]
    ends = [line.split("  ")[-1].strip() for line in out.splitlines()]
    assert ends == ["END", "truncated", "ended", "still being written"]
    assert err.startswith(f"hivemind: {folder / 'rubbish.jsonl'}: isn't a journal")
    assert len(err.splitlines()) == 1
    rows = json.loads(does(capsys, folder, "list", "--json")[0])
    assert [(row["name"], row["parts"], row["requests"], row["length_s"]) for row in rows] == [
        (cut, 1, 1, 2.0),
        (NAME, 2, 3, 121.0),
        ("live", 1, 0, 0.0),
    ]


def test_ls_of_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No journals are no error; only such that can't be read are."""
    assert does(capsys, folder, "list") == does(capsys, folder, "ls") == (f"no journals in {folder}\n", "")
    (folder / "rubbish.jsonl").write_bytes(b"rubbish")
    assert does(capsys, folder, "list", code=2)[0] == f"no journals in {folder}\n"


def test_much_is_not_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are counted in the newest journals, as far as looking through them is quick."""
    for name in ("20261121-000001", "20261121-000002"):
        path = written(part_path(folder, name, 1), [began(journal=name), *answered(101.0)])
    monkeypatch.setattr("hivemind.journal.read.reader.COUNTED", path.stat().st_size + 1)
    assert [each.requests for each in listed(folder)[0]] == [1, None]


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each event is a line, with its time of day, and the day where it begins."""
    written(part_path(folder, NAME, 1), run())
    out, err = does(capsys, folder, "show", "latest")
    assert err == ""
    lines = out.splitlines()
    assert len(lines) == len(run()) + 1
    assert lines[0] == "2026-11-21"
    assert lines[1].startswith("18:23:41.000  journal    http://127.0.0.1:8765")
    assert lines[4] == "18:23:42.250  granted    alice               request 1 goes out after 250 ms in the queue"
    assert "429 rate_limit_error; attempt 2 in 1.5 s" in lines[9]
    assert lines[-1].endswith("ended in good order")


def test_show_an_alarm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was broken, of which lane, and that it was over; the other events can be left out."""
    broken = ev.InvariantBroken(2.0, "slots", "lab/1", "", "1 slot is taken, but 0 attempts are in flight.")
    over = ev.InvariantBroken(3.0, *("slots", "lab/1", "", broken.text), over=True)
    events = run()
    written(part_path(folder, NAME, 1), [*events[:-1], broken, over, events[-1]])
    out, _ = does(capsys, folder, "show", "latest", "--event", "invariant-broken")
    first, last = [line.split(maxsplit=1)[1] for line in out.splitlines()[1:]]
    assert first.endswith(f"slots: {broken.text}")
    assert "lab/1" in first
    assert last.endswith(f"slots: over: {broken.text}")


def test_show_some(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By time, agent and kind, as JSON with the time of day beside; the lines are still a journal's."""
    written(part_path(folder, NAME, 1), run())
    out, _ = does(capsys, folder, "show", NAME, "--json", "--since", "18:23:50", "--until", "13s", "--agent", "bob")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == [
        "Arrived",
        "Granted",
        "AttemptFailed",
        "Granted",
        "FirstContent",
        "Finished",
    ]
    assert lines[0]["wall"] == WALL + 10.0
    assert [event_of(line.encode()) for line in out.splitlines()] == answered(110.0, 2, "bob", retried=True)
    out, _ = does(capsys, folder, "show", NAME, "--event", "finished", "--event", "attempt-failed")
    assert len(out.splitlines()) == 4
    assert does(capsys, folder, "show", NAME, "--agent", "carol") == ("", "no such events in it\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--since", "tomorrow"], "tomorrow: no moment; a time is 18:05, 18:05:30, 2026-11-21T18:05, or so long after"),
        (["--event", "granted2"], "--event granted2: no such kind; did you mean Granted?"),
        (["--event", "xyz"], "--event xyz: no such kind; there are Arrived,"),
    ],
)
def test_what_cannot_be_shown(folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    """A moment or kind that isn't one is refused with what would be right."""
    written(part_path(folder, NAME, 1), run())
    out, err = does(capsys, folder, "show", NAME, *args, code=2)
    assert out == ""
    assert err.startswith(f"hivemind: {words}")


@pytest.mark.parametrize(
    ("text", "after_s"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("18:23", -41.0),
        ("18:24:00.5", 19.5),
        ("18:22", 86_400 - 101.0),
        ("2026-11-21T18:23:50", 9.0),
        ("2026-11-21 18:23:50+00:00", 9.0),
    ],
)
def test_moments(text: str, after_s: float) -> None:
    """Times of day are the first from the beginning on."""
    assert parse_moment(text, WALL) - WALL == after_s


@pytest.mark.parametrize("text", ["", "25:00", "18:60", "now", "2026-13-01", "\x1b[2J"])
def test_no_moments(text: str) -> None:
    """What is no moment is refused in one line."""
    with pytest.raises(UsageError) as caught:
        parse_moment(text, WALL)
    assert str(caught.value).isprintable()


def _filled(kind: type[Any]) -> dict[str, Any]:
    """Values for a kind's fields, of the sorts that a damaged line may have."""
    odd = {
        "classes": 5,
        "state": "odd",
        "arguments": {"knob": 1},
        "name": "Tune",
        "retry_in_s": None,
        "exit_code": None,
    }
    return {each.name: odd.get(each.name, "x") for each in fields(kind) if each.required}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_event_can_be_shown(kind: type[ev.Event]) -> None:
    """Whatever stands in its fields, each kind of event has a line."""
    shown = describe(kind(**_filled(kind)))
    assert all(isinstance(part, str) for part in shown)
    assert shown[3]


def test_an_events_own_words() -> None:
    """Say what a reply stated of windows, and what was written to a cache; a day that no calendar has is a number."""
    windows = (WindowReading(WindowKind.REQUESTS, None, 40, 1.5), WindowReading(WindowKind.INPUT, 5_000, None, None))
    usage = Usage(5, 0, 7, 1, cache_write_1h_tokens=3)
    assert describe(ev.LimitsRead(0.0, "lab", "m", windows))[3] == (
        "m: requests 40 of ? left, reset in 1.5 s; input ? of 5,000 left"
    )
    beside = describe(ev.Finished(0.0, 1, "ann", "lab", "m", 200, 0, usage, None))[3]
    assert beside == "m used beside: tokens: 5 in, 7 to a cache (3 for an hour), 1 out"
    assert clock()(1e300) == ("", "1e+300 s")


def test_terminals_are_safe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that a terminal would obey gets to it."""
    written(part_path(folder, NAME, 1), [began(), arrived(101.0, 1, "a\x1b[2J\nb"), Gap(102.0, 101.0, 1, "\x07")])
    out, _ = does(capsys, folder, "show", NAME)
    assert "a?[2J?b" in out
    assert out.replace("\n", "").isprintable()


def test_stats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run came to, in words and as JSON."""
    written(part_path(folder, NAME, 1), run())
    out, err = does(capsys, folder, "stats", NAME)
    assert err == ""
    facts = dict(line.strip().split("  ", 1) for line in out.partition("\n\n")[0].splitlines())
    assert facts["agents"].strip() == "2 (2 ended with an answer)"
    assert facts["attempts"].strip() == "3, 1 of them again after a fault"
    assert facts["dollars"].strip() == "$0.0123"
    _, waits, why = out.split("\n\n")
    assert waits.splitlines()[-1].split() == ["normal", "2", "250", "ms", "2", "s", "2", "s"]
    assert why.splitlines()[0] == "why requests waited:"
    assert sum(float(line.split()[-2]) for line in why.splitlines()[2:]) == pytest.approx(100, abs=1)
    figures = json.loads(does(capsys, folder, "stats", NAME, "--json")[0])
    assert (figures["requests"], figures["retries"], figures["tokens"], figures["told"]) == (2, 1, 3400, [])


def test_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is told on standard error; with something to show that isn't a failure, with nothing it is."""
    path = written(part_path(folder, NAME, 1), run())
    path.write_bytes(path.read_bytes()[:-8])
    for word in ("show", "stats"):
        out, err = does(capsys, folder, word, NAME)
        assert out
        assert err.startswith(f"hivemind: {NAME}.jsonl: the last line isn't whole")
    path.write_bytes(os.urandom(3000))
    for word in ("show", "stats"):
        out, err = does(capsys, folder, word, NAME, code=2)
        assert out == ""
        assert len(err.splitlines()) == 1


@pytest.mark.e2e
def test_a_pipe_that_closes(folder: Path) -> None:
    """Whoever reads the first lines only, gets them at once and without complaint."""
    events = [began(), opened(), *(each for n in range(5000) for each in answered(101.0 + n, n))]
    path = written(part_path(folder, NAME, 1), events)
    command = [sys.executable, "-c", "import sys; from hivemind.cli.main import main; sys.exit(main())"]
    with subprocess.Popen(
        [*command, "journal", "show", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("20")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


_WHOLE = b"".join(line_of(event) for event in run())


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes(folder: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject) -> None:
    """Whatever is changed in a journal, no command fails in another way than with a line."""
    changed = bytearray(_WHOLE)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(changed)))
        changed[place : place + data.draw(st.integers(0, 300))] = data.draw(st.binary(max_size=30) | st.just(b"e99"))
    path = part_path(folder, NAME, 1)
    path.write_bytes(changed)
    for args in (["show", str(path)], ["show", str(path), "--json"], ["stats", str(path)]):
        assert main(["journal", *args]) in (0, 2)
    for form in ("--csv", "--har"):
        assert main(["journal", "export", str(path), form, "--out", str(folder.parent / "out")]) in (0, 2)
    assert main(["journal", "ls", "--state-dir", str(folder.parent)]) in (0, 2)
    assert all(line.startswith("hivemind: ") for line in capsys.readouterr().err.splitlines())
