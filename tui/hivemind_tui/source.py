"""Where the screen gets the world from and sends commands to: it can't tell one source from another."""

from __future__ import annotations

from typing import Protocol

from hivemind.scheduler.commands import Command
from hivemind.snapshot import Snapshot


class Source(Protocol):
    """Something that can be watched and steered: a proxy in this process, one elsewhere, or a recording."""

    def snapshot(self) -> Snapshot:
        """The world now. Cheap enough to call several times a second, and never blocks."""

    def apply(self, command: Command, who: str) -> None:
        """Carry a command out.

        Raises: hivemind.scheduler.commands.Rejected, whose text says why and what would be right.
        """
