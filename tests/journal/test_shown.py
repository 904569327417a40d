"""That a journal is written, and how that goes, is shown wherever the proxy is."""

from __future__ import annotations

import msgspec
import pytest

from hivemind.api_types import SnapshotPart
from hivemind.cli.operator.status import as_facts, shown
from hivemind.control.app import as_json
from hivemind.control.codec import decode_snapshot, snapshot_part
from hivemind.control.metrics import rendered
from hivemind.records import replace
from hivemind.scheduler.events import RecordingChanged
from hivemind.world.snapshot import RecordingView, Snapshot
from hivemind.world.world import World

WELL = RecordingView("/state/journals/a.jsonl", 18_200_000, 0, "")
LOST = replace(WELL, lost=1234)
FAILING = replace(LOST, failing="No space left on device")


def snapshot(recording: RecordingView | None) -> Snapshot:
    return replace(World(at=0.0, wall=0.0, address="here", upstreams=()).snapshot(1.0), recording=recording)


def part(recording: RecordingView | None) -> SnapshotPart:
    return snapshot_part(snapshot(recording), "run", None)


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (WELL, "journal    17.4 MiB  /state/journals/a.jsonl"),
        (LOST, "journal    17.4 MiB  /state/journals/a.jsonl, 1,234 events missing"),
        (FAILING, "can't be written now (No space left on device)"),
    ],
)
def test_status(recording: RecordingView, said: str) -> None:
    """One line, which says what is wrong."""
    (line,) = [line for line in shown(part(recording), None) if line.startswith("journal")]
    assert said in line
    assert as_facts(part(recording))["recording"] == recording


def metrics(recording: RecordingView | None) -> str:
    """All of them, as text."""
    return "".join(rendered(snapshot(recording), (), 3, open_metrics=False))


def test_no_journal() -> None:
    """Nothing is said of it."""
    assert [line for line in shown(part(None), None) if "journal" in line] == []
    assert "hivemind_journal" not in metrics(None)


def test_metrics() -> None:
    """Bytes, what is missing, and whether it fails."""
    text = metrics(FAILING)
    assert f"hivemind_journal_bytes_total {FAILING.bytes}\n" in text
    assert "hivemind_journal_events_lost_total 1234\n" in text
    assert "hivemind_journal_failing 1\n" in text
    assert "hivemind_journal_failing 0\n" in metrics(LOST)


@pytest.mark.parametrize("recording", [None, WELL, FAILING])
def test_elsewhere(recording: RecordingView | None) -> None:
    """A screen elsewhere is told the same, and so is whoever asks for /_stats."""
    assert decode_snapshot(msgspec.json.encode(part(recording))).snapshot.recording == recording
    shown = msgspec.json.decode("".join(as_json(snapshot(recording))))["recording"]
    assert shown == (None if recording is None else {name: getattr(recording, name) for name in shown})


def test_lines_of_the_log() -> None:
    """One when it begins to fail, and one when it is over."""
    world = World(at=0.0, wall=0.0, address="", upstreams=())
    for event in (RecordingChanged(1.0, "the disk is too slow", 0), *(RecordingChanged(2.0, "", n) for n in (0, 1))):
        world.apply(event)
    lines = [(line.level, line.tag, line.text) for line in world.snapshot(3.0).lines]
    assert lines == [
        ("bad", "journal", "can't be written (the disk is too slow); what happens now may be missing in it"),
        ("good", "journal", "goes on; 0 events are missing"),
        ("good", "journal", "goes on; 1 event is missing"),
    ]
