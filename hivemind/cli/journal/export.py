"""`hivemind journal export`: a journal's requests for other programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hivemind.cli.journals import open_named_journal, prices_at, print_damage
from hivemind.errors import UsageError
from hivemind.journal.export.requests import requests
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.journal.write.sink import written_whole


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    journal = open_named_journal(namespace)
    pieces = _csv(journal) if namespace.csv else _har(journal)
    if namespace.out in (None, "-"):
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    else:
        path = Path(namespace.out).expanduser()
        if any(path.exists() and path.samefile(part) for part in journal.parts):
            raise UsageError(f"--out {path}: is the journal itself")
        with written_whole(path) as file:
            file.writelines(pieces)
    print_damage(journal)
    return 0


def _csv(journal: Journal) -> Iterator[bytes]:
    from hivemind.journal.export.requests import rows

    return rows(requests(journal.events(FREQUENT)), journal.wall, prices_at(journal.began.wall))


def _har(journal: Journal) -> Iterator[bytes]:
    from hivemind.journal.export.har import har

    return har(requests(journal.events(FREQUENT), bodies=True), journal.began, journal.wall)
