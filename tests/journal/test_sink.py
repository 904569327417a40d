"""A journal written as it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.journal.write.sink import JournalSink
from hivemind.scheduler.events import BoostEnded, Sampled

BEGAN = JournalBegan(10.0, 1_800_000_000.0, "run", 1, "hivemind test")


def test_it_reads_back(tmp_path: Path) -> None:
    """The folder is made, and what was recorded stands there in order, between a first line and a last."""
    sink = JournalSink(tmp_path / "new" / "run.jsonl", BEGAN)
    sink.record([BoostEnded(11.0, "alice")])
    sink.close(12.0)
    journal = open_journal(sink.path)
    assert list(journal.events()) == [BEGAN, BoostEnded(11.0, "alice"), JournalEnded(12.0)]
    assert journal.damage.ended
    assert (sink.path.stat().st_mode & 0o777, sink.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_samples_are_thinned(tmp_path: Path) -> None:
    """One a second is kept, however often a screen asks."""
    sink = JournalSink(tmp_path / "run.jsonl", BEGAN)
    sink.record(Sampled(10.0 + tenth / 10, ()) for tenth in range(31))
    sink.close(14.0)
    assert [round(each.at, 1) for each in open_journal(sink.path).events() if isinstance(each, Sampled)] == [
        10.0,
        11.0,
        12.0,
        13.0,
    ]


def test_a_file_that_cannot_be_made_is_told_at_once(tmp_path: Path) -> None:
    """One line with the path, before anything ran."""
    (tmp_path / "run.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"run\.jsonl: can't be written \(Is a directory\)"):
        JournalSink(tmp_path / "run.jsonl", BEGAN)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told_at_the_end(tmp_path: Path) -> None:
    """The run goes on, and closing says that the journal isn't whole."""
    full = tmp_path / "run.jsonl"
    full.symlink_to("/dev/full")
    sink = JournalSink(full, BEGAN)
    sink.record(BoostEnded(11.0, f"agent-{number}") for number in range(1_000))
    with pytest.raises(UsageError, match="couldn't be written to its end"):
        sink.close(12.0)
