"""A process among several that serve one port together, as the server needs to know it."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hivemind.control.codec import decode_snapshot, snapshot_part
from hivemind.store.token_file import ControlKey
from hivemind.world.snapshot import Snapshot

_log = logging.getLogger(__name__)

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

    def leave(self, snapshot: Snapshot) -> None:
        """Leave the last snapshot to the supervisor, which prints one summary of all workers."""
        part = msgspec.json.encode(snapshot_part(snapshot, "", None))
        try:
            self._end(self.number).write_bytes(part)
        except OSError as error:
            _log.warning("what this worker served is missing in the summary: %s", error.strerror)

    def left(self) -> dict[int, Snapshot]:
        """Return the last snapshot of each worker that has ended in good order, by its number."""
        found = {}
        for number in range(1, self.count + 1):
            with contextlib.suppress(FileNotFoundError):
                found[number] = decode_snapshot(self._end(number).read_bytes()).snapshot
        return found

    def _end(self, number: int) -> Path:
        return self.folder / f"worker-{number}.json"

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        os.write(self.ready, READY)
        os.close(self.ready)
