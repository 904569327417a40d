"""Reading journals, whole and damaged."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from journal.lines import NAME, WALL, answered, arrived, began, opened, run, written

from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.read import cursor
from hivemind.journal.read.cursor import read_events
from hivemind.journal.read.damage import Damage, EventOrder
from hivemind.journal.read.reader import Journal, open_journal
from hivemind.journal.records import Gap, JournalBegan, JournalEnded
from hivemind.scheduler import events as ev

Told = list[str]


def read(path: Path) -> tuple[list[ev.Event], Told]:
    """All of a journal, and what is wrong with it."""
    journal = open_journal(path)
    events = list(journal.events())
    return events, journal.damage.messages()


def at(tmp_path: Path) -> Path:
    """Where a journal of that name is."""
    return tmp_path / f"{NAME}.jsonl"


def test_whole(tmp_path: Path) -> None:
    """A whole journal gives what was written, and nothing is told."""
    path = written(at(tmp_path), run())
    assert read(path) == (run(), [])
    journal = open_journal(path)
    assert [event.at for event in journal.events()][-1] == 120.0
    assert journal.damage.ended
    assert journal.wall(101.5) == WALL + 1.5


def test_torn(tmp_path: Path) -> None:
    """A last line that was cut off anywhere is told, and everything before it is read."""
    whole = written(at(tmp_path), run()).read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last + 1, len(whole) - 1):
        at(tmp_path).write_bytes(whole[:end])
        events, told = read(at(tmp_path))
        assert events == run()[:-1]
        assert told == ["the last line isn't whole: the program that wrote it was killed, or the disk was full"]


def test_rubbish_in_the_middle(tmp_path: Path) -> None:
    """Random bytes between lines cost themselves, and it is told where they are."""
    lines = [line_of(event) for event in run()]
    at(tmp_path).write_bytes(b"".join([*lines[:3], bytes(range(128, 256)) + b"\n", b"[1]\n", *lines[3:]]))
    events, told = read(at(tmp_path))
    assert events == run()
    assert len(told) == 1
    assert told[0].startswith(f"2 lines can't be read and left out; the first is line 4 of {NAME}.jsonl, which isn't a")


@pytest.mark.parametrize("depth", [20, 993, 200_000])
@pytest.mark.parametrize("version", [1, 2])
def test_deep_lines(tmp_path: Path, depth: int, version: int) -> None:
    """A line that is nested deeper than any of ours costs itself alone."""
    head = f'{{"v":{version},"event":"Commanded","at":101,"who":"a","name":"b","arguments":{{"a":'
    deep = head.encode() + b"[" * depth + b"]" * depth + b"}}\n"
    at(tmp_path).write_bytes(b"".join([*map(line_of, run()), deep, b"[" * depth + b"\n"]))
    events, told = read(at(tmp_path))
    assert events == run()
    assert told


@pytest.mark.parametrize("mark", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_editors(tmp_path: Path, mark: bytes) -> None:
    """A byte order mark, blank lines and other line ends, as editors leave them, are no damage."""
    text = b"\xef\xbb\xbf" + b"".join(line_of(event).replace(b"\n", mark) for event in run()) + mark + mark
    at(tmp_path).write_bytes(text)
    assert read(at(tmp_path)) == (run(), [])


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n"])
def test_power_loss_at_the_end(tmp_path: Path, tail: bytes) -> None:
    """A block of NUL bytes at the end is told, and everything before it is read."""
    path = written(at(tmp_path), run())
    path.write_bytes(path.read_bytes() + b"\0" * 4096 + tail)
    events, told = read(path)
    assert events == run()
    assert told == [
        f"1 line can't be read and left out; it is line 14 of {NAME}.jsonl, which holds NUL bytes, as a power loss"
        " leaves them"
    ]


def test_power_loss_before_a_line(tmp_path: Path) -> None:
    """A line that was written after the lost block is read."""
    lines = [line_of(event) for event in run()]
    at(tmp_path).write_bytes(b"".join([*lines[:5], b"\0" * 512, *lines[5:]]))
    events, told = read(at(tmp_path))
    assert events == run()
    assert "line 6" in told[0]


def test_a_very_long_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than any of ours is left out in pieces, never held as a whole."""
    monkeypatch.setattr(cursor, "LONGEST_LINE", 1 << 20)
    lines = [line_of(event) for event in run()]
    at(tmp_path).write_bytes(b"".join([*lines[:4], b"x" * (5 << 20), b"\n", *lines[4:]]))
    events, told = read(at(tmp_path))
    assert events == run()
    assert told == [f"1 line can't be read and left out; it is line 5 of {NAME}.jsonl, which is longer than 1 MiB"]


def test_gaps(tmp_path: Path) -> None:
    """What the writer had to drop is added up."""
    events = [began(), Gap(101.0, 100.5, 40, "disk full"), Gap(103.0, 102.0, 2, "disk full")]
    assert read(written(at(tmp_path), events)) == (events, ["42 events are missing in 2 gaps: disk full"])


def test_a_newer_version(tmp_path: Path) -> None:
    """Of a newer version everything that is known here is read, and it is told to update."""
    text = (
        b"".join(line_of(event) for event in run()).replace(b'"v":3', b'"v":4').replace(b'"agent"', b'"hue":1,"agent"')
    )
    at(tmp_path).write_bytes(text)
    newer = "written by a newer HiveMind (version 4, this one reads 3); update to see all"
    assert read(at(tmp_path)) == (run(), [f"{newer}; everything that is known here is read"])
    at(tmp_path).write_bytes(text.replace(b'"event":"Granted"', b'"event":"Waved"'))
    events, told = read(at(tmp_path))
    assert events == [event for event in run() if not isinstance(event, ev.Granted)]
    assert told == [f"{newer}: 3 lines aren't understood and left out"]


def test_a_newer_first_line(tmp_path: Path) -> None:
    """A first line that nobody can read here costs the time of day alone."""
    text = b'{"v":4,"event":"JournalBegan","at":{"monotonic":1}}\n' + b"".join(line_of(event) for event in run()[1:])
    at(tmp_path).write_bytes(text)
    events, told = read(at(tmp_path))
    assert events == [open_journal(at(tmp_path)).began, *run()[1:]]
    assert told == [
        "written by a newer HiveMind (version 4, this one reads 3); update to see all: 1 line isn't understood and left"
        " out",
        "its first line can't be read, so times of day are guessed by its name",
    ]
    assert open_journal(at(tmp_path)).began.wall == WALL


def test_times_without_a_name(tmp_path: Path) -> None:
    """Where neither first line nor name tells the time of day, the file's own time is that of its last line."""
    path = written(tmp_path / "copy.jsonl", run()[1:])
    os.utime(path, (5000.0, 5000.0))
    journal = open_journal(path)
    assert journal.began.wall == 5000.0 - 20.0
    assert [*journal.events()] == [journal.began, *run()[1:]]
    assert journal.damage.messages() == [
        "its first line can't be read, so times of day are guessed by when it was last written"
    ]


def test_parts(tmp_path: Path) -> None:
    """Parts are read in order; one that is missing or can't be read is told, and the later ones are read."""
    for part in (1, 2, 4):
        written(tmp_path / (f"{NAME}.jsonl" if part == 1 else f"{NAME}.{part}.jsonl"), [began(100.0 * part, part=part)])
    (tmp_path / f"{NAME}.5.jsonl").symlink_to(tmp_path)
    events, told = read(at(tmp_path))
    assert [event.part for event in events if isinstance(event, JournalBegan)] == [1, 2, 4]
    assert told == [f"{NAME}.3.jsonl is missing; what comes after it is read all the same"]
    events, told = read(tmp_path / f"{NAME}.2.jsonl")
    assert len(events) == 2
    assert told[0] == "begins with part 2: what was in the parts before isn't here"


def test_a_part_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that can't be read costs itself alone, and the first that can is the journal's beginning."""
    first = written(at(tmp_path), run()[:-1])
    second = written(tmp_path / f"{NAME}.2.jsonl", [began(130.0, part=2)])
    third = written(tmp_path / f"{NAME}.3.jsonl", [began(140.0, part=3)])
    plain_open = Path.open

    def guarded(path: Path, mode: str = "r", buffering: int = -1) -> object:
        if path == second:
            raise PermissionError(13, "Permission denied", str(path))
        return plain_open(path, mode, buffering)

    monkeypatch.setattr(Path, "open", guarded)
    journal = open_journal(first)
    assert len(list(journal.events())) == len(run())
    assert journal.parts == (first, second, third)
    assert journal.damage.messages() == [f"{second}: can't be read (Permission denied)"]
    journal = open_journal(second)
    assert (journal.path, len(list(journal.events()))) == (third, 1)
    assert journal.damage.messages() == [
        "begins with part 3: what was in the parts before isn't here",
        f"{second}: can't be read (Permission denied)",
    ]


@pytest.mark.parametrize("first", [b"", b"\0" * 4096, bytes(range(256)) * 64])
def test_a_first_part_of_which_nothing_is_left(tmp_path: Path, first: bytes) -> None:
    """The journal begins with the second, and it is told."""
    at(tmp_path).write_bytes(first)
    second = written(tmp_path / f"{NAME}.2.jsonl", [began(130.0, part=2), *run()[1:]])
    journal = open_journal(at(tmp_path))
    assert len(list(journal.events())) == len(run())
    assert (journal.path, journal.parts) == (second, (second,))
    assert [each.startswith(str(at(tmp_path))) for each in journal.damage.messages()][-1]


def test_two_in_one_file(tmp_path: Path) -> None:
    """Two journals in one file are read as if the second went on where it belongs in time, with tickets of its own."""
    other = [began(5.0, journal="other", wall=WALL + 3600.0), *answered(6.0)]
    path = written(at(tmp_path), [*run(), *other])
    events, told = read(path)
    assert [event.at for event in events[len(run()) :]] == [3700.0, 3701.0, 3701.25, 3701.75, 3702.0]
    tickets = {event.ticket for event in events if isinstance(event, ev.Finished)}
    assert len(tickets) == 3
    assert told == [f"at line 14 of {NAME}.jsonl another journal begins, other; it is read as if it went on here"]


def test_parts_in_one_file(tmp_path: Path) -> None:
    """Parts of one journal that somebody put together are one journal."""
    path = written(tmp_path / "all.jsonl", [*run()[:-1], began(115.0, part=2), JournalEnded(120.0)])
    assert read(path) == ([*run()[:-1], began(115.0, part=2), JournalEnded(120.0)], [])


@pytest.mark.parametrize("step", [-60.0, 1e12])
def test_a_clock_that_jumps(tmp_path: Path, step: float) -> None:
    """A clock that goes back, or years ahead, goes on from where it was, and that is told once."""
    later = [arrived(110.0 + step, 7), ev.Granted(111.5 + step, 7, "alice", "lane", 1, 1.5)]
    path = written(at(tmp_path), [began(), opened(), *answered(101.0), *later])
    events, told = read(path)
    assert [event.at for event in events[-2:]] == [102.0, 103.5]
    assert told == [f"the clock goes back once, the first time at line 7 of {NAME}.jsonl"]


def test_lines_a_little_out_of_order_stay(tmp_path: Path) -> None:
    """Lines of several sources may be a moment out of order, which is no damage."""
    events = [began(), opened(101.0), arrived(100.9), arrived(101.2, 2)]
    assert read(written(at(tmp_path), events)) == (events, [])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; hivemind journal list lists the journals that there are"),
        (b"\x89\xfe\x12" * 999, "isn't a journal; hivemind journal list lists the journals that there are"),
        (b"\0" * 5000, "isn't a journal; hivemind journal list lists the journals that there are"),
        (b"hello\n" * 5, "isn't a journal; hivemind journal list lists the journals that there are"),
        (b'{"v":1,"event":"Journ', "holds no whole line: the program that wrote it was killed, or the disk was full"),
        (
            b'{"v":9,"event":"Begun"}\n{"v":9,"event":"More"}\n',
            "is of version 9, and this HiveMind reads versions up to 3; update it",
        ),
        (gzip.compress(b"x"), "is packed with gzip; unpack it first, as with gunzip -k"),
        (
            b'{"log": {"version": "1.2", "entries": []}}',
            "looks like a HAR file; hivemind journal import makes a journal of it",
        ),
        (b'{\n  "log": {\n  }\n}', "looks like a HAR file; hivemind journal import makes a journal of it"),
        (b"1234:4:type;4:http;", "looks like a mitmproxy dump; hivemind journal import makes a journal of it"),
    ],
    ids=["empty", "random", "NULs", "text", "torn", "newer", "gzip", "HAR", "HAR in lines", "flows"],
)
def test_no_journals(tmp_path: Path, content: bytes, told: str) -> None:
    """What isn't a journal at all is refused in one line that says what it is."""
    at(tmp_path).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        open_journal(at(tmp_path))
    assert str(caught.value) == f"{at(tmp_path)}: {told}"


def test_utf16(tmp_path: Path) -> None:
    """A journal in another encoding is told from rubbish."""
    at(tmp_path).write_text(line_of(began()).decode(), encoding="utf-16")
    with pytest.raises(UsageError, match="is written in UTF-16"):
        open_journal(at(tmp_path))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.mkdir(), "is a folder; name one of the journals in it"),
        (lambda path: None, "no such file; hivemind journal list lists the journals that there are"),
        (lambda path: os.mkfifo(path), "isn't a file; save it as one first"),
        (lambda path: path.symlink_to(path), "can't be read (Too many levels of symbolic links)"),
    ],
    ids=["folder", "missing", "pipe", "loop"],
)
def test_no_files(tmp_path: Path, make: Callable[[Path], object], told: str) -> None:
    """What isn't a file is refused in one line, without waiting for it."""
    make(at(tmp_path))
    with pytest.raises(UsageError) as caught:
        open_journal(at(tmp_path))
    assert str(caught.value) == f"{at(tmp_path)}: {told}"


def opened_or_refused(path: Path) -> Journal | None:
    """None: it was refused, in one line."""
    try:
        return open_journal(path)
    except UsageError as error:
        refusal = str(error)
    assert refusal.isprintable()
    return None


_WHOLE = b"".join(line_of(event) for event in run())
_PIECES = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.sampled_from(_WHOLE.splitlines(keepends=True)),
        st.integers(0, len(_WHOLE)).map(lambda start: _WHOLE[start : start + 150]),
        st.sampled_from([b"\0" * 64, b"\r\n", b"\n", b"\xef\xbb\xbf", b'{"v":7,"event":"Later"}\n', b'{"v":1']),
        st.builds(lambda at: line_of(arrived(at)), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    max_size=12,
).map(b"".join)


@example(content=b"\0" * 64 + line_of(began()) + line_of(arrived(102.0)))
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_PIECES)
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    """Whatever a file holds, it is read or refused in one line; times never go back by more than a moment."""
    path = at(tmp_path)
    path.write_bytes(content)
    journal = opened_or_refused(path)
    if journal is None:
        return
    events = list(journal.events())
    assert events
    assert all(later.at - earlier.at >= -1.0 for earlier, later in pairwise(events))
    assert all("\n" not in line and line.isprintable() for line in journal.damage.messages())


def test_lines_from_anywhere() -> None:
    """Lines can come from any place, without a journal's first line."""
    damage = Damage()
    lines = [line_of(event) for event in run()[1:]]
    assert list(read_events(lines, "here", damage, EventOrder(None, damage))) == run()[1:]
    assert damage == Damage(ended=True)


def test_some_kinds_are_left_out(tmp_path: Path) -> None:
    """Kinds that nobody wants aren't given, and what is wrong is still told where it is."""
    lines = [line_of(event) for event in run()]
    at(tmp_path).write_bytes(b"".join([*lines[:6], b"rubbish\n", *lines[6:]]))
    journal = open_journal(at(tmp_path))
    without: frozenset[type[ev.Event]] = frozenset({ev.Granted, ev.FirstContent})
    assert list(journal.events(without)) == [event for event in run() if type(event) not in without]
    assert f"line 7 of {NAME}.jsonl" in journal.damage.messages()[0]
