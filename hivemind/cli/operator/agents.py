"""`hivemind agents`: every agent, what it does and what it used."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter

from hivemind.agent_names import fold
from hivemind.cli import client
from hivemind.cli.operator.budget import budget_share
from hivemind.cli.plugin import Command
from hivemind.console import print_note, printable
from hivemind.errors import UsageError
from hivemind.scheduler.commands import some
from hivemind.text.humanise import count, did_you_mean, dollars, exit_text, moment, short_duration
from hivemind.text.table import Cell, TextColumn, lines, width
from hivemind.text.trees import in_tree, tree_lines
from hivemind.world.order import gravest_first, parents
from hivemind.world.snapshot import AGENT_STATES, AgentView

_PATTERN = re.compile(r"[*?\[]")

_COLUMNS = (
    TextColumn("AGENT", cut=True, least=24),
    TextColumn("STATE"),
    TextColumn("PRIORITY", spare=2),
    TextColumn("WAIT", right=True, spare=2),
    TextColumn("REQUESTS", right=True, spare=4),
    TextColumn("TOKENS", right=True),
    TextColumn("COST", right=True),
    TextColumn("BUDGET"),
    TextColumn("TASK", cut=True, spare=3),
    TextColumn("EXIT", right=True, spare=1),
)
_WAIT = next(index for index, column in enumerate(_COLUMNS) if column.title == "WAIT")
_STATES = {
    "streaming": "good",
    "waiting": "good",
    "background": "good",
    "queued": "warn",
    "retry": "warn",
    "held": "warn",
    "stopped": "bad",
    "spent": "bad",
    "died": "bad",
    "hung": "bad",
    "refused": "warn",
}


WORDS = {"waiting": "sent"}
"""What is shown in place of a state's name in JSON, which stays as it was."""
_SHOWN_STATES = (*(WORDS.get(state, state) for state in AGENT_STATES), "running")
"""What the column STATE may hold."""
_STATE_HELP = "only those of which the table says so, or whose process is running; several with commas"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [NAME ...] [flags]"
    add = parser.add_argument
    add("names", metavar="NAME", nargs="*", help="only these; 'ann*' is every name that begins so [all]")
    add("--state", metavar="|".join(_SHOWN_STATES), action="append", default=[], help=_STATE_HELP)
    add("--limit", metavar="N", help="at most N rows; standard error says how many more there are")
    add("--tree", action="store_true", help="each under the agent that started it")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    states, limit = _states(namespace.state), _limit(namespace.limit)
    seen = client.find_proxy(namespace).world().snapshot.agents
    agents = [
        agent
        for agent in _named(seen, namespace.names)
        if not states or states & {_state(agent), agent.running and "running"}
    ]
    rows = list(_in_order(agents, tree=namespace.tree))
    more = 0 if limit is None else max(0, len(rows) - limit)
    if more:
        rows = rows[:limit]
        kept = {agent.name for agent, _ in rows}
        agents = [agent for agent in agents if agent.name in kept]
    none = "no agent matches" if seen else "no agent was seen yet"
    text = _table(rows) if rows else [none]
    code = client.print_answer(namespace, agents, text)
    if more:
        print_note(f"{more:,} more, which --limit leaves out")
    return code


def _states(given: Iterable[str]) -> set[str]:
    """Return the states that are wanted; empty: all. Raises: UsageError."""
    names = {word: state for state, word in WORDS.items()}
    typed = {word.strip().lower() for words in given for word in words.split(",")}
    found = {names.get(word, word) for word in typed}
    for word in sorted(found.difference(AGENT_STATES, _SHOWN_STATES)):
        raise UsageError(f"--state {word[:40]}: there is no such; there are {', '.join(_SHOWN_STATES)}")
    return found


def _limit(given: str | None) -> int | None:
    if given is not None and not re.fullmatch("0*[1-9][0-9]{0,8}", given):
        raise UsageError(f"--limit {given[:40]}: must be a whole number from 1")
    return None if given is None else int(given)


def _named(agents: Sequence[AgentView], wanted: Sequence[str]) -> list[AgentView]:
    """Return those that have one of these names or match one of these patterns, all where none is given.

    Raises: UsageError: no agent has a name that is no pattern.
    """
    folded = [fold(each) for each in wanted]
    names = {fold(agent.name): agent.name for agent in agents}
    for name, key in zip(wanted, folded, strict=True):
        if key not in names and not _PATTERN.search(name):
            hint = did_you_mean(name, names.values()) or f"; known: {some(names.values())}"
            raise UsageError(f"no agent named {name!r}{hint}")
    return [
        agent
        for agent in agents
        if not wanted or any(fold(agent.name) == key or fnmatchcase(fold(agent.name), key) for key in folded)
    ]


def _in_order(agents: list[AgentView], *, tree: bool) -> Iterable[tuple[AgentView, str]]:
    """Those that need a look first, or as a tree, with the lines of it before each."""
    agents = list(gravest_first(agents, tree=tree))
    return family(agents) if tree else ((agent, "") for agent in agents)


def _table(rows: Sequence[tuple[AgentView, str]]) -> list[str]:
    """The table's lines; without a column of waits where nothing waits."""
    columns, cells = list(_COLUMNS), [_row(agent, before) for agent, before in rows]
    if not any(agent.waiting_s for agent, _ in rows):
        del columns[_WAIT]
        for row in cells:
            del row[_WAIT]
    return lines(columns, cells, width())


def _row(agent: AgentView, before: str) -> list[Cell | str]:
    ended = "" if agent.exit_code is None else exit_text(agent.exit_code)
    return [
        before + printable(agent.name),
        Cell(WORDS.get(_state(agent), _state(agent)), _STATES.get(agent.state, "")),
        agent.priority.name.lower(),
        (short_duration(agent.waiting_s) if agent.waiting_s else "") + _until("paced", agent.paced_s),
        f"{agent.requests:,}",
        count(agent.usage.total),
        dollars(agent.dollars, agent.unpriced),
        budget_share(agent.budget),
        printable(agent.task or "") + _until("paused", agent.paused_s),
        Cell(ended.removeprefix("exit code ").removeprefix("killed by "), "bad" if agent.exit_code else ""),
    ]


def _until(what: str, left_s: float) -> str:
    return f" {what} until {moment(now := time.time(), now + left_s)}" if left_s else ""


def _state(agent: AgentView) -> str:
    """Return its state; for an idle agent whose process is known, whether that runs."""
    if agent.state != "idle" or agent.running is None:
        return agent.state
    return "running" if agent.running else "ended"


def family(agents: list[AgentView]) -> Iterator[tuple[AgentView, str]]:
    """Every agent once, under the one that started it, with the lines of the tree before it."""
    for agent, lasts in in_tree(agents, attrgetter("name"), parents(agents)):
        yield agent, tree_lines(lasts)


command = Command(_configure, _run)
