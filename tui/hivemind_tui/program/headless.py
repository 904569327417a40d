"""Following a source in plain lines, and the table that closes a run. Needs no terminal and no Textual."""

from __future__ import annotations

import asyncio
from typing import Protocol

from hivemind.console import Console
from hivemind.text.humanise import short_count, short_duration, short_plural
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.render.format import clean, clock

_LOOK_EVERY_S = 0.5


class Told(Protocol):
    """Something that things happen to."""

    def snapshot(self) -> Snapshot:
        """The world now, with its newest lines."""


async def follow(source: Told, console: Console, stop: asyncio.Event) -> None:
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
    """What became of each agent, and of all of them together."""
    head = f"{'agent':<20} {'asked':>6} {'answered':>8} {'failed':>6} {'rescued':>7} {'in':>6} {'out':>6} {'queued':>7}"
    rows = [
        f"{clean(agent.name)[:20]:<20} {agent.requests:>6} {agent.finished:>8} {agent.failed:>6} {agent.rescued:>7}"
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
            f"{short_plural(totals.rescued, 'error')} no agent saw ({short_plural(totals.agents_saved, 'agent')} "
            f"saved, {short_count(totals.tokens_saved)} tokens with them); "
            f"{short_count(totals.wasted.total)} tokens wasted",
        ]
    )
