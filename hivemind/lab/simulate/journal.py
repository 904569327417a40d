"""Writes simulated runs as journals, which commands take like recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from hivemind import __version__
from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.figures import Figures
from hivemind.journal.files import SUFFIX
from hivemind.journal.records import JournalEnded
from hivemind.lab.simulate.overrides import Change, apply_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import Faults, simulate
from hivemind.scheduler.events import Event
from hivemind.store.atomic import output_file


def write_journal(
    recording: Recording, changes: Sequence[Change], path: Path, faults: Faults, seed: int, *, force: bool = False
) -> Figures:
    """Simulate a recording and write its events atomically, readable for this user only.

    Raises: UsageError: the file can't be written, or exists and `force` is off.
    """
    path = writable(path, force=force)
    config, _ = apply_changes(changes, recording.began.config, next(iter(recording.lanes.values())))
    program = f"hivemind {__version__}"
    first = replace(
        recording.began,
        journal=path.stem,
        part=1,
        program=program,
        config=config,
        bodies=False,
        source="what-if",
        fleet=False,
    )
    ends_at = recording.began.at
    with output_file(path, f"--out {path}") as file:

        def record(event: Event) -> None:
            nonlocal ends_at
            ends_at = max(ends_at, event.at)
            file.write(line_of(event))

        file.write(line_of(first))
        figures = simulate(recording, changes, seed=seed, faults=faults, on_event=record)
        file.write(line_of(JournalEnded(ends_at)))
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
