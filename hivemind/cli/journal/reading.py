"""`hivemind journal` `ls`, `show`, `stats` and `export`: what is in the journals of a proxy."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import asdict

from hivemind.cli.journals import open_named_journal, open_named_journals, print_damage, state_folder
from hivemind.console import print_json, print_note, printable
from hivemind.errors import UsageError
from hivemind.journal.codec import KINDS, line_of
from hivemind.journal.event_text import clock, describe
from hivemind.journal.export.requests import requests, rows
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.files import folder_in, parse_moment
from hivemind.journal.read.reader import FREQUENT, Journal, Listed, listed
from hivemind.journal.read.several import Journals
from hivemind.journal.wait_causes import CAUSES
from hivemind.prices import prices_at
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import Price
from hivemind.store.atomic import output_file
from hivemind.text.humanise import dollars, duration, instead_of, plural, share, size
from hivemind.text.table import Cell, TextColumn, lines, show, styled, width

_JOURNALS = (
    TextColumn("JOURNAL"),
    TextColumn("BEGUN", spare=1),
    TextColumn("LENGTH", right=True),
    TextColumn("PARTS", right=True, spare=4),
    TextColumn("SIZE", right=True, spare=2),
    TextColumn("REQUESTS", right=True, spare=3),
    TextColumn("FROM", spare=5),
    TextColumn("END"),
)
_ENDS = {"still being written": "good", "truncated": "warn", "ended": "dim"}
_WAITS = (
    TextColumn("PRIORITY"),
    TextColumn("REQUESTS", right=True),
    TextColumn("P50 WAIT", right=True),
    TextColumn("P95 WAIT", right=True),
    TextColumn("LONGEST", right=True),
)
_CAUSES = (TextColumn("WHY"), TextColumn("WAITED", right=True), TextColumn("SHARE", right=True))


def list_journals(namespace: argparse.Namespace) -> int:
    """Print a table of all journals. Raises: UsageError."""
    folder = folder_in(state_folder(namespace))
    found, wrong = listed(folder)
    if namespace.json:
        print_json(found)
    elif not found:
        print(f"no journals in {folder}")
    else:
        show(lines(_JOURNALS, [_row(each) for each in found], width()))
    sys.stdout.flush()
    for line in wrong:
        print_note(line)
    return 2 if wrong and not found else 0


def _row(journal: Listed) -> list[Cell | str]:
    try:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(journal.began))
    except (OverflowError, ValueError, OSError):
        began = "no such time"
    return [
        journal.name,
        began,
        duration(journal.length_s),
        f"{journal.parts:,}",
        size(journal.bytes),
        "" if journal.requests is None else f"{journal.requests:,}",
        ("fleet" if journal.fleet else "") if journal.source == "proxy" else printable(journal.source),
        Cell(journal.end, _ENDS.get(journal.end, "")),
    ]


def show_events(namespace: argparse.Namespace) -> int:
    """Print a journal's events, a line each. Raises: UsageError."""
    kinds, agents = {_kind(name) for name in namespace.event}, namespace.agent
    journal = open_named_journal(namespace)
    since, until = _at(journal, namespace.since), _at(journal, namespace.until)
    events = journal.events(FREQUENT - kinds if kinds else frozenset())
    as_line = _as_json(journal) if namespace.json else _as_text(journal)
    encoding, count = sys.stdout.encoding or "ascii", 0
    try:
        for event in events:
            if until is not None and event.at > until:
                break
            wanted = (not kinds or type(event) in kinds) and (not agents or getattr(event, "agent", None) in agents)
            if wanted and (since is None or event.at >= since):
                text = as_line(event)
                count += 1
                sys.stdout.write(text if text.isascii() else text.encode(encoding, "replace").decode(encoding))
    finally:
        print_damage(journal)
    if not count:
        print("no such events in it" if agents or kinds else "no events in that time", file=sys.stderr)
    return 0


def _at(journal: Journal, text: str | None) -> float | None:
    began = journal.began
    return None if text is None else parse_moment(text, began.wall) - began.wall + began.at


def _kind(name: str) -> type[Event]:
    by_name = {each.lower(): made for each, made in KINDS.items()}
    plain = name.lower().replace("-", "").replace("_", "")
    if plain not in by_name:
        raise UsageError(f"--event {printable(name[:40])}: no such kind{instead_of(name, KINDS)}")
    return by_name[plain]


def _as_text(journal: Journal) -> Callable[[Event], str]:
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


def _as_json(journal: Journal) -> Callable[[Event], str]:
    def shown(event: Event) -> str:
        line = line_of(event)[:-2].decode()
        return f'{line},"wall":{journal.wall(event.at):.6f}}}\n'

    return shown


_OF = {
    **{"tokens": "tokens", "dollars": "dollars", "time": "wall_s", "at once": "busiest", "fairness": "fairness"},
    **{"attempts": "retries", "retried OK": "retried_ok", "waited": "waited_s"},
}
"""The figure of a line."""
NOT_RECORDED = "not recorded"


def show_stats(namespace: argparse.Namespace) -> int:
    """Print the figures of a run. Raises: UsageError."""
    journals = open_named_journals(namespace)
    figures = figures_of(journals, prices_at(journals.began.wall))
    told = journals.notes()
    unknown = journals.began.unknown_figures
    if namespace.json:
        known = {name: None if name in unknown else value for name, value in asdict(figures).items()}
        print_json({"journal": journals.began.journal, **known, "told": told})
    else:
        show(shown(figures, width(), unknown))
    sys.stdout.flush()
    for line in told:
        print_note(line if len(journals.each) > 1 else f"{journals.paths[0].name}: {line}")
    return 0


def figures_of(journals: Journals, price: Price | None) -> Figures:
    """Counts all that can be read. Raises: UsageError."""
    tally = FiguresFold(price)
    for _, event in journals.events(FREQUENT):
        tally.apply(event)
    return tally.figures()


def shown(figures: Figures, room: int | None, unknown: Collection[str] = ()) -> list[str]:
    """A fact a line, and a table of the waits; `unknown`: figures that the recording doesn't hold."""
    facts = [(name, NOT_RECORDED if _OF.get(name) in unknown else text) for name, text in _facts(figures) if text]
    size = max(len(name) for name, _ in facts)
    rows = [f"{name:<{size}}  {text}" for name, text in facts]
    if figures.waits and "waits" not in unknown:
        waits: list[list[Cell | str]] = [
            [name, f"{each.requests:,}", duration(each.p50_s), duration(each.p95_s), duration(each.longest_s)]
            for name, each in figures.waits.items()
        ]
        rows += ["", "time that requests waited, in the queue and between attempts:", *lines(_WAITS, waits, room)]
    if figures.causes.seconds and "causes" not in unknown:
        total_s = figures.causes.total_s
        causes: list[list[Cell | str]] = [
            [CAUSES[cause], duration(seconds), share(seconds / total_s)] for cause, seconds in figures.causes.by_size()
        ]
        rows += ["", "why requests waited:", *lines(_CAUSES, causes, room)]
    return rows


def _facts(figures: Figures) -> Sequence[tuple[str, str]]:
    money = "no price is known" if figures.dollars is None else dollars(figures.dollars)
    blind = f" (the price of {plural(figures.unpriced_tokens, 'token')} isn't known)" if figures.unpriced_tokens else ""
    return (
        ("agents", f"{figures.agents:,} ({figures.finished:,} ended with an answer)"),
        ("time", f"{duration(figures.wall_s)} from the first request to the last answer"),
        ("requests", f"{figures.requests:,}"),
        ("  answered", f"{figures.answered:,}"),
        ("  failed", f"{figures.failed:,} in an error of the provider's" if figures.failed else ""),
        ("  refused", f"{figures.refused:,} by HiveMind" if figures.refused else ""),
        ("  left", f"{figures.left:,} given up by their clients" if figures.left else ""),
        ("  open", f"{figures.open:,} not over at the end" if figures.open else ""),
        ("attempts", f"{figures.attempts:,}, {figures.retries:,} of them again after a fault"),
        ("retried OK", f"{figures.retried_ok:,} answered after failed attempts, unseen by their agents"),
        ("at once", f"{figures.busiest:,} in flight at most"),
        ("waited", f"{duration(figures.waited_s)} in the queue and between attempts, all requests together"),
        ("fairness", f"{figures.fairness:.3f} (Jain's index; 1: waiting slowed all agents down alike)"),
        ("tokens", f"{figures.tokens:,}"),
        (
            "  wasted",
            f"{figures.wasted_tokens:,} on attempts that failed or were left" if figures.wasted_tokens else "",
        ),
        ("dollars", f"{money}{blind}" if figures.tokens or figures.dollars else "$0.00"),
    )


def export(namespace: argparse.Namespace) -> int:
    """Write a journal's requests as CSV or HAR. Raises: UsageError."""
    journal = open_named_journal(namespace)
    found = requests(journal.events(FREQUENT), bodies=namespace.har)
    if namespace.csv:
        pieces = rows(found, journal.wall, prices_at(journal.began.wall))
    else:
        from hivemind.journal.export.har import har  # slow to import

        pieces = har(found, journal.began, journal.wall)
    if namespace.out in (None, "-"):
        # A terminal would obey what a body holds, so it gets what it shows.
        write = (lambda piece: sys.stdout.write(piece.decode())) if sys.stdout.isatty() else sys.stdout.buffer.write
        for piece in pieces:
            write(piece)
        sys.stdout.flush()
    else:
        path = Path(namespace.out).expanduser()
        if any(path.exists() and path.samefile(part) for part in journal.parts):
            raise UsageError(f"--out {path}: is the journal itself")
        with output_file(path, str(path)) as file:
            file.writelines(pieces)
    print_damage(journal)
    return 0
