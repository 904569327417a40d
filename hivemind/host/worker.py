"""A process among several that serve one port together, as the server needs to know it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hivemind.store.token_file import ControlKey

READY = b"ready\n"


@dataclass(frozen=True, slots=True)
class Worker:
    """A process's place among the workers of one port."""

    number: int
    """From 1 on; a worker that is started anew keeps it."""
    count: int
    port: int
    """That all of them listen on."""
    key: ControlKey | None
    """Of the control API of all; None: it is off."""
    folder: Path
    """Private to this user and these workers."""
    supervisor: int
    """Process id."""
    ready: int
    """File that the supervisor reads."""

    def socket(self, number: int) -> Path:
        """Return the unix socket on which a worker answers the others."""
        return self.folder / f"worker-{number}.sock"

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        os.write(self.ready, READY)
        os.close(self.ready)
