"""Which recording a what-if is about: the one that is played, or the one that the proxy writes."""

from __future__ import annotations

import os
from pathlib import Path

from hivemind.journal.files import parts_in
from hivemind.scheduler.commands import Rejected
from hivemind.text.shells import command_line
from hivemind.world.snapshot import Snapshot
from hivemind_tui.sources.base import Link, Source


def recording_of(source: Source, snapshot: Snapshot) -> Path:
    """Return the first existing file of the recording. Raises: Rejected: none can be read here."""
    played = getattr(source, "journal", None)
    if isinstance(played, Path):
        return played
    view = snapshot.recording
    if view is None:
        raise Rejected("nothing is recorded: a demo leaves no journal, nor does a proxy with journal.enabled off")
    path = Path(view.path)
    if not os.access(path, os.R_OK) or path.is_dir():
        raise Rejected(_out_of_reach(path, source.link, view.failing))
    return _first_part(path)


def _out_of_reach(path: Path, link: Link, failing: str) -> str:
    if failing:
        return f"the journal can't be written ({failing}), so there is nothing to simulate"
    if link.kind == "attached":
        line = command_line("hivemind what-if", path.name.partition(".")[0])
        return f"{path} can't be read on this machine; over there: {line}"
    return f"{path} can't be read"


def _first_part(path: Path) -> Path:
    """Return the first part, from which the later ones are found."""
    name = path.name.partition(".")[0]
    try:
        parts = parts_in(path.parent).get(name, {})
    except OSError:
        return path
    return parts[min(parts)] if parts else path
