"""Writing knobs into hivemind.toml: first what would change, then, once somebody has looked at it, the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Draft:
    """A settings file as it is and as it would be."""

    path: Path
    before: str
    """Empty where there is no file yet."""
    after: str

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines that differ with a few around them, as `diff -u` has them; empty where nothing would change."""
        raise NotImplementedError


def draft(path: Path, values: Mapping[str, float]) -> Draft:
    """The file with these knobs set, everything else in it, comments too, as it was.

    Raises: Rejected: it can't be read, isn't TOML, or a value isn't one the settings take.
    """
    raise NotImplementedError


def write(draft: Draft) -> None:
    """Write it, whole or not at all.

    Raises: Rejected: it can't be written, or isn't any more what was drafted on.
    """
    raise NotImplementedError
