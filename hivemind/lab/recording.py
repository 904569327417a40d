"""A recorded run as the simulator needs it: who asked for what, when after what, and what became of each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemind.journal.records import JournalBegan
from hivemind.lab.figures import Figures, Price


@dataclass(frozen=True, slots=True)
class Recording:
    """One journal, read and taken apart."""

    name: str
    began: JournalBegan
    figures: Figures
    """What was recorded, counted."""
    told: tuple[str, ...]
    """What is wrong with the journal, a line each (:meth:`hivemind.journal.reader.Damage.told`)."""


def load(path: Path, price: Price | None = None) -> Recording:
    """Read a journal and fit what is needed of it.

    Raises: UsageError: it can't be read, or no request is in it.
    """
    raise NotImplementedError


def load_all(paths: Sequence[Path], price: Price | None = None) -> tuple[Recording, ...]:
    """Raises: UsageError."""
    return tuple(load(path, price) for path in paths)
