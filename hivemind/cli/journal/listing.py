"""`hivemind journal ls`: the journals of a proxy."""

from __future__ import annotations

import argparse
import sys
import time

from hivemind.cli.journals import state_folder
from hivemind.console import print_json, print_note, printable
from hivemind.journal.files import folder_in
from hivemind.journal.read.reader import Listed, listed
from hivemind.text.humanise import duration, size
from hivemind.text.table import Cell, Column, lines, show, width

_COLUMNS = (
    Column("JOURNAL"),
    Column("BEGUN", spare=1),
    Column("LENGTH", right=True),
    Column("PARTS", right=True, spare=4),
    Column("SIZE", right=True, spare=2),
    Column("REQUESTS", right=True, spare=3),
    Column("FROM", spare=5),
    Column("END"),
)
_ENDS = {"still being written": "good", "cut off": "warn", "ended": "dim"}


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    folder = folder_in(state_folder(namespace))
    found, wrong = listed(folder)
    if namespace.json:
        print_json(found)
    elif not found:
        print(f"no journals in {folder}")
    else:
        show(lines(_COLUMNS, [_row(each) for each in found], width()))
    sys.stdout.flush()
    for line in wrong:
        print_note(line)
    return 2 if wrong and not found else 0


def _row(journal: Listed) -> list[Cell | str]:
    return [
        journal.name,
        _moment(journal.began),
        duration(journal.length_s),
        f"{journal.parts:,}",
        size(journal.bytes),
        "" if journal.requests is None else f"{journal.requests:,}",
        "" if journal.source == "proxy" else printable(journal.source),
        Cell(journal.end, _ENDS.get(journal.end, "")),
    ]


def _moment(wall: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
    except (OverflowError, ValueError, OSError):
        return "no such time"
