"""What a kill did, and what is held against it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Kill:
    """One kill."""

    victim: str
    moment: str
    lost_s: float = 0.0
    """Seconds of usage before the kill that weren't known afterwards."""
    torn_lines: int = 0
    """Damaged last lines of its journal."""
    drafts: int = 0
    """Files that a write left behind when it was cut short."""
    broken: list[str] = field(default_factory=list)

    def holds(self, true: object, promise: str) -> None:
        """Note that a promise is broken unless it is true."""
        if not true:
            self.broken.append(promise)


def running_in(folder: Path) -> dict[int, str]:
    """Return processes whose working directory is in that folder, and their command lines (Linux)."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                    if words:  # else it has ended, and waits for its parent to notice
                        found[int(entry.name)] = words
            except OSError:
                continue  # it ended just now
    return found


def drafts_in(folder: Path) -> list[Path]:
    """Return the files in that folder that a write leaves when it is cut short."""
    return [path for path in folder.rglob(".*") if path.is_file()]
