"""A batch's progress in a terminal: lines while it runs, updated in place, and a table at its end.

Widths are terminal cells.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from msgspec import Struct
from msgspec.structs import asdict

from hivemind.console import Console, printable
from hivemind.text.humanise import dollars, plural, short_count, short_duration, usage

NOTHING = "-"
ENDS = ("done", "failed", "cancelled", "skipped", "blocked")
_AT_WORK = ("running", "queued", "delayed", "stopping")
_STATES = (*_AT_WORK, "ready", "paused", "stopped", "waiting", *ENDS[1:])
_WIDTHS = {"try": 3, "time": 6, "tokens": 6, "cost": 8}
_LEAST_WHY = 18
_LONGEST_NAME = 48
_LISTED = 8
"""Log files named at the end, of tasks that failed."""
_SIGNS = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "warn": "33"}
_TONES = {
    "done": "good",
    "failed": "bad",
    "blocked": "warn",
    "skipped": "warn",
    "cancelled": "warn",
    "paused": "warn",
    "stopped": "warn",
}


class TaskRow(Struct):
    """A task of the batch, with all its attempts."""

    task: str
    agent: str
    state: str
    """A state of the graph, or `queued` for a place, `delayed` before it starts again, `stopped` with the runner."""
    attempts: int = 0
    exit_code: int | None = None
    """Of the last attempt; negative: the signal that ended it."""
    note: str = ""
    seconds: float | None = None
    """Over all attempts; None: it was never started."""
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    """Tokens without a known price."""
    log: Path | None = None
    worktree: str | None = None
    """The folder of its worktree, if it left one."""
    checkpoint: str | None = None
    """What was kept of its agent at its last end."""
    estimated: int = 0
    """Of the tokens, those that the providers didn't state."""


class BatchProgress(Struct, frozen=True):
    """The batch at one moment."""

    batch: str
    rows: Sequence[TaskRow]
    elapsed_s: float
    logs: Path
    notice: str = ""
    """What keeps it from continuing."""
    next: Sequence[str] = ()
    """Tasks that are ready, best first."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many tasks are in each state."""
        return Counter(row.state for row in self.rows)

    @property
    def complete(self) -> bool:
        """Every task is done."""
        return all(row.state == "done" for row in self.rows)


class Ink:
    """A terminal's colours, or none of them."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, tone: str) -> str:
        """Return the text in one of the tones."""
        sign = _SIGNS.get(tone)
        return f"\x1b[{sign}m{text}\x1b[0m" if self._on and sign and text.strip() else text


def live(standing: BatchProgress, width: int, height: int, ink: Ink) -> list[str]:
    """Return the lines that change in place, at most `height` of at most `width` cells."""
    counts, rows = standing.counts, standing.rows
    states = [f"{counts[state]} {state}" for state in _STATES if counts.get(state)]
    lines = [_headline(standing, width, ink), ink(fit(", ".join(states) or "nothing left", width), "dim")]
    if any(row.tokens for row in rows):
        lines.append(ink(fit(usage_of(rows), width), "dim"))
    if standing.notice:
        lines.append(ink(fit(standing.notice, width), "warn"))
    last = [ink(fit("  next: " + ", ".join(standing.next), width), "dim")] if standing.next else []
    room = height - len(lines) - len(last) - 1
    running = [row for row in rows if row.state in _AT_WORK]
    shown = running if len(running) <= room else running[: max(0, room - 1)]
    if shown:
        lines += _running(shown, max(len(row.task) for row in rows), width, ink)
        if len(shown) < len(running):
            lines.append(ink(f"  and {len(running) - len(shown)} more", "dim"))
    return [*lines, *last][:height]


def _headline(standing: BatchProgress, width: int, ink: Ink) -> str:
    counts, total = standing.counts, max(1, len(standing.rows))
    done, bad = counts.get("done", 0), sum(counts.get(state, 0) for state in ENDS[1:])
    right = f"  {done} of {len(standing.rows)} done  {short_duration(standing.elapsed_s)}"
    cells = min(40, width - len(standing.batch) - len(right) - 2)
    if cells < 8:
        return ink(fit(standing.batch + right, width), "bold")
    full = done * cells // total
    spoiled = min(cells - full, -(-bad * cells // total))
    bar = ink("━" * full, "good") + ink("━" * spoiled, "bad") + ink("─" * (cells - full - spoiled), "dim")
    return f"{ink(standing.batch, 'bold')}  {bar}{right}"


def _running(rows: Sequence[TaskRow], longest: int, width: int, ink: Ink) -> Iterator[str]:
    """Yield the table of tasks at work; `longest` is the length of all tasks' longest name, so that columns stay."""
    odd = any(row.state != "running" for row in rows) and width >= 48
    columns = [column for column, least in (("try", 0), ("time", 0), ("tokens", 40), ("cost", 56)) if width >= least]
    room = sum(_WIDTHS[column] + 1 for column in columns) + (10 if odd else 0)
    name = max(7, min(width - room - 2, longest, _LONGEST_NAME))
    head = " ".join(f"{column:>{_WIDTHS[column]}}" for column in columns)
    yield ink(fit(f"  {'running':<{name}} {' ' * 10 if odd else ''}{head}", width), "dim")
    for row in rows:
        cells = {"try": str(row.attempts) if row.attempts > 1 else "", "time": _time(row)}
        cells |= {"tokens": _tokens(row), "cost": _cost(row)}
        state = f"{'' if row.state == 'running' else row.state:<9} " if odd else ""
        text = " ".join(f"{cells[column]:>{_WIDTHS[column]}}" for column in columns)
        line = fit(f"  {fit(row.task, name):<{name}} {state}{text}", width)
        yield line if row.state == "running" else ink(line, "dim")


def closing(standing: BatchProgress, width: int, ink: Ink) -> list[str]:
    """Return the table at the end, and the totals."""
    rows = standing.rows
    used = any(row.tokens for row in rows)
    fixed = 29 + (16 if used else 0)
    why = min(_LEAST_WHY, max((len(_why(row)) for row in rows), default=0))
    name = max(4, min(max((len(row.task) for row in rows), default=4), max(12, width - fixed - why)))
    room = max(0, width - name - fixed)
    head = f"{'task':<{name}} {'state':<9} {'try':>3} {'exit':>4} {'time':>6}"
    lines = [ink(fit(head + (f" {'tokens':>6} {'cost':>8}" if used else "") + "  why", width), "dim")]
    for row in rows:
        state = ink(f"{row.state:<9}", _TONES.get(row.state, ""))
        code = NOTHING if row.exit_code is None else row.exit_code
        cells = f" {row.attempts or NOTHING:>3} {code:>4} {_time(row):>6}"
        cells += f" {_tokens(row):>6} {_cost(row):>8}" if used else ""
        lines.append(f"{fit(row.task, name):<{name}} {state}{cells}  {fit(_why(row), room)}".rstrip())
    lines += ["", _totals(standing, ink)]
    failed = [row for row in rows if row.state == "failed" and row.log is not None]
    lines += [f"{ink('failed', 'bad')}: {row.task} ({row.note}), {row.log}" for row in failed[:_LISTED]]
    if len(failed) > _LISTED:
        lines.append(f"and {len(failed) - _LISTED} more that failed")
    lines.append(f"logs: {standing.logs}/TASK.log")
    return lines


def as_json(standing: BatchProgress) -> dict[str, object]:
    """Return the progress for programs."""
    rows = standing.rows
    tasks = [asdict(row) for row in rows]
    for task in tasks:
        task["unpriced_tokens"], task["estimated_tokens"] = task.pop("unpriced"), task.pop("estimated")
        task["seconds"] = None if task["seconds"] is None else round(task["seconds"], 3)
        task["log"] = None if task["log"] is None else str(task["log"])
    return {
        "batch": standing.batch,
        "complete": standing.complete,
        "seconds": round(standing.elapsed_s, 3),
        "tokens": sum(row.tokens for row in rows),
        "dollars": sum(row.dollars for row in rows),
        "unpriced_tokens": sum(row.unpriced for row in rows),
        "estimated_tokens": sum(row.estimated for row in rows),
        "counts": dict(standing.counts),
        "tasks": tasks,
    }


def fit(text: str, width: int) -> str:
    """Return the text in at most so many cells, without control characters."""
    text = clean(text)
    return text if len(text) <= width else text[: max(0, width - 1)] + "…" if width > 0 else ""


def clean(text: str) -> str:
    """Return the text on one line, without control characters."""
    return printable(text, " ")


def _why(row: TaskRow) -> str:
    return "" if row.state == "done" else row.note


def _tokens(row: TaskRow) -> str:
    return f"{'~' if row.estimated else ''}{short_count(row.tokens)}" if row.tokens else NOTHING


def _cost(row: TaskRow) -> str:
    return dollars(row.dollars, row.unpriced) if row.tokens else NOTHING


def _time(row: TaskRow) -> str:
    return NOTHING if row.seconds is None else short_duration(row.seconds)


def usage_of(rows: Sequence[TaskRow]) -> str:
    """Return what all tasks have used: `45,123 tokens, $0.42 (1,204 tokens estimated)`."""
    tokens, amount = sum(row.tokens for row in rows), sum(row.dollars for row in rows)
    return usage(tokens, amount, sum(row.unpriced for row in rows), sum(row.estimated for row in rows))


def _totals(standing: BatchProgress, ink: Ink) -> str:
    counts = standing.counts
    states = [*ENDS, *(state for state in counts if state not in ENDS)]
    parts = [ink(f"{counts[state]} {state}", _TONES.get(state, "")) for state in states if counts.get(state)]
    tasks = f"{plural(len(standing.rows), 'task')}, {', '.join(parts)}"
    return f"{standing.batch}: {tasks}; {short_duration(standing.elapsed_s)}, {usage_of(standing.rows)}"


_MOST_LINES = 16
"""Lines that change in place, so that some of the log is visible."""


class Screen:
    """Lines on a stream, the last ones of a terminal updated in place. A thread writes them, because a terminal may
    block. With `write` and `flush`, so that a log handler can use it."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str], size: Callable[[], tuple[int, int]]) -> None:
        terminal = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        self.live = terminal
        self.ink = Ink(terminal and not environ.get("NO_COLOR"))
        self._size = size
        self._stream = stream
        self._closed = False
        self._console = Console(stream)
        self._shown: list[str] = []

    def say(self, text: str, tone: str = "") -> None:
        """Write a line that stays. Lines of tone `start` are left out on a terminal, which shows what runs."""
        if self._closed:
            print(clean(text), file=self._stream, flush=True)
        elif tone != "start" or not self.live:
            self._put([self.ink(clean(text), tone)], self._shown)

    def show(self, standing: BatchProgress | None) -> None:
        """Replace the lines that change in place; None removes them."""
        if standing is None:
            self._put([], [])
        elif self.live:
            width, height = self._size()
            self._put([], live(standing, max(20, width - 1), max(3, min(_MOST_LINES, height - 2)), self.ink))

    def close(self) -> None:
        """Remove the lines that change in place, and wait until all is written."""
        self._put([], [])
        self._console.close()
        self._closed = True

    def write(self, text: str) -> int:
        """Write whole lines that stay."""
        self._put(text.splitlines(), self._shown)
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread flushes."""

    def _put(self, stay: list[str], shown: list[str]) -> None:
        if not stay and shown == self._shown:
            return
        # Move the cursor to the first of the old lines, and clear from there.
        back = f"\x1b[{len(self._shown)}F\x1b[J" if self._shown else ""
        self._shown = shown
        self._console.write(back + "".join(f"{line}\n" for line in [*stay, *shown]))


def size_of(stream: TextIO) -> Callable[[], tuple[int, int]]:
    """Return a function that returns a terminal's present width and height."""

    def size() -> tuple[int, int]:
        try:
            found = os.get_terminal_size(stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return found.columns or 80, found.lines or 24

    return size
