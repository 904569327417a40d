"""`hivemind journal show`: a journal's events as lines, as far as they are wanted."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection

from hivemind.cli.journals import open_named_journal, print_damage
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.journal.codec import KINDS, line_of
from hivemind.journal.event_text import clock, describe
from hivemind.journal.files import parse_moment
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.scheduler.events import Event
from hivemind.text.suggest import did_you_mean
from hivemind.text.table import styled

_LOOK_EVERY_S = 0.2


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    kinds = {_kind(name) for name in namespace.event}
    journal = open_named_journal(namespace)
    since, until = _at(journal, namespace.since), _at(journal, namespace.until)
    events = journal.follow(_rest) if namespace.follow else journal.events(FREQUENT - kinds if kinds else frozenset())
    shown = _json(journal) if namespace.json else _text(journal)
    encoding, count = sys.stdout.encoding or "ascii", 0
    try:
        for event in events:
            if until is not None and event.at > until:
                break
            if (since is None or event.at >= since) and _is_wanted(event, kinds, namespace.agent):
                text = shown(event)
                count += 1
                sys.stdout.write(text if text.isascii() else text.encode(encoding, "replace").decode(encoding))
    finally:
        print_damage(journal)
    if not count:
        print("no such events in it" if namespace.agent or kinds else "no events in that time", file=sys.stderr)
    return 0


def _is_wanted(event: Event, kinds: Collection[type[Event]], agents: Collection[str]) -> bool:
    return (not kinds or type(event) in kinds) and (not agents or getattr(event, "agent", None) in agents)


def _at(journal: Journal, text: str | None) -> float | None:
    began = journal.began
    return None if text is None else parse_moment(text, began.wall) - began.wall + began.at


def _kind(name: str) -> type[Event]:
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
    day, time_of = "", clock()

    def shown(event: Event) -> str:
        nonlocal day
        level, tag, who, text = describe(event)
        before = day
        day, moment = time_of(journal.wall(event.at))
        head = "" if day in ("", before) else f"{day}\n"
        line = printable(f"{moment:12}  {tag:<9}  {who:<18}  {text}".rstrip())
        return f"{styled(head, 'dim')}{styled(line, level if level in ('good', 'warn', 'bad') else '')}\n"

    return shown


def _json(journal: Journal) -> Callable[[Event], str]:
    def shown(event: Event) -> str:
        line = line_of(event)[:-2].decode()
        return f'{line},"wall":{journal.wall(event.at):.6f}}}\n'

    return shown
