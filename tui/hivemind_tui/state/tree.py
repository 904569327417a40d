"""Agents under those that started them: families in one list, each in the order that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hivemind.scheduler.types import Usage
from hivemind.world.snapshot import AgentView
from hivemind_tui.state.filtering import Order, agent_fields, arranged, matching

DEEPEST = 6
"""Levels that are indented; whatever is deeper stands as deep."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Where an agent stands in the tree."""

    lasts: tuple[bool, ...] = ()
    """From the top down to it: whether each is the last of its siblings; of one at the top nothing."""
    hidden: int = 0
    """How many agents below it aren't shown."""
    total: AgentView | None = None
    """It and those together, where there are any."""


def parents(agents: Iterable[AgentView]) -> Mapping[str, str]:
    """By name, who started it, where that one is known too."""
    names = {agent.name for agent in agents}
    return {agent.name: agent.parent for agent in agents if agent.parent in names and agent.parent != agent.name}


def ended_last(agents: Sequence[AgentView]) -> Sequence[AgentView]:
    """Those whose processes have ended below all others, except where one that they started still goes on; with them
    those of an earlier run of the proxy that haven't asked since."""
    ended = {agent.name for agent in agents if agent.state == "idle" and not (agent.running or _has_requests(agent))}
    if not ended:
        return agents
    above = parents(agents)
    for agent in agents:
        name = None if agent.name in ended else above.get(agent.name)
        while name in ended:
            ended.discard(name)
            name = above.get(name)
    return sorted(agents, key=lambda agent: agent.name in ended)


def _has_requests(agent: AgentView) -> bool:
    return agent.running is None and bool(agent.requests)


def branched(
    agents: Sequence[AgentView],
    order: Order,
    keys: Mapping[str, Callable[[AgentView], Any]],
    folded: frozenset[str] = frozenset(),
) -> tuple[tuple[AgentView, ...], Mapping[str, Branch]]:
    """The agents shown, children under their parents, and where each stands.

    Siblings are in the list's order. What a filter fits is shown with its ancestors, folded or not.
    """
    above = parents(agents)
    if order.filter:
        agents, folded = _with_ancestors(agents, order, above), frozenset()
    children: dict[str, list[AgentView]] = {}
    tops = []
    for agent in arranged(agents, replace(order, filter=""), agent_fields, keys):
        parent = above.get(agent.name)
        if parent is None:
            tops.append(agent)
        else:
            children.setdefault(parent, []).append(agent)
    walk = _Walk(children, folded)
    walk.down(tops)
    # Those that name each other as parents hang from nothing.
    for agent in agents if len(walk.placed) < len(agents) else ():
        if agent.name not in walk.placed:
            walk.down([agent])
    return tuple(walk.shown), walk.placed


def _with_ancestors(agents: Sequence[AgentView], order: Order, above: Mapping[str, str]) -> list[AgentView]:
    wanted = set()
    for agent in matching(agents, order.filter, agent_fields):
        name: str | None = agent.name
        while name is not None and name not in wanted:
            wanted.add(name)
            name = above.get(name)
    return [agent for agent in agents if agent.name in wanted]


class _Walk:
    """Through the tree, from the top."""

    def __init__(self, children: Mapping[str, list[AgentView]], folded: frozenset[str]) -> None:
        self.shown: list[AgentView] = []
        self.placed: dict[str, Branch] = {}
        """Those that aren't shown too."""
        self._children = children
        self._folded = folded

    def down(self, tops: Sequence[AgentView]) -> None:
        stack: list[tuple[AgentView, tuple[bool, ...]]] = [(agent, ()) for agent in reversed(tops)]
        while stack:
            agent, lasts = stack.pop()
            if agent.name in self.placed:
                continue
            self.shown.append(agent)
            self.placed[agent.name] = branch = Branch(lasts)
            mine = self._children.get(agent.name)
            if not mine:
                continue
            if agent.name in self._folded:
                below = self._below(agent)
                self.placed[agent.name] = replace(branch, hidden=len(below), total=_together(agent, below))
                continue
            last = mine[-1]
            stack += [(each, (*lasts, each is last)) for each in reversed(mine)]

    def _below(self, agent: AgentView) -> list[AgentView]:
        found, queue = [], list(self._children.get(agent.name, ()))
        while queue:
            each = queue.pop()
            if each.name not in self.placed:
                self.placed[each.name] = Branch()
                found.append(each)
                queue += self._children.get(each.name, ())
        return found


def _together(agent: AgentView, below: Sequence[AgentView]) -> AgentView:
    every = (agent, *below)
    usage = Usage(
        sum(each.usage.input_tokens for each in every),
        sum(each.usage.cache_read_tokens for each in every),
        sum(each.usage.cache_write_tokens for each in every),
        sum(each.usage.output_tokens for each in every),
    )
    sums = {
        name: sum(getattr(each, name) for each in every)
        for name in ("flying", "queued", "requests", "finished", "failed", "rescued", "dollars", "unpriced", "waited_s")
    }
    return replace(agent, usage=usage, **sums)
