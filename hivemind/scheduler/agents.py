"""The agents that were seen, within bounds."""

from __future__ import annotations

from .config import SchedulerConfig
from .ticket import Agent

KEPT = 4096
"""Agents remembered; beyond it those go that are long idle and about whom nothing was decided."""


class Agents(dict[str, Agent]):
    """By name."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__()
        self._config = config

    def crowded(self, now: float) -> bool:
        """Fork-bomb limit: as many agents live as may."""
        if not self._config.max_agents:
            return False
        horizon = now - self._config.agent_idle_s
        return (
            sum(1 for agent in self.values() if agent.tickets or agent.last_seen > horizon) >= self._config.max_agents
        )

    def meet(self, name: str, now: float) -> Agent:
        """The agent of this name, known from now on."""
        agent = self.get(name)
        if agent is None:
            agent = self[name] = Agent(name, now)
        return agent

    def reap(self, now: float) -> list[str]:
        """Forget whom nobody will miss, where there are too many. Returns their names."""
        if len(self) < KEPT:
            return []
        horizon = now - self._config.agent_idle_s
        gone = [a.name for a in self.values() if not a.tickets and a.last_seen < horizon and a.ordinary]
        for name in gone:
            del self[name]
        return gone
