"""Following a source in plain lines, and the table that closes a run. Needs no terminal and no Textual."""

from __future__ import annotations

import asyncio
from typing import Protocol

from hivemind.console import Console
from hivemind.text.humanise import short_count, short_duration, short_plural
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.render.format import clean, clock

_LOOK_EVERY_S = 0.5


class HasSnapshot(Protocol):
    """A source of event lines."""

    def snapshot(self) -> Snapshot:
        """Return the world now, with its newest lines."""


async def follow(source: HasSnapshot, console: Console, stop: asyncio.Event) -> None:
    """Write the event lines there are, and each new one, until `stop` is set."""
    last: Line | None = None
    while True:
        for line in new_lines(source.snapshot().lines, last):
            console.line(text_of(line))
            last = line
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                await stop.wait()
            return
        except TimeoutError:
            continue


def new_lines(lines: tuple[Line, ...], last: Line | None) -> tuple[Line, ...]:
    """The lines after `last`; those later than it where it is forgotten already."""
    if last is None:
        return lines
    for index in range(len(lines) - 1, -1, -1):
        if lines[index] == last:
            return lines[index + 1 :]
    return tuple(line for line in lines if line.at > last.at)


def text_of(line: Line) -> str:
    """One event as one line of text."""
    return clean(f"{clock(line.wall)} {line.level:<4} {line.tag:<8} {line.who:<16} {line.text}")


def closing_table(snapshot: Snapshot) -> str:
    """Return a table of what each agent's requests came to, and all of them together."""
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
