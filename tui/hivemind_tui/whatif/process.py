"""The process that simulates, and which recording it is asked about."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hivemind.journal.files import parts_in
from hivemind.scheduler.commands import Rejected
from hivemind.text.shells import command_line
from hivemind.world.snapshot import Snapshot
from hivemind_tui.loop.child import AskedProcess
from hivemind_tui.sources.base import Source
from hivemind_tui.whatif.protocol import MESSAGES, Message, Progress, Question, WhatIfFailed

_COMMAND = (sys.executable, "-P", "-m", "hivemind_tui.whatif.worker")


class SimulationProcess(AskedProcess[Question, Message]):
    """The child that simulates."""

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        super().__init__(command, MESSAGES, Progress, WhatIfFailed, "the simulation")


def recording_of(source: Source, snapshot: Snapshot, command: str = "hivemind what-if") -> Path:
    """Return the first existing file of the recording. `command` does with one what is wanted here.

    Raises: Rejected: none can be read here; the text names the command that reads it where it is.
    """
    played = getattr(source, "journal", None)
    if isinstance(played, Path):
        return played
    view = snapshot.recording
    if view is None:
        raise Rejected("nothing is recorded; a proxy writes a journal unless journal.enabled is off")
    path = Path(view.path)
    name = path.name.partition(".")[0]
    if not os.access(path, os.R_OK) or path.is_dir():
        if view.failing:
            raise Rejected(f"the journal can't be written ({view.failing}), so there is nothing to read")
        line = command_line(command, name)
        there = f" on this machine; over there: {line}" if source.link.kind == "attached" else ""
        raise Rejected(f"{path} can't be read{there}")
    try:
        parts = parts_in(path.parent).get(name, {})
    except OSError:
        return path
    return parts[min(parts)] if parts else path
