"""Writes a simulated run as a journal, which commands take like a recorded one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hivemind import __version__
from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.journal.files import SUFFIX
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.sink import JournalSink
from hivemind.lab.simulate.overrides import Change, apply_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.whatif import Faults, simulate
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.events import Event


def write_journal(
    recording: Recording, changes: Sequence[Change], path: Path, faults: Faults, seed: int, *, force: bool = False
) -> Figures:
    """Simulate a recording and write its events atomically, readable for this user only.

    Raises: UsageError: the file can't be written, or exists and `force` is off.
    """
    path = writable(path, force=force)
    draft = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:8]}{SUFFIX}")
    sink = JournalSink(draft, _first(recording, changes, path.stem))
    ends_at = recording.began.at

    def record(event: Event) -> None:
        nonlocal ends_at
        ends_at = max(ends_at, event.at)
        sink.record(event)

    try:
        try:
            figures = simulate(recording, changes, seed=seed, faults=faults, on_event=record)
        finally:
            sink.close(ends_at)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"--out {path}: can't be written ({error.strerror})") from None
    finally:
        draft.unlink(missing_ok=True)
    return figures


def writable(path: Path, *, force: bool = False) -> Path:
    """Return the path with the suffix of journals.

    Raises: UsageError: the file exists and `force` is off, or it can't be written.
    """
    named = path
    if path.suffix != SUFFIX and not path.is_dir():
        path = path.with_name(path.name + SUFFIX)
    if path.is_dir():
        raise UsageError(f"--out {named}: can't be written (is a folder)")
    if path.exists() and not force:
        raise UsageError(f"--out {path}: is there already; --force writes over it")
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: can't be written (no such folder)")
    return path


def _first(recording: Recording, changes: Sequence[Change], name: str) -> JournalBegan:
    return replace(
        recording.began,
        journal=name,
        part=1,
        program=f"hivemind {__version__}",
        config=_config(recording, changes),
        bodies=False,
        source="what-if",
    )


def _config(recording: Recording, changes: Sequence[Change]) -> SchedulerConfig:
    config = recording.began.config
    for lane in recording.lanes.values():
        config, _ = apply_changes(changes, recording.began.config, lane)
    return config
