"""Dynamic priority: an agent that uses much sinks a class, one that uses little rises one (paper, Future Directions:
multilevel feedback queue).

Use counts in weighted tokens, halved every `half_life_s`, and is compared with the mean of the agents at work. An agent
near the end of its task counts a class higher whatever it used: what it holds is free sooner that way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hivemind.scheduler.agents import Agents
from hivemind.scheduler.config import FeedbackConfig
from hivemind.scheduler.events import Event, Nudged
from hivemind.scheduler.tasks import Task, Tasks
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Usage

REVIEW_EVERY_S = 1.0
NEGLIGIBLE = 0.5  # weighted tokens that count as none


@dataclass(slots=True)
class _Use:
    """What one agent used lately."""

    at: float
    amount: float = 0.0
    standing: int = 0  # 1: it sank for what it used; -1: it rose

    def fade(self, now: float, half_life_s: float) -> None:
        """Let the amount decay."""
        self.amount *= 0.5 ** ((now - self.at) / half_life_s)
        self.at = now


class Feedback:
    """The feedback queue of one scheduler. Turned off, it keeps nothing and moves no agent."""

    def __init__(self, config: FeedbackConfig, emit: Callable[[Event], None]) -> None:
        self.enabled = config.enabled
        self._config = config
        self._emit = emit
        self._used: dict[str, _Use] = {}
        self._began: dict[str, int] = {}
        """Tokens that a running task's agent had used when it began, by task."""
        self._reviewed_at = -math.inf

    def began(self, task: Task, agent: Agent | None) -> None:
        """Note a task that runs from now on; its agent is None if it hasn't been seen yet."""
        if self.enabled:
            self._began[task.spec.id] = 0 if agent is None else agent.own.ever.tokens

    def used(self, agent: Agent, usage: Usage, now: float) -> None:
        """Count the use of an attempt that has ended."""
        if self.enabled:
            use = self._used.setdefault(agent.name, _Use(now))
            use.fade(now, self._config.half_life_s)
            use.amount += usage.weighted

    def review(self, agents: Agents, tasks: Tasks, now: float) -> list[Agent]:
        """Compare the agents, once in a while. Return those that were moved to another class."""
        if not self.enabled or now < self._reviewed_at + REVIEW_EVERY_S:
            return []
        self._reviewed_at = now
        horizon = now - self._config.half_life_s
        at_work = {
            agent.name for agent in agents.values() if agent.tickets or (not agent.ended and agent.last_seen > horizon)
        }
        running = {name for name in self._began if (task := tasks.get(name)) is not None and task.state == "running"}
        self._began = {name: began for name, began in self._began.items() if name in running}
        for name, use in list(self._used.items()):
            use.fade(now, self._config.half_life_s)
            if use.amount < NEGLIGIBLE and name not in at_work:
                del self._used[name]
        amounts = {name: self._used[name].amount if name in self._used else 0.0 for name in agents if name in at_work}
        mean = sum(amounts.values()) / len(amounts) if amounts else 0.0
        moved = []
        for agent in agents.values():
            nudge = 0
            if agent.name in amounts:
                nudge = self._stand(agent.name, amounts[agent.name], mean, now)
                nudge = -1 if self._nearly_done(agent, tasks) else nudge
            if nudge != agent.nudge:
                agent.nudge = nudge
                moved.append(agent)
                self._emit(Nudged(now, agent.name, nudge))
        return moved

    def _stand(self, name: str, amount: float, mean: float, now: float) -> int:
        """Return the classes that an agent moves for its use. Having moved, it stays until it is half way back to the
        mean, or it would go up and down with every reply."""
        use = self._used.setdefault(name, _Use(now))
        sink, rise = self._config.sink_share, self._config.rise_share
        if amount > (sink if use.standing < 1 else (sink + 1) / 2) * mean:
            use.standing = 1
        elif amount < (rise if use.standing > -1 else (rise + 1) / 2) * mean:
            use.standing = -1
        else:
            use.standing = 0
        return use.standing

    def _nearly_done(self, agent: Agent, tasks: Tasks) -> bool:
        """Whether one of its tasks has used most of its estimate."""
        if agent.task_priority is None:
            return False
        tokens = agent.own.ever.tokens
        for task in tasks.of_agent(agent.name):
            if task.state == "running" and task.spec.estimated_tokens:
                # One that a restart found running counts from then on.
                used = tokens - self._began.setdefault(task.spec.id, tokens)
                if used >= self._config.finish_share * task.spec.estimated_tokens:
                    return True
        return False
