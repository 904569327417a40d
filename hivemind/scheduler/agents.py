"""The agents that were seen, within bounds, and which of them started which.

A sub-agent within the process of another (its name begins with that one's and a slash) is a part of it: decisions about
the one hold for the other, and what the sub-agent uses counts as the other's own. A child with a process of its own is
independent, and only counts in the subtree.
"""

from __future__ import annotations

import math
from collections import Counter

from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.ticket import Agent

REAP_EVERY_S = 10.0
KEPT = 4096  # agents at hand; beyond it those go that are long idle and about which nothing was decided
PAST_KEPT = 4000
"""Of those that went, how many are remembered with what they used. Beyond it those are forgotten that used least with
all that they started, of equals those that went first: names that a client makes up for each request have used little,
and an agent that did much work isn't forgotten for them. What they used stays in the sums of the pool and of the agents
that started them."""
_AT_ONCE = 256
_LEFT_ROOM = PAST_KEPT // 10  # so many are forgotten at once, so that it is rare


def process_of(name: str, parent: str) -> str | None:
    """Return the agent within whose process this one was started by its parent; None: it has one of its own.

    Sub-agents have names below that of their process, whichever agent of it started them.
    """
    process = name.rpartition("/")[0]
    return process if process and process in (parent, parent.rpartition("/")[0]) else None


class Agents(dict[str, Agent]):
    """The agents at hand, by name."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__()
        self.past: dict[str, Agent] = {}
        """Agents that went, and those of earlier runs: what they used isn't lost when they come back."""
        self.forgotten: set[str] = set()
        """Names that aren't remembered any more, until a writer of records takes them."""
        self._config = config
        self._reaped_at = -math.inf
        self._horizon = -math.inf  # agents that were seen last before it are idle
        self._leaving: list[str] = []
        """Agents that were idle at the last look, and are still to be put aside."""

    def find(self, name: str) -> Agent | None:
        """Return the agent of that name, at hand or not."""
        return self.get(name) or self.past.get(name)

    @property
    def everyone(self) -> tuple[Agent, ...]:
        """All that are remembered, those at hand first."""
        return (*self.values(), *self.past.values())

    def adopt(self, agent: Agent, parent: Agent) -> list[Agent]:
        """Note that the agent was started by the parent. Return the agents with another line of ancestors now.

        Once it has a parent it keeps it, and no agent becomes an ancestor of its own.
        """
        ancestors = [parent]
        while (above := ancestors[-1].parent) is not None:
            ancestors.append(above)
        if agent.parent is not None or agent in ancestors:
            return []
        agent.parent = parent
        parent.has_children = True
        moved = [agent, *self.below(agent)]
        for each in moved:
            if each.lead is None:  # those that it started may be a part of one of the new ancestors
                each.lead = next((above for above in ancestors if each.name.startswith(above.name + "/")), None)
        return moved

    def may_move(self, agent: Agent, parent: Agent) -> bool:
        """Return whether the agent can become the child of another parent: neither it nor what it started has a
        request, or is a part of another process."""
        moved = [agent, *self.below(agent)]
        if parent in moved or any(each.tickets for each in moved):
            return False
        return agent.lead is None and all(each.lead is None or each.lead in moved for each in moved)

    def move(self, agent: Agent, parent: Agent, now: float) -> list[Agent]:
        """Make the agent the child of another parent, where that may be. Return the agents with another line of
        ancestors now."""
        if not self.may_move(agent, parent):
            return []
        agent.parent, agent.since = None, now
        return self.adopt(agent, parent)

    def parts_of(self, agent: Agent) -> list[Agent]:
        """Return the agent, and those at hand that are a part of it."""
        if not agent.has_children:
            return [agent]
        subs = [each for each in self.values() if each.lead is agent]
        return [agent, *(part for sub in subs for part in self.parts_of(sub))]

    def children_of(self, agent: Agent) -> list[Agent]:
        """Return the agents that it started, at hand or not."""
        return [each for each in self.everyone if each.parent is agent] if agent.has_children else []

    def led_by(self, agent: Agent) -> list[Agent]:
        """Return the agents that are a part of it by themselves, at hand or not, whoever of its process started
        them."""
        return [each for each in self.everyone if each.lead is agent] if agent.has_children else []

    def below(self, agent: Agent) -> list[Agent]:
        """Return the agents that it started, those that they started, and so on, at hand or not."""
        children = self.children_of(agent)
        return children + [each for child in children for each in self.below(child)]

    def too_many_with(self, name: str, parent: str | None, now: float) -> bool:
        """Whether the limit of live agents (fork-bomb protection) is reached and this one isn't live yet.

        An agent without requests whose child is live waits for the child, and doesn't count.
        """
        if not self._config.max_agents:
            return False
        agent = self.get(name)
        if agent is not None and (agent.cut_off or self._live(agent, now)):
            return False
        if parent is not None and process_of(name, parent) is not None:
            return False
        live = [each for each in self.values() if each.lead is None and self._live(each, now)]
        waiting = {parent, *(each.parent.name for each in live if each.parent is not None)}
        return sum(bool(each.tickets) or each.name not in waiting for each in live) >= self._config.max_agents

    def _live(self, agent: Agent, now: float) -> bool:
        if agent.tickets:
            return True
        return agent.last_seen > now - self._config.agent_idle_s and not (agent.stopped or agent.ended)

    def meet(self, name: str, now: float) -> tuple[Agent, bool]:
        """Return the agent of this name, and whether it is new at hand."""
        if (agent := self.get(name)) is not None:
            return agent, False
        agent = self[name] = self.past.pop(name) if name in self.past else Agent(name, now)
        return agent, True

    def reap(self, now: float) -> list[Agent]:
        """Put some idle agents aside if there are too many; to be called with each request. Return them.

        A flood of names shortens the time after which an agent is idle, and is worked off in small steps, so that no
        step takes long.
        """
        if len(self) >= KEPT and now - self._reaped_at >= REAP_EVERY_S:
            self._reaped_at = now
            idle_s = self._config.agent_idle_s
            self._horizon = now - (idle_s if len(self) < 2 * KEPT else min(idle_s, REAP_EVERY_S))
            parents = self._parents()
            self._leaving = [agent.name for agent in self.values() if self._idle(agent) and agent.name not in parents]
        if not self._leaving:
            return []
        some, self._leaving = self._leaving[:_AT_ONCE], self._leaving[_AT_ONCE:]
        idle = [agent for name in some if (agent := self.get(name)) is not None and self._idle(agent)]
        # One may have got a child since it was listed.
        parents = self._parents() if any(agent.has_children for agent in idle) else set()
        gone = [agent for agent in idle if agent.name not in parents]
        for agent in gone:
            self.past[agent.name] = self.pop(agent.name)
        if len(self.past) > PAST_KEPT:
            self._forget_some()
        return gone

    def _parents(self) -> set[str]:
        return {agent.parent.name for agent in self.values() if agent.parent is not None}

    def _idle(self, agent: Agent) -> bool:
        return not agent.tickets and agent.last_seen < self._horizon and agent.ordinary

    def _forget_some(self) -> None:
        """Forget agents that used least; none before those it started, which reach their ancestors by their parents."""
        children = Counter(each.parent.name for each in self.everyone if each.parent is not None)
        for agent in sorted(self.past.values(), key=lambda each: each.tree.ever.tokens):
            if len(self.past) <= PAST_KEPT - _LEFT_ROOM:
                return
            if children[agent.name]:
                continue
            del self.past[agent.name]
            self.forgotten.add(agent.name)
            if agent.parent is not None:
                children[agent.parent.name] -= 1
