"""Plain lines: following a source, and printing a journal. Needs no Textual."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hivemind.console import Console, printable
from hivemind.host.summary import summary
from hivemind.text.table import show, width
from hivemind.waiting import wait_up_to
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clean, clock
from hivemind_tui.sources.base import Source

_LOOK_EVERY_S = 0.5


async def follow(source: Source, console: Console, stop: asyncio.Event) -> None:
    """Write the event lines there are and each new one, and changes of the connection and of the verdict, until `stop`
    is set."""
    last: Line | None = None
    trouble, judged = "", ("healthy", "")
    while True:
        link = source.link
        before, trouble = trouble, "" if link.lost_for_s is None else link.why
        if trouble != before:
            console.line(f"not connected: {printable(trouble)}" if trouble else "connected again")
        snapshot = source.snapshot()
        for line in new_lines(snapshot.lines, last):
            console.line(text_of(line))
            last = line
        found = snapshot.verdict
        cause = "" if found.cause is None or found.state == "healthy" else found.cause.code
        earlier, judged = judged, (found.state, cause)
        if judged != earlier and not trouble:
            console.line(clean(f"{clock(snapshot.wall)} {found.text}"))
        await wait_up_to(stop, _LOOK_EVERY_S)
        if stop.is_set():
            return


def print_journal(path: Path) -> None:
    """Print a journal's log and summary, and its damage on standard error. Raises: UsageError: unreadable."""
    from hivemind.journal.figures import FiguresFold
    from hivemind.journal.index.builder import MALFORMED, world_of
    from hivemind.journal.read.reader import open_journal
    from hivemind.prices import prices_at

    journal = open_journal(path)
    world = world_of(journal.began, prices_at(journal.began.wall))
    world.on_line = lambda line: print(text_of(line))
    last, tally = journal.began.at, FiguresFold()
    for event in journal.events():
        try:
            world.apply(event)
            tally.apply(event)
        except MALFORMED:
            journal.damage.bad_lines += 1
        last = max(last, event.at)
    show(summary(world.snapshot(last), None, width(), causes=tally.figures().causes))
    sys.stdout.flush()
    unknown = journal.began.not_recorded
    for text in (*journal.damage.messages(), *([f"not recorded: {unknown}"] if unknown else [])):
        print(f"hivemind-tui: {path.name}: {text}", file=sys.stderr)


def new_lines(lines: tuple[Line, ...], last: Line | None) -> tuple[Line, ...]:
    """Return the lines after `last`; those later than it where it is forgotten already."""
    if last is None:
        return lines
    for index in range(len(lines) - 1, -1, -1):
        if lines[index] == last:
            return lines[index + 1 :]
    return tuple(line for line in lines if line.at > last.at)


def text_of(line: Line) -> str:
    """Return one event as one line of text."""
    where = f"{line.machine:<16} " if line.machine else ""
    return clean(f"{clock(line.wall)} {line.level:<4} {line.tag:<8} {where}{line.who:<16} {line.text}")
