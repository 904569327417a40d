"""The agents that were seen, within bounds."""

from __future__ import annotations

import math

from .config import SchedulerConfig
from .ticket import Agent

REAP_EVERY_S = 10.0
KEPT = 4096
"""Agents at hand; beyond it those go that are long idle and about whom nothing was decided."""
PAST_KEPT = 50_000
"""Of those that went, how many are remembered with what they used; beyond it the oldest are forgotten."""


def process_of(name: str, parent: str) -> str | None:
    """The agent within whose process this one was started by its parent; None: it has one of its own.

    Sub-agents have names below that of their process, whoever of it started them.
    """
    process = name.rpartition("/")[0]
    return process if process and process in (parent, parent.rpartition("/")[0]) else None


class Agents(dict[str, Agent]):
    """By name."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__()
        self.past: dict[str, Agent] = {}
        """Those that went, and those of earlier runs: what they used isn't lost when they come back."""
        self._config = config
        self._reaped_at = -math.inf

    def too_many_with(self, name: str, parent: str | None, now: float) -> bool:
        """Fork-bomb limit: as many others live as may, and this one doesn't yet.

        Whoever asks for nothing while an agent that it started lives waits for that one, and doesn't count.
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
        """The agent of this name, known from now on, and whether it is new at hand."""
        agent = self.get(name)
        if agent is not None:
            return agent, False
        agent = self[name] = self.past.pop(name) if name in self.past else Agent(name, now)
        return agent, True

    def reap(self, now: float) -> list[str]:
        """Put those aside whom nobody will miss, where there are too many. Returns their names."""
        if len(self) < KEPT or now - self._reaped_at < REAP_EVERY_S:
            return []
        self._reaped_at = now
        horizon = now - self._config.agent_idle_s
        parents = {agent.parent.name for agent in self.values() if agent.parent is not None}
        gone = [
            agent.name
            for agent in self.values()
            if not agent.tickets and agent.last_seen < horizon and agent.ordinary and agent.name not in parents
        ]
        for name in gone:
            agent = self.past[name] = self.pop(name)
            for account in agent.limits:
                account.members.pop(name, None)
                account.short.pop(name, None)
        while len(self.past) > PAST_KEPT:
            del self.past[next(iter(self.past))]
        return gone
