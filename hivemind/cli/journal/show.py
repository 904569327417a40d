"""`hivemind journal show`: a journal's events as lines, as far as they are wanted."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from hivemind.cli.journals import open_named_journal, print_damage
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.journal.codec import KINDS, line_of
from hivemind.journal.event_text import clock, describe
from hivemind.journal.files import parse_moment
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.scheduler.events import Event
from hivemind.text.suggest import did_you_mean
from hivemind.text.table import in_colour, styled

_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are shown; moments are on the journal's clock."""

    since: float | None = None
    until: float | None = None
    agents: Collection[str] = ()
    kinds: Collection[type[Event]] = ()

    def __call__(self, event: Event) -> bool:
        """Whether this one is."""
        if self.since is not None and event.at < self.since:
            return False
        if self.kinds and type(event) not in self.kinds:
            return False
        return not self.agents or getattr(event, "agent", None) in self.agents

    def over(self, event: Event) -> bool:
        """Nothing more is wanted, from this event on."""
        return self.until is not None and event.at > self.until


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    kinds = {_kind(name) for name in namespace.event}
    journal = open_named_journal(namespace)
    wanted = Wanted(
        since=_at(journal, namespace.since),
        until=_at(journal, namespace.until),
        agents=frozenset(namespace.agent),
        kinds=kinds,
    )
    events = journal.follow(_rest) if namespace.follow else journal.events(FREQUENT - kinds if kinds else frozenset())
    shown = _json(journal) if namespace.json else _text(journal)
    count = 0
    try:
        count = _print(events, wanted, shown)
    finally:
        print_damage(journal)
    if not count:
        print("no such events in it" if namespace.agent or kinds else "no events in that time", file=sys.stderr)
    return 0


def _print(events: Iterable[Event], wanted: Wanted, shown: Callable[[Event], str]) -> int:
    """Returns how many were."""
    write, count = sys.stdout.write, 0
    encoding = sys.stdout.encoding or "ascii"
    for event in events:
        if wanted.over(event):
            break
        if wanted(event):
            text = shown(event)
            count += 1
            write(text if text.isascii() else text.encode(encoding, "replace").decode(encoding))
    return count


def _at(journal: Journal, text: str | None) -> float | None:
    """Raises: UsageError."""
    began = journal.began
    return None if text is None else parse_moment(text, began.wall) - began.wall + began.at


def _kind(name: str) -> type[Event]:
    """Raises: UsageError."""
    by_name = {each.lower(): made for each, made in KINDS.items()}
    plain = name.lower().replace("-", "").replace("_", "")
    if plain not in by_name:
        hint = did_you_mean(name, KINDS) or f"; there are {', '.join(KINDS)}"
        raise UsageError(f"--event {printable(name[:40])}: no such kind{hint}")
    return by_name[plain]


def _rest() -> None:
    sys.stdout.flush()
    time.sleep(_LOOK_EVERY_S)


def _text(journal: Journal) -> Callable[[Event], str]:
    """Times of day; with the day, where the journal isn't known to be of one."""
    styles = {"good": "good", "warn": "warn", "bad": "bad"} if in_colour() else {}
    day, time_of = "", clock()

    def shown(event: Event) -> str:
        nonlocal day
        level, tag, who, text = describe(event)
        before = day
        day, moment = time_of(journal.wall(event.at))
        head = "" if day in ("", before) else f"{day}\n"
        line = printable(f"{moment:12}  {tag:<9}  {who:<18}  {text}".rstrip())
        style = styles.get(level, "")
        return f"{styled(head, 'dim') if styles else head}{styled(line, style) if style else line}\n"

    return shown


def _json(journal: Journal) -> Callable[[Event], str]:
    def shown(event: Event) -> str:
        line = line_of(event)[:-2].decode()
        return f'{line},"wall":{journal.wall(event.at):.6f}}}\n'

    return shown
