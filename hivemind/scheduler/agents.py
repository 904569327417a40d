"""The agents that were seen, within bounds."""

from __future__ import annotations

import math

from .config import SchedulerConfig
from .ticket import Agent

REAP_EVERY_S = 10.0
KEPT = 4096
"""Agents remembered; beyond it those go that are long idle and about whom nothing was decided."""


class Agents(dict[str, Agent]):
    """By name."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__()
        self._config = config
        self._reaped_at = -math.inf

    def too_many_with(self, name: str, now: float) -> bool:
        """Fork-bomb limit: as many others live as may, and this one doesn't yet."""
        if not self._config.max_agents:
            return False
        agent = self.get(name)
        if agent is not None and (agent.stopped or self._live(agent, now)):
            return False
        return sum(1 for each in self.values() if self._live(each, now)) >= self._config.max_agents

    def _live(self, agent: Agent, now: float) -> bool:
        return bool(agent.tickets) or (agent.last_seen > now - self._config.agent_idle_s and not agent.stopped)

    def meet(self, name: str, now: float) -> Agent:
        """The agent of this name, known from now on."""
        agent = self.get(name)
        if agent is None:
            agent = self[name] = Agent(name, now)
        return agent

    def reap(self, now: float) -> list[str]:
        """Forget whom nobody will miss, where there are too many. Returns their names."""
        if len(self) < KEPT or now - self._reaped_at < REAP_EVERY_S:
            return []
        self._reaped_at = now
        horizon = now - self._config.agent_idle_s
        gone = [a.name for a in self.values() if not a.tickets and a.last_seen < horizon and a.ordinary]
        for name in gone:
            del self[name]
        return gone
