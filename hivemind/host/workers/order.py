"""What a supervisor hands to each worker."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hivemind.host.worker import Worker
from hivemind.settings import Settings


@dataclass(frozen=True, slots=True)
class Order:
    """All that a worker needs to know. It passes through a pipe, so no command line shows it."""

    worker: Worker
    settings: Settings
    settings_file: Path | None

    def write(self, pipe: IO[bytes]) -> None:
        """Hand the order to a process that reads it from its standard input."""
        pickle.dump(self, pipe)
