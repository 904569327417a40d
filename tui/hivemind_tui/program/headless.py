"""Plain lines: following a source, printing a journal, and the table that closes a run. Needs no Textual."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hivemind.console import Console, printable
from hivemind.text.humanise import short_count, short_duration, short_plural
from hivemind.world.snapshot import Line, Snapshot
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
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                await stop.wait()
            return
        except TimeoutError:
            continue


def print_journal(path: Path) -> None:
    """Print a journal's log and closing table, and its damage on standard error. Raises: UsageError: unreadable."""
    from hivemind.journal.index.builder import MALFORMED, prices_then, world_of
    from hivemind.journal.read.reader import open_journal

    journal = open_journal(path)
    world = world_of(journal.began, prices_then(journal.began))
    world.on_line = lambda line: print(text_of(line))
    last = journal.began.at
    for event in journal.events():
        try:
            world.apply(event)
        except MALFORMED:
            journal.damage.bad_lines += 1
        last = max(last, event.at)
    print(closing_table(world.snapshot(last)), flush=True)
    for text in journal.damage.messages():
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


def closing_table(snapshot: Snapshot) -> str:
    """Return a table of the requests of each agent, and the totals."""
    names = ("agent", "requests", "answered", "failed", "retried OK", "in", "out", "queued")
    head = "{:<20} {:>8} {:>8} {:>6} {:>10} {:>6} {:>6} {:>7}".format(*names)
    rows = [
        f"{clean(agent.name)[:20]:<20} {agent.requests:>8} {agent.finished:>8} {agent.failed:>6} {agent.rescued:>10}"
        f" {short_count(agent.usage.total_input):>6} {short_count(agent.usage.output_tokens):>6}"
        f" {short_duration(agent.waited_s):>7}"
        for agent in snapshot.agents
    ]
    totals = snapshot.totals
    dead = sum(1 for agent in snapshot.agents if agent.failed)
    return "\n".join(
        [
            "",
            head,
            "-" * len(head),
            *rows,
            "-" * len(head),
            f"{short_plural(len(snapshot.agents), 'agent')}, {dead} with an error; "
            f"{short_plural(totals.requests, 'request')}, {totals.finished} answered, {totals.failed} failed",
            f"{short_plural(totals.rescued, 'request')} retried OK ({short_plural(totals.agents_saved, 'agent')} "
            f"recovered, {short_count(totals.tokens_saved)} tokens saved); "
            f"{short_count(totals.wasted.total)} tokens wasted",
        ]
    )
