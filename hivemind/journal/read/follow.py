"""A journal while it is written: what is there, and then what comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hivemind.journal.files import part_of, part_path
from hivemind.journal.read.head import opened
from hivemind.journal.read.normalise import EventOrder
from hivemind.journal.read.reader import Journal, read_events
from hivemind.journal.write.segment import being_written
from hivemind.scheduler.events import Event


def follow(journal: Journal, rest: Callable[[], object]) -> Iterator[Event]:
    """Every event, until the journal ends or nobody writes it any more; `rest` is called while there is nothing new.

    Raises: UsageError: a part of it can't be read.
    """
    journal.damage = damage = journal.known_damage()
    order = EventOrder(journal.began, damage)
    if journal.guessed:
        yield journal.began
    path: Path | None = journal.parts[0]
    while path is not None:
        following = _following(path)
        with opened(path) as file:
            yield from read_events(_growing(file, path, following, rest), path.name, damage, order)
        path = following if following is not None and following.exists() else None


def _following(path: Path) -> Path | None:
    """Where the next part will be."""
    named = part_of(path.name)
    return None if named is None else part_path(path.parent, named[0], named[1] + 1)


def _growing(file: IO[bytes], path: Path, following: Path | None, rest: Callable[[], object]) -> Iterator[bytes]:
    """Lines as they become whole. Ends where the next part is there, or nobody writes this one; looked up before the
    last look into the file, so that nothing written in between is missed."""
    begun = b""
    while True:
        over = (following is not None and following.exists()) or not being_written(path)
        while line := file.readline():
            begun += line
            if begun.endswith(b"\n"):
                yield begun
                begun = b""
        if over:
            break
        rest()
    if begun:
        yield begun
