"""What is printed when a session ends: what became of the agents, the totals, and how to look at it all again."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from hivemind.console import Console
from hivemind.errors import HiveMindError
from hivemind.journal.files import DEMO_DAYS, DEMO_FOLDER, find, part_of
from hivemind.journal.wait_causes import WaitCauses, shares_text
from hivemind.text.humanise import cost, count, dollars, duration, exit_text, plural
from hivemind.text.shells import command_line, shell_of
from hivemind.text.table import Cell, TextColumn, lines, wrapped
from hivemind.world.snapshot import AgentView, Snapshot
from hivemind.world.vitals import quantile

_log = logging.getLogger("hivemind")

AGENTS_SHOWN = 30
"""Rows of the table; those that need a look come first, and the rest is counted."""
_NAMED = 5
_READ_BYTES = 8 << 20
"""A longer journal isn't read for the summary; so many bytes take a third of a second."""
_COLUMNS = (
    TextColumn("AGENT", cut=True),
    TextColumn("STATE", cut=True, least=8),
    TextColumn("REQUESTS", right=True, spare=5),
    TextColumn("ANSWERED", right=True),
    TextColumn("FAILED", right=True),
    TextColumn("RETRIED OK", right=True, spare=1),
    TextColumn("IN", right=True, spare=4),
    TextColumn("OUT", right=True, spare=3),
    TextColumn("WAITED", right=True, spare=2),
    TextColumn("COST", right=True, spare=6),
)
_WORDS = {"ended": "finished", "died": "died", "spent": "used up the budget"}
"""States of agents as they stand in the sentence about all of them, in its order; those after them as they are."""
_TROUBLE = ("died", "refused", "spent", "stopped")


class Journal(Struct, frozen=True):
    """A journal that can be looked at again."""

    path: Path
    """One of its parts."""
    until: float | None = None
    """Seconds since the epoch until which it is certainly there; None: as the settings of journals say."""

    @property
    def name(self) -> str:
        named = part_of(self.path.name)
        return self.path.name if named is None else named[0]


def journal_of(snapshot: Snapshot) -> Journal | None:
    """Return the journal that a proxy on this machine writes; None: it writes none, or it isn't here."""
    if snapshot.recording is None or not os.path.isfile(snapshot.recording.path):
        return None
    return journal_at(Path(snapshot.recording.path), snapshot.wall)


def journal_at(path: Path, wall: float) -> Journal:
    """Return the journal of which this is a part, and which was written until that time of day."""
    demo = path.parent.name == DEMO_FOLDER
    return Journal(path, wall + DEMO_DAYS * 86_400 if demo else None)


def wait_causes_of(journal: Journal | None) -> WaitCauses:
    """Return why requests waited. None are known without a journal, or with one that would take long to read."""
    from hivemind.journal.figures import FiguresFold
    from hivemind.journal.read.reader import FREQUENT, open_journal

    if journal is None:
        return WaitCauses()
    try:
        found = open_journal(journal.path)
        if not soon_read(found.parts):
            return WaitCauses()
        fold = FiguresFold()
        for event in found.events(FREQUENT):
            fold.apply(event)
    except (HiveMindError, OSError):
        return WaitCauses()
    return fold.figures().causes


def soon_read(parts: Iterable[Path]) -> bool:
    """Return whether a journal of these parts is short enough to be read for a summary. Raises: OSError."""
    return sum(part.stat().st_size for part in parts) <= _READ_BYTES


def summary(
    snapshot: Snapshot,
    journal: Journal | None,
    room: int | None,
    *,
    goes_on: bool = False,
    causes: WaitCauses | None = None,
) -> list[str]:
    """Return the lines for a terminal of `room` columns; None: as long as they are. `goes_on`: the proxy does.
    `causes`: why requests waited, if that is known."""
    text = list(_sentences(snapshot, goes_on=goes_on, causes=causes))
    return [*_rows(snapshot, text, room), *look_again(journal, room)]


def print_at_end(console: Console, snapshot: Snapshot) -> None:
    """Print the summary of a proxy without a screen, which has ended: on a terminal, else as lines of its log."""
    journal = journal_of(snapshot)
    causes = wait_causes_of(journal)
    if console.room is not None:
        for row in summary(snapshot, journal, console.room, causes=causes):
            console.line(row)
        return
    where = " or ".join(map(str.strip, look_again(journal, None))).replace(" or ", " ", 1)
    for sentence in (*_sentences(snapshot, causes=causes), *([where] if where else [])):
        _log.info("%s", sentence)


def _rows(snapshot: Snapshot, text: list[str], room: int | None) -> list[str]:
    if _nothing_came(snapshot):
        return text
    return ["", *_table(snapshot.agents, room), *(row for each in text for row in wrapped(each, room))]


def _nothing_came(snapshot: Snapshot) -> bool:
    return not snapshot.totals.requests and not snapshot.agents


def _sentences(snapshot: Snapshot, *, goes_on: bool = False, causes: WaitCauses | None = None) -> Iterator[str]:
    if _nothing_came(snapshot):
        yield "no requests came"
        return
    yield _of_agents(snapshot.agents)
    yield from _totals(snapshot)
    if causes is not None and causes.seconds:
        yield f"requests waited {shares_text(causes)}"
    if goes_on or snapshot.verdict.state not in ("healthy", "slowed", "draining"):
        yield f"{'the proxy goes on' if goes_on else 'in the end'}: {snapshot.verdict.text}"


def look_again(journal: Journal | None, room: int | None) -> list[str]:
    """Return the journal's name, until when it is there if it is temporary, and the commands that show it."""
    if journal is None:
        return []
    kept = ""
    if journal.until is not None:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.until))
        kept = f", which is temporary: the first demo after {until} removes it"
    named, shell = _argument(journal), shell_of(os.environ, os.name)
    has_report = all(importlib.util.find_spec(each) is not None for each in ("plotly", "jinja2"))
    programs = ("hivemind-tui --replay", "hivemind report" if has_report else "hivemind what-if")
    rows = [f"  {command_line(program, named, shell=shell)}" for program in programs]
    return [*wrapped(f"journal {journal.name}{kept}; to look again:", room), *rows]


def _argument(journal: Journal) -> str:
    """Return the journal's name, if commands find it by that; else its path."""
    from hivemind.settings import load
    from hivemind.store.token_file import state_dir

    first = journal.path.with_name(f"{journal.name}{journal.path.suffix}")
    first = first if first.is_file() else journal.path
    with contextlib.suppress(HiveMindError, OSError):
        usual = state_dir(load([], environ=os.environ, cwd=Path.cwd(), quiet=True).state_dir)
        if find(journal.name, usual).samefile(first):
            return journal.name
    return str(first.absolute())


def _table(agents: Sequence[AgentView], room: int | None) -> list[str]:
    if not agents:
        return []
    ranked = sorted(agents, key=lambda agent: _TROUBLE.index(agent.state) if agent.state in _TROUBLE else 9)
    shown = ranked if len(ranked) <= AGENTS_SHOWN else ranked[: AGENTS_SHOWN - 1]
    rows = lines(_COLUMNS, [_row(agent) for agent in shown], room)
    more = len(ranked) - len(shown)
    return [*rows, *([f"and {plural(more, 'more agent')}"] if more else []), ""]


def _row(agent: AgentView) -> list[Cell | str]:
    state = agent.state
    if state == "died" and agent.exit_code is not None:
        state = f"died ({exit_text(agent.exit_code)})"
    numbers = (agent.requests, agent.finished, agent.failed, agent.retried_ok)
    return [
        agent.name,
        Cell("finished" if state == "ended" else state, "bad" if agent.state in _TROUBLE else ""),
        *(f"{number:,}" for number in numbers[:2]),
        Cell(f"{agent.failed:,}", "bad" if agent.failed else ""),
        f"{agent.retried_ok:,}",
        count(agent.usage.total_input),
        count(agent.usage.output_tokens),
        duration(agent.waited_s),
        dollars(agent.dollars, agent.unpriced),
    ]


def _of_agents(agents: Sequence[AgentView]) -> str:
    states: dict[str, list[AgentView]] = {state: [] for state in _WORDS}
    for agent in agents:
        states.setdefault(agent.state if agent.state in (*_WORDS, "stopped", "refused") else "", []).append(agent)
    rest = states.pop("", [])
    parts = [
        f"{len(those):,} {_WORDS.get(state, state)}{_died(those) if state == 'died' else ''}"
        for state, those in states.items()
        if those
    ]
    if rest and parts:
        parts.append(f"{len(rest):,} went on")
    if not states["died"]:
        parts.append("none died")
    return f"{plural(len(agents), 'agent')}: {', '.join(parts)}" if agents else "no agents"


def _died(agents: Sequence[AgentView]) -> str:
    named = [
        agent.name if agent.exit_code is None else f"{agent.name}, {exit_text(agent.exit_code)}" for agent in agents
    ]
    more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return f" ({'; '.join([*named[:_NAMED], *more])})"


def _totals(snapshot: Snapshot) -> Iterator[str]:
    totals = snapshot.totals
    ends = [f"{totals.finished:,} answered", f"{totals.failed:,} failed"]
    ends += [f"{totals.refused:,} refused"] if totals.refused else []
    ends += [f"{totals.abandoned:,} left by clients"] if totals.abandoned else []
    still_open = totals.requests - totals.finished - totals.failed - totals.refused - totals.abandoned
    ends += [f"{still_open:,} open at the end"] if still_open > 0 else []
    ends.append(f"{totals.retried_ok:,} retried OK")
    recovered = f"{plural(totals.agents_recovered, 'agent')} recovered"
    yield f"{plural(totals.requests, 'request')}: {', '.join(ends)}; {recovered}"
    wait_s = quantile(snapshot.vitals.waits, 0.95)
    waits = [] if wait_s is None else [f"p95 wait before an attempt {duration(wait_s)}"]
    tokens = f"{count(totals.usage.total)} tokens used, {count(totals.wasted.total)} wasted"
    yield "; ".join([*waits, tokens, cost(totals.dollars, totals.unpriced)])
