"""The log as rows: lines by severity and filter, repetitions folded into one, and what a search finds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec import Struct, field

from hivemind.text.humanise import duration, plural
from hivemind.world.snapshot import Line
from hivemind_tui.state.lists import line_fields, matching

T = TypeVar("T")
SEVERITIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("", frozenset()),
    ("warnings and worse", frozenset({"info", "good"})),
    ("failures", frozenset({"info", "good", "warn"})),
    ("changes and alerts", frozenset()),
)
"""What the log can be cut down to, and the levels that are hidden then."""
PINNED = len(SEVERITIES) - 1
"""The cut to what operators changed and to alerts, of which the journal's last 24 h are kept."""
WITHIN_S = 5.0
"""A line so soon after one of the same kind is a repetition."""
_BACK = 16
"""Rows above the last one that a line may still repeat, as those of one burst alternate."""
_FOLDED = frozenset({"warn", "bad"})
"""Levels of which all of a kind are folded; of others only lines that say the same of the same agent or lane, and what
an operator did stands line by line."""
_OURS = frozenset({"agent", "aimd", "alert", "circuit", "lane", "task"})
"""Tags of lines that tell of no answer."""
_ABOUT = {"aimd": "lane", "circuit": "lane", "lane": "lane", "task": "task"}
"""What lines with these tags are about; others are about an agent."""
_NUMBERS = re.compile(r"\d[\d.,]*")


class LogRow(Struct):
    """One row: a line, or several of one kind."""

    line: Line
    """The first of them."""
    kind: tuple[str, str, str, str]
    count: int = 1
    last_at: float = 0.0
    last: str = ""
    """The text of the newest of several: a level counts as it is now."""
    who: set[str] = field(default_factory=set)
    ends: str = ""
    """What they led to: `circuit open`."""

    @property
    def name(self) -> str:
        """What it is about: a name, or how many agents, lanes or tasks."""
        return self.line.who if len(self.who) == 1 else plural(len(self.who), _ABOUT.get(self.line.tag, "agent"))

    @property
    def text(self) -> str:
        """What happened: `overloaded ×9 in 4 s -> circuit open`."""
        if self.count == 1:
            return self.line.text + self.ends
        over_s = self.last_at - self.line.at
        span = f" in {duration(max(1.0, round(over_s)))}"
        return f"{_head(self.last)} ×{self.count}{span}{self.ends}"


def rows_of(lines: Iterable[Line], words: str = "", hidden: frozenset[str] = frozenset()) -> list[LogRow]:
    """Return the rows of the lines that match a filter and whose level isn't hidden, oldest first."""
    rows: list[LogRow] = []
    for line in matching([line for line in lines if line.level not in hidden], words, line_fields):
        if (line.level in _FOLDED or not line.by) and _joined(rows, line):
            continue
        rows.append(LogRow(line, _kind(line), last_at=line.at, who={line.who}))
    return rows


class Same(Struct, Generic[T], frozen=True, eq=False):
    """Items that are told from others by being the same object, for what is remembered of them."""

    items: tuple[T, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.items is self.items

    def __hash__(self) -> int:
        return id(self.items)


@lru_cache(maxsize=4)
def rows_once(older: Same[Line], lines: Same[Line], words: str, hidden: frozenset[str]) -> Sequence[LogRow]:
    """Return the rows of older and newer lines, as :func:`rows_of`: in one frame several panels ask for them."""
    return rows_of(older.items + lines.items, words, hidden)


@lru_cache(maxsize=2)
def pinned_once(read: Same[Line], lines: Same[Line]) -> tuple[Line, ...]:
    """Return the changes by operators and the alerts, those read from the journal before those of memory."""
    kept = [line for line in lines.items if line.by or line.tag == "alert"]
    first = kept[0].at if kept else math.inf
    return (*(line for line in read.items if line.at < first), *kept)


def place(rows: Sequence[LogRow], number: int) -> tuple[float, int]:
    """Return what tells a row from the others while new ones come: its moment, and which of that moment it is."""
    at, nth = rows[number].line.at, 0
    while number > nth and rows[number - nth - 1].line.at == at:
        nth += 1
    return at, nth


def number_of(rows: Sequence[LogRow], at: float, nth: int) -> int | None:
    """Return the row in that place; None: it is gone."""
    found = [number for number, row in enumerate(rows) if row.line.at == at]
    return found[nth] if nth < len(found) else None


def _joined(rows: list[LogRow], line: Line) -> bool:
    """Add a line to the row that it repeats, or whose consequence it is; return whether there is one."""
    kind = _kind(line)
    for row in reversed(rows[-_BACK:]):
        if line.at - row.last_at >= WITHIN_S:
            continue
        same = line.level in _FOLDED or (row.line.who, row.line.text, row.line.by) == (line.who, line.text, line.by)
        if row.kind == kind and same and not row.ends:
            row.count, row.last_at, row.last = row.count + 1, line.at, line.text
            row.who.add(line.who)
            return True
        opened = line.tag == "circuit" and line.text.startswith("open")
        if opened and row.count > 1 and not row.ends and _is_failure(row.line):
            row.ends = f" -> circuit {line.text}"
            return True
    return False


def _is_failure(line: Line) -> bool:
    """Return whether it tells of an upstream's failure, of which several open a circuit; refusals of our own don't."""
    return line.tag not in _OURS and not line.text.startswith("refused")


def _kind(line: Line) -> tuple[str, str, str, str]:
    # An alert names whom it is about, and names may differ by their number alone.
    text = line.text if line.tag == "alert" else _NUMBERS.sub("", _head(line.text))
    return line.level, line.tag, line.machine, text


def _head(text: str) -> str:
    """Return what happened without what is done about it, which differs from one line to the next."""
    return text.partition("; ")[0]


def found(rows: Sequence[LogRow], words: str) -> list[int]:
    """Return the rows that a search finds, by their number."""
    if not words.strip():
        return []
    wanted = words.lower().split()
    texts = (f"{row.line.tag} {' '.join(sorted(row.who))} {row.text} {row.line.text}".lower() for row in rows)
    return [number for number, text in enumerate(texts) if all(word in text for word in wanted)]


def next_found(rows: Sequence[LogRow], words: str, back: int, step: int) -> int | None:
    """Return how far back the next row is that a search finds, upwards (1) or downwards (-1) from the one so far back;
    None: there is none."""
    backs = [len(rows) - 1 - number for number in found(rows, words)]
    if step > 0:
        return min((each for each in backs if each > back), default=None)
    return max((each for each in backs if each < back), default=None)
