"""The table of real clients. `python tests/clients/table.py clients.json docs/figures` writes the manual's."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WHATS = ("identity", "tokens", "dollars", "budget", "resume", "beside")
ANEW = "anew"
"""Stands in place of resuming where there is no session to continue."""
_WAYS = ("direct", "sh -c", "wrapper", "npx", "settings", "private", "beside")


def rows_of(tried: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return client, version, way and a word for each thing that was looked at."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for each in tried:
        rows.setdefault((each["client"], each["version"], each["way"]), {}).update(each["found"])
    order = list(dict.fromkeys(each["client"] for each in tried))
    keys = sorted(rows, key=lambda key: (order.index(key[0]), _WAYS.index(key[2])))
    return [[*key, *(_word(rows[key], what) for what in WHATS)] for key in keys]


def _word(found: dict[str, str], what: str) -> str:
    if what == "resume" and ANEW in found:
        return "no" if found[ANEW] else ANEW
    return "" if what not in found else "no" if found[what] else "yes"


def text_of(tried: Sequence[dict[str, Any]]) -> str:
    """Return the table for people, and what is wrong below it."""
    table = [["client", "version", "started", *WHATS], *rows_of(tried)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines += [
        f"{each['client']}, {each['way']}, {what}: {why}"
        for each in tried
        for what, why in each["found"].items()
        if why
    ]
    return "\n".join(lines) + "\n"


def page_of(found: dict[str, Any]) -> str:
    """Return the manual's table."""
    head = ["client", "version", "started", *WHATS]
    rows = [head, ["---"] * len(head), *rows_of(found["tried"])]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"Tried on {found['at']}:\n\n{lines}"


if __name__ == "__main__":
    source, folder = map(Path, sys.argv[1:])
    (folder / "clients-tried.md").write_text(page_of(json.loads(source.read_text("utf-8"))), "utf-8")
