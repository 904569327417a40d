"""`hivemind agents`: every agent, what it does and what it used."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from hivemind.cli import client
from hivemind.cli.operator.budget import budget_share
from hivemind.cli.plugin import Command
from hivemind.console import printable
from hivemind.text.humanise import count, dollars, exit_text
from hivemind.text.table import Cell, Column, lines, width
from hivemind.world.snapshot import AgentView

_COLUMNS = (
    Column("AGENT", cut=True, least=24),
    Column("STATE"),
    Column("PRIORITY", spare=2),
    Column("REQUESTS", right=True, spare=4),
    Column("TOKENS", right=True),
    Column("COST", right=True),
    Column("BUDGET"),
    Column("TASK", cut=True, spare=3),
    Column("EXIT", right=True, spare=1),
)
_STATES = {
    "streaming": "good",
    "waiting": "good",
    "queued": "warn",
    "retry": "warn",
    "paused": "warn",
    "stopped": "bad",
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tree", action="store_true", help="each under the agent that started it")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    agents = client.find_proxy(namespace).world().snapshot.agents
    text = shown(agents, width(), tree=namespace.tree) if agents else ["no agent was seen yet"]
    return client.print_answer(namespace, agents, text)


def shown(agents: Iterable[AgentView], room: int | None, *, tree: bool = False) -> list[str]:
    """The table, by first appearance and those that have ended last, or as a tree."""
    ordered = family(list(agents)) if tree else ((agent, "") for agent in sorted(agents, key=_is_over))
    return lines(_COLUMNS, [_row(agent, before) for agent, before in ordered], room)


def _row(agent: AgentView, before: str) -> list[Cell | str]:
    ended = "" if agent.exit_code is None else exit_text(agent.exit_code)
    return [
        before + printable(agent.name),
        Cell(_state(agent), _STATES.get(agent.state, "")),
        agent.priority.name.lower(),
        f"{agent.requests:,}",
        count(agent.usage.total),
        dollars(agent.dollars, agent.unpriced),
        budget_share(agent.budget),
        printable(agent.task or ""),
        Cell(ended.removeprefix("exit code ").removeprefix("killed by "), "bad" if agent.exit_code else ""),
    ]


def _is_over(agent: AgentView) -> bool:
    """Its process has ended, or it was known from an earlier run and made no request since."""
    return agent.state == "idle" and (agent.running is False or (agent.running is None and not agent.requests))


def _state(agent: AgentView) -> str:
    """Return its state; for an idle agent whose process is known, whether that runs."""
    if agent.state != "idle" or agent.running is None:
        return agent.state
    return "running" if agent.running else "ended"


def family(agents: list[AgentView]) -> Iterator[tuple[AgentView, str]]:
    """Every agent once, under the one that started it, with the lines of the tree before it; a ring of parents,
    which only wrong claims of clients make, begins with the agent seen first."""
    names = {agent.name for agent in agents}
    children: dict[str | None, list[AgentView]] = {}
    for agent in agents:
        children.setdefault(agent.parent if agent.parent in names else None, []).append(agent)
    seen: set[str] = set()
    for root in (*children.get(None, []), *agents):
        # Without recursion: a chain of agents may be longer than Python's stack.
        left = [(root, "", "")]
        while left:
            agent, before, below = left.pop()
            if agent.name in seen:
                continue
            seen.add(agent.name)
            yield agent, before
            own = [child for child in children.get(agent.name, []) if child.name not in seen]
            for place, child in reversed(list(enumerate(own))):
                last = place == len(own) - 1
                left.append((child, below + ("└ " if last else "├ "), below + ("  " if last else "│ ")))


command = Command(_configure, _run)
