"""`hivemind journal import`: a journal of what other programs recorded."""

from __future__ import annotations

import argparse
import sys

from hivemind.cli.journals import state_folder
from hivemind.cli.progress import Progress
from hivemind.console import print_note
from hivemind.journal.importers.making import make_journal
from hivemind.journal.importers.sources import find_sources
from hivemind.journal.importers.tables import named_columns


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    layout = None if namespace.columns is None else named_columns(namespace.columns)
    found = find_sources(namespace.source, layout)
    with Progress() as progress:
        made = make_journal(
            *(found, state_folder(namespace)), name=namespace.name, bodies=namespace.bodies, tell=progress.reading
        )
    print(f"journal {made.name}: {made.summary}")
    sys.stdout.flush()
    for line in made.notes:
        print_note(line)
    return 0
