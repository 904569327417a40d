"""`hivemind journal export`: a journal's requests for other programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hivemind.cli.journal.options import add_file, open_named_journal, tell
from hivemind.cli.journal.stats import prices_at
from hivemind.errors import UsageError
from hivemind.journal.export.requests import requests
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.journal.write.sink import written_whole


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of `export`."""
    add_file(parser)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true", help="a row a request, for spreadsheets")
    form.add_argument(
        "--har", action="store_true", help="an entry an attempt, for browsers' tools; with recorded bodies"
    )
    parser.add_argument("--out", metavar="FILE", help="write there, readable by you alone [standard output]")


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
    tell(journal)
    return 0


def _csv(journal: Journal) -> Iterator[bytes]:
    from hivemind.journal.export.requests import rows

    return rows(requests(journal.events(FREQUENT)), journal.wall, prices_at(journal.began.wall))


def _har(journal: Journal) -> Iterator[bytes]:
    from hivemind.journal.export.har import har

    return har(requests(journal.events(FREQUENT), bodies=True), journal.began, journal.wall)
