"""The index of a journal: made once, believed only where it fits, and no harm where it can't be made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from journal.played import BEGAN, NAME, folded, indexed, journal, opened, some

from hivemind.journal.codec import line_of
from hivemind.journal.files import part_path
from hivemind.journal.index import builder as indexing
from hivemind.journal.index import index as index_module
from hivemind.journal.index.builder import build
from hivemind.journal.index.index import IndexReader, IndexWriter, StoredBlock, index_path
from hivemind.journal.index.player import Player
from hivemind.journal.records import JournalBegan
from hivemind.records import replace
from hivemind.scheduler import events as ev

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for large journals is done for small ones."""
    monkeypatch.setattr(indexing, "EVENTS_APART", 150)
    monkeypatch.setattr(indexing, "_LOOKED_EVERY", 10)
    monkeypatch.setattr(indexing, "_SHARE", 0)


def blocks(path: Path) -> list[StoredBlock]:
    """Of the journal's index."""
    with contextlib.closing(IndexReader(index_path(path))) as reader:
        return reader.more()


def knows(path: Path) -> float:
    """The share of the journal that somebody knows who opens it."""
    with contextlib.closing(opened(path)) as player:
        at = some()[-1].at
        player.seek(at)
        assert player.known_to < 1 or player.world.snapshot(at) == folded(path, at).snapshot(at)
        return player.known_to


def test_it_is_beside_the_journal_and_nobody_elses(tmp_path: Path) -> None:
    """As the journal itself."""
    path = indexed(journal(tmp_path, some(count=300)))
    assert index_path(path).name == f"{NAME}.jsonl.index"
    assert stat.S_IMODE(index_path(path).stat().st_mode) == 0o600


def edit(path: Path) -> None:
    """In its midst, and no longer or shorter than before."""
    at = path.stat()
    text = path.read_bytes()
    path.write_bytes(text[:5000].replace(b"ann", b"eva") + text[5000:])
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns + 1))


def cut(path: Path) -> None:
    """Its last lines are gone."""
    os.truncate(path, path.stat().st_size - 500)


def write_another(path: Path) -> None:
    """Of the same name."""
    path.unlink()
    journal(path.parent, some(8))


def write_on_elsewhere(path: Path) -> None:
    """What was at the index's end isn't there any more, though the file is longer."""
    text = path.read_bytes()
    path.write_bytes(text[:-400] + line_of(ev.LaneReleased(some()[-1].at, "up/1")) * 40)


@pytest.mark.parametrize(
    "change",
    [
        edit,
        pytest.param(cut, marks=pytest.mark.slow),
        pytest.param(write_another, marks=pytest.mark.slow),
        pytest.param(write_on_elsewhere, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_one_that_does_not_fit_is_not_believed(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """And made anew as soon as somebody may."""
    path = indexed(journal(tmp_path, some()))
    assert knows(path) == 1
    change(path)
    assert knows(path) == 0
    build(path, index_path(path), priced=False)
    assert knows(path) == 1


def test_neither_is_one_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With prices where none are wanted, or of another version of this program."""
    path = indexed(journal(tmp_path, some(count=300)), priced=True)
    assert knows(path) == 0
    indexed(path)
    assert knows(path) == 1
    monkeypatch.setattr(index_module, "__version__", "9.9.9")
    assert knows(path) == 0


@given(st.floats(0, 1), st.binary(max_size=40), st.integers(0, 60))
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_whatever_is_in_the_file_nothing_breaks(share: float, rubbish: bytes, gone: int) -> None:
    """Bytes changed, taken away or put in: what can't be believed isn't, and a new one takes its place."""
    with tempfile.TemporaryDirectory() as folder:
        path = indexed(journal(Path(folder), some(count=300)))
        good = index_path(path).read_bytes()
        at = round(share * len(good))
        index_path(path).write_bytes(good[:at] + rubbish + good[at + gone :])
        assert 0 <= knows(path) <= 1
        build(path, index_path(path), priced=False)
        assert knows(path) == 1


def test_it_is_gone_on_with_where_the_journal_has_grown(tmp_path: Path) -> None:
    """What there was stays, also where the first part was full in the meantime."""
    events = some()
    third = len(events) // 3
    path = indexed(journal(tmp_path, events[:third], ended=False))
    before = index_path(path).read_bytes()
    kept = [each for each in blocks(path) if each.length][-1]
    with path.open("ab") as file:
        file.write(b"".join(line_of(event) for event in events[third : 2 * third]))
    indexed(path)
    assert index_path(path).read_bytes()[: kept.offset + kept.length] == before[: kept.offset + kept.length]
    assert knows(path) == 1
    head = JournalBegan(events[2 * third].at, BEGAN.wall + events[2 * third].at, NAME, 2, BEGAN.program)
    rest = [line_of(event) for event in events[2 * third :]]
    part_path(tmp_path, NAME, 2).write_bytes(line_of(head) + b"".join(rest))
    indexed(path)
    assert index_path(path).read_bytes()[: kept.offset] == before[: kept.offset]
    assert knows(path) == 1


def test_marks_and_columns_are_the_same_however_often_it_was_gone_on_with(tmp_path: Path) -> None:
    """Nothing is counted twice."""
    events = some()
    path = journal(tmp_path, events[:10], ended=False)
    for end in (*range(500, len(events), 700), len(events)):
        path.write_bytes(line_of(BEGAN) + b"".join(line_of(event) for event in events[:end]))
        indexed(path)
    with contextlib.closing(opened(path)) as player:
        marks, columns = [(mark.at, mark.kind) for mark in player.marks], player.overview(20)
    index_path(path).unlink()
    with contextlib.closing(opened(indexed(path))) as player:
        assert {kind for _, kind in marks} == {mark.kind for mark in player.marks}
        assert [(each.errors, each.grants) for each in player.overview(20) if each] == [
            (each.errors, each.grants) for each in columns if each
        ]


def test_only_one_makes_it_at_a_time(tmp_path: Path) -> None:
    """Whoever comes second leaves it to the first."""
    path = journal(tmp_path, some(count=300))
    with contextlib.closing(IndexWriter(index_path(path))):
        with pytest.raises(BlockingIOError):
            indexed(path)
        assert _by_a_process(path) == 0
    assert knows(path) == 0


def _by_a_process(path: Path) -> int:
    command = [sys.executable, "-P", "-m", "hivemind.journal.index.builder", str(path), str(index_path(path)), "plain"]
    return subprocess.run(command, timeout=60, check=False).returncode


def wait_for_the_index(player: Player) -> None:
    """Until the process that was started has done its work."""
    maker = player._known._maker
    assert maker is not None
    maker.wait(60)
    player.look()


def test_a_player_has_it_made(tmp_path: Path) -> None:
    """By a process of its own, which is gone with the player."""
    path = journal(tmp_path, some(count=300))
    with contextlib.closing(Player(path)) as player:
        wait_for_the_index(player)
        assert player.known_to == 1
        assert player.marks
    assert knows(path) == 1


def test_a_process_that_is_not_done_is_ended_with_its_player(tmp_path: Path) -> None:
    """Nothing is left behind."""
    player = Player(journal(tmp_path, some()))
    maker = player._known._maker
    player.close()
    assert maker is not None
    assert maker.returncode is not None


def test_where_none_can_be_beside_the_journal_it_is_elsewhere(tmp_path: Path) -> None:
    """And gone with the player."""
    path = journal(tmp_path, some(count=300))
    index_path(path).mkdir()
    with contextlib.closing(Player(path)) as player:
        wait_for_the_index(player)
        place = player._known._place
        assert place.parent != tmp_path
        player.look()
        wait_for_the_index(player)
        assert player.known_to == 1
        assert place.exists()
    assert not place.parent.exists()


def test_a_full_disk_leaves_what_was_there_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that can't be written is taken back."""
    path = indexed(journal(tmp_path, some(count=300)))
    good = index_path(path).read_bytes()
    block = blocks(path)[0].block
    with contextlib.closing(IndexWriter(index_path(path))) as writer:
        writer.cut(len(good))
        written = os.write

        def full(fd: int, data: bytes) -> int:
            if len(data) < 200:
                raise OSError(28, "No space left on device")
            return written(fd, data[:100])

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            writer.add(replace(block, marks=[]), None)
        monkeypatch.undo()
    assert index_path(path).read_bytes() == good


def test_a_moment_within_it_is_there_while_it_is_made(tmp_path: Path) -> None:
    """Whoever looks at the journal meanwhile sees the beginning exactly."""
    events = some()
    path = journal(tmp_path, events[: len(events) // 2], ended=False)
    indexed(path)
    with path.open("ab") as file:
        file.write(b"".join(line_of(event) for event in events[len(events) // 2 :]))
    with contextlib.closing(opened(path)) as player:
        assert 0.2 < player.known_to < 0.8
        at = events[len(events) // 3].at
        player.seek(at)
        assert not player.approximate
        assert player.world.snapshot(at) == folded(path, at).snapshot(at)


def test_one_that_is_being_written_is_followed(tmp_path: Path) -> None:
    """For as long as it is wanted: what comes is there soon, in any part, and nothing is there twice."""
    events = some()
    third = len(events) // 3
    path = journal(tmp_path, events[:third], ended=False)
    second = part_path(tmp_path, NAME, 2)
    known: list[float] = []
    with contextlib.ExitStack() as stack, contextlib.closing(opened(path)) as player:
        _hold(stack, path)

        def goes_on() -> bool:
            player.look()
            known.append(player.known_to)
            if len(known) == 1:
                with path.open("ab") as file:
                    file.write(b"".join(line_of(event) for event in events[third : 2 * third]))
            elif len(known) == 2:
                head = JournalBegan(events[2 * third].at, BEGAN.wall + events[2 * third].at, NAME, 2, BEGAN.program)
                second.write_bytes(line_of(head) + b"".join(line_of(event) for event in events[2 * third :]))
                _hold(stack, second)
            return len(known) < 4

        build(path, index_path(path), priced=False, goes_on=goes_on)
        player.look()
        assert (known[0], player.known_to) == (1.0, 1.0)
        assert known[2] > 0.5
        assert sum(each.block.bytes for each in blocks(path)) == path.stat().st_size + second.stat().st_size
    assert knows(path) == 1


def _hold(stack: contextlib.ExitStack, path: Path) -> None:
    """As whoever writes it does."""
    file = stack.enter_context(path.open("rb"))
    fcntl.flock(file, fcntl.LOCK_EX)
