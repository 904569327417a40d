"""The order in which agents are listed: those that need a look first."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from hivemind.world.snapshot import HUNG, AgentView

WAIT_STEPS_S = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Current waits are compared by how many of these they have reached, so that rows don't move with every second."""
QUIET_AFTER_S = 60.0
"""An agent without an open request counts as busy until it was silent for so long, as between two turns."""

DIED, HANGING, REFUSED, WAITING, BUSY, IDLE, ENDED = 0, 1, 2, 3, 30, 40, 50
"""Ranks; one with a long wait has a rank from :data:`WAITING` on, the lower the longer it waits."""


def rank(agent: AgentView) -> int:
    """Return how soon an agent is listed, the lowest first: it died, is hung, was refused or has used up its budget,
    waits for long (the longest first), is busy, idle, or has ended."""
    state = agent.state  # one that is idle or has ended has no open request; most of many are
    if state == "ended":
        return ENDED
    if state == "idle":
        if not (agent.requests if agent.running is None else agent.running):
            return ENDED  # of an earlier run of the proxy
        return BUSY if agent.requests and agent.last_seen_s < QUIET_AFTER_S else IDLE
    if state == "died":
        return DIED
    if state == HUNG:
        return HANGING
    if state in ("refused", "spent"):
        return REFUSED
    if agent.waiting_s >= WAIT_STEPS_S[0]:
        return WAITING + len(WAIT_STEPS_S) - bisect_right(WAIT_STEPS_S, agent.waiting_s)
    return BUSY if agent.in_flight or agent.queued else IDLE


def parents(agents: Iterable[AgentView]) -> dict[str, str]:
    """Return by name the agent that started it, where that one is known too."""
    started = [(agent.name, agent.parent) for agent in agents if agent.parent and agent.parent != agent.name]
    if not started:
        return {}
    names = {agent.name for agent in agents}
    return {name: parent for name, parent in started if parent in names}


def gravest_first(agents: Sequence[AgentView], *, tree: bool = False) -> Sequence[AgentView]:
    """Return the agents by rank, those of the same rank as they were given, which is by first appearance.

    In a tree an agent stands where the gravest of it and all below it would, so that trees stay together. Else it
    stands where it would alone, though not among those that ended while one that it started goes on.
    """
    ranks = {agent.name: rank(agent) for agent in agents}
    if len(set(ranks.values())) <= 1:
        return agents
    above = parents(agents)
    if above:
        best = _with_those_below(ranks, above)
        if tree:
            ranks = best
        else:
            ranks = {name: IDLE if own == ENDED and best[name] < ENDED else own for name, own in ranks.items()}
    return sorted(agents, key=lambda agent: ranks[agent.name])


def pinned_first(agents: Sequence[AgentView], pinned: Collection[str], *, tree: bool = False) -> Sequence[AgentView]:
    """Return the agents with those pinned first, in a tree with all above and below them; else in the given order."""
    if not pinned:
        return agents
    ranks = {agent.name: int(agent.name not in pinned) for agent in agents}
    if tree:
        ranks = _with_those_below(ranks, parents(agents))
    return sorted(agents, key=lambda agent: ranks[agent.name])


def _with_those_below(ranks: dict[str, int], above: dict[str, str]) -> dict[str, int]:
    """Return the lowest rank of each agent and all below it."""
    best = dict(ranks)
    # From the lowest on, so that each ancestor changes once, however deep the tree is.
    for name in sorted(above, key=ranks.__getitem__):
        own, parent = ranks[name], above.get(name)
        while parent is not None and best[parent] > own:
            best[parent] = own
            parent = above.get(parent)
    return best
