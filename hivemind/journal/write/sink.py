"""Journals written on the spot, as by benchmarks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler.events import Event, Sampled

_SAMPLE_EVERY_S = 0.999
"""Between two samples that are kept. A screen asks for many more than one a second."""


class JournalSink:
    """One file, and everything in it. Whatever was at the path before is replaced.

    Disk errors are raised by :meth:`close`, so that the run that calls :meth:`record` can finish.
    Raises: UsageError: the file can't be made.
    """

    def __init__(self, path: Path, began: JournalBegan) -> None:
        self.path = path
        self._cause: OSError | None = None
        self._sampled_at = -math.inf
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file: IO[bytes] = open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")  # noqa: SIM115 - close() ends it
        except OSError as error:
            raise UsageError(f"{path}: can't be written ({error.strerror})") from None
        self._put(began)

    def record(self, events: Iterable[Event]) -> None:
        """Write events, of samples about one a second."""
        for event in events:
            if type(event) is Sampled:
                if event.at < self._sampled_at + _SAMPLE_EVERY_S:
                    continue
                self._sampled_at = event.at
            self._put(event)

    def close(self, at: float) -> None:
        """End it, in good order. Raises: UsageError: something of it couldn't be written."""
        self._put(JournalEnded(at))
        try:
            self._file.close()
        except OSError as error:
            self._cause = self._cause or error
        if self._cause is not None:
            raise UsageError(f"{self.path}: couldn't be written to its end ({self._cause.strerror})")

    def _put(self, event: Event) -> None:
        if self._cause is None:
            try:
                self._file.write(line_of(event))
            except OSError as error:
                self._cause = error
