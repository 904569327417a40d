"""A short summary for a pull request, in GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hivemind.lab.report import headline, output, tables
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.tables import Table
from hivemind.lab.report.theme import clean, shortened
from hivemind.text.humanise import duration

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
"""What Markdown, HTML or GitHub (mathematics, numbers of issues) would take for more than a sign."""
_LINK = re.compile(r"(?i)@|#(?=\d)|\bgh(?=-\d)|\b(?:https?|ftp|mailto|xmpp)(?=:)|\bwww(?=\.)|(?<!\d):(?=[\w+-]+:)")
"""After these GitHub makes links, mentions and small pictures of what follows, escaped or not."""
_AT_START = re.compile(r"^(\d*)([-+=]|(?<=\d)[.)])(?=\s|[-=]|$)")
"""At the beginning of a line, what would make it a list or a heading."""
_JOINER = "\N{WORD JOINER}"
"""Unseen; keeps two signs from being read as one thing."""


def build(run: RecordedRun, title: str = "") -> str:
    """The summary of a run, with a line's end at its end."""
    heading = shortened(title, 200) or f"HiveMind run {shortened(run.began.journal)}"
    parts = [
        output.MARKS[1],
        f"### {escaped(heading)}",
        f"{escaped(run.date)}, recorded for {escaped(duration(run.fold.ended_at))}",
        *(f"> {escaped(clean(note))}" for note in run.notes),
        _table(
            Table(("what", ">figure", "more"), [[each.what, each.value, each.more] for each in headline.facts(run)])
        ),
        f"**{headline.saving_title(run)}**",
        "\n".join(escaped(line) for line in headline.saving(run)),
    ]
    for name, table in (
        ("Faults", tables.faults(run)),
        ("Waits", tables.waits(run)),
        ("Settings that differ from the defaults", tables.settings(run)),
    ):
        if table.rows:
            parts += [f"**{name}**", _table(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """A text that Markdown takes as it is, on one line."""
    shown = _LINK.sub(rf"\g<0>{_JOINER}", " ".join(text.split()))
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", shown))


def _table(table: Table) -> str:
    lines = [
        _line(table.titles),
        _line(["---:" if numeric else "---" for numeric in table.numeric], plain=True),
        *(_line(row) for row in table.rows),
    ]
    return "\n".join((*lines, f"\n{escaped(table.note)}")) if table.note else "\n".join(lines)


def _line(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(each if plain else escaped(each) for each in cells)} |"
