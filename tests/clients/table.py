"""The table of real clients. `python tests/clients/table.py clients.json docs/figures` writes the manual's."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WHATS = ("identity", "tokens", "dollars", "budget", "resume", "beside")
WORLDS = ("clean", "429", "bursts", "two in flight", "cut streams", "cut, held")
"""What befalls a framework's programs."""
ANEW = "anew"
"""Stands in place of resuming where there is no session to continue."""
_TABLES = {"clients-tried.md": WHATS, "frameworks-tried.md": WORLDS}
_WAYS = ("direct", "sh -c", "wrapper", "npx", "settings", "private", "beside", "crew")


def rows_of(tried: Sequence[dict[str, Any]], whats: Sequence[str]) -> list[list[str]]:
    """Return client, version, way and a word for each of these that was looked at, below their names."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for each in tried:
        if each["found"].keys() & {ANEW, *whats}:
            rows.setdefault((each["client"], each["version"], each["way"]), {}).update(each["found"])
    order = list(dict.fromkeys(each["client"] for each in tried))
    keys = sorted(rows, key=lambda key: (order.index(key[0]), _WAYS.index(key[2])))
    head = ["client", "version", "started", *whats]
    return [head, *([*key, *(_word(rows[key], what) for what in whats)] for key in keys)]


def _word(found: dict[str, str], what: str) -> str:
    if what == "resume" and ANEW in found:
        return "no" if found[ANEW] else ANEW
    if what not in found:
        return ""
    if what in WORLDS:
        return found[what].partition(" alive")[0] or "all"
    return "no" if found[what] else "yes"


def text_of(tried: Sequence[dict[str, Any]]) -> str:
    """Return the tables for people, and what is wrong below them."""
    lines = []
    for table in (rows_of(tried, whats) for whats in _TABLES.values()):
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        rows = [zip(row, widths, strict=True) for row in table[len(table) == 1 :]]
        lines += ["  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in rows]
    lines += [
        f"{each['client']}, {each['way']}, {what}: {why}"
        for each in tried
        for what, why in each["found"].items()
        if why
    ]
    return "\n".join(lines) + "\n"


def page_of(found: dict[str, Any], whats: Sequence[str]) -> str:
    """Return one of the manual's tables; empty: nothing of it was tried."""
    head, *rows = rows_of(found["tried"], whats)
    lines = "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
    return f"Tried on {found['at']}:\n\n{lines}" if rows else ""


if __name__ == "__main__":
    source, folder = map(Path, sys.argv[1:])
    read = json.loads(source.read_text("utf-8"))
    for name, whats in _TABLES.items():
        if text := page_of(read, whats):
            (folder / name).write_text(text, "utf-8")
