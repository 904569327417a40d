"""The tree of agents: each below the agent that started it, siblings in the list's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.types import Usage
from hivemind.text.trees import in_tree
from hivemind.world.order import parents, pinned_first
from hivemind.world.snapshot import AgentView
from hivemind_tui.state.lists import AGENT_KEYS, SortOrder, agent_fields, arranged, matching

DEEPEST = 6
"""Levels that are indented; deeper ones are indented as much."""
_SUMMED = (
    *("in_flight", "queued", "requests", "finished", "failed", "refused", "retried_ok", "dollars", "unpriced"),
    "waited_s",
)


class Branch(Struct, frozen=True):
    """The position of an agent in the tree."""

    lasts: tuple[bool, ...] = ()
    """From the top down to the agent: whether each is the last of its siblings; empty at the top."""
    hidden: int = 0
    """The number of agents below it that aren't shown."""
    total: AgentView | None = None
    """The agent with the sums over itself and those hidden; None where none is."""


_ALONE = Branch()


def branched(
    agents: Sequence[AgentView],
    order: SortOrder,
    folded: frozenset[str] = frozenset(),
    pinned: frozenset[str] = frozenset(),
) -> tuple[tuple[AgentView, ...], Mapping[str, Branch]]:
    """Return the agents to show, children below their parents, and the position of each agent, shown or hidden.

    Trees with a pinned agent come first. Agents that match a filter are shown with their ancestors, folded or not.
    """
    above = parents(agents)
    if order.filter:
        agents, folded = _with_ancestors(agents, order, above), frozenset()
    listed = arranged(agents, replace(order, filter=""), agent_fields, AGENT_KEYS)
    rows = [*in_tree(pinned_first(listed, pinned, tree=True), attrgetter("name"), above)]
    shown: list[AgentView] = []
    placed: dict[str, Branch] = {}
    at = 0
    while at < len(rows):
        agent, lasts = rows[at]
        at += 1
        hidden: list[AgentView] = []
        while agent.name in folded and at < len(rows) and len(rows[at][1]) > len(lasts):
            hidden.append(rows[at][0])
            placed[hidden[-1].name] = _ALONE
            at += 1
        shown.append(agent)
        placed[agent.name] = Branch(lasts, len(hidden), _together(agent, hidden)) if hidden else Branch(lasts)
    return tuple(shown), placed


def _with_ancestors(agents: Sequence[AgentView], order: SortOrder, above: Mapping[str, str]) -> list[AgentView]:
    wanted = set()
    for agent in matching(agents, order.filter, agent_fields):
        name: str | None = agent.name
        while name is not None and name not in wanted:
            wanted.add(name)
            name = above.get(name)
    return [agent for agent in agents if agent.name in wanted]


def _together(agent: AgentView, below: Sequence[AgentView]) -> AgentView:
    every = (agent, *below)
    usage = sum((each.usage for each in every), Usage())
    return replace(agent, usage=usage, **{name: sum(getattr(each, name) for each in every) for name in _SUMMED})
