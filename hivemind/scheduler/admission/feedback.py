"""Dynamic priority: whoever uses much sinks a class, whoever uses little rises one (paper, Future Directions:
multilevel feedback queue).

What an agent uses counts in weighted tokens and is forgotten by half every `half_life_s`. It is compared with the mean
of the agents at work, so it makes no difference where all use about the same. An agent near the end of its task counts
a class higher whatever it used: what it holds is free sooner so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.scheduler.admission.queue import reclass
from hivemind.scheduler.config import FeedbackConfig
from hivemind.scheduler.events import Nudged
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Usage

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler
    from hivemind.scheduler.tasks.graph import Task

REVIEW_EVERY_S = 1.0
FORGOTTEN = 0.5
"""Weighted tokens that are as good as none."""


class _Use:
    """What one agent used lately."""

    __slots__ = ("amount", "at", "standing")

    def __init__(self, now: float) -> None:
        self.amount = 0.0
        self.at = now
        self.standing = 0
        """1: it sank for what it used; -1: it rose."""

    def fade(self, now: float, half_life_s: float) -> None:
        """Forget what time makes forgotten."""
        self.amount *= 0.5 ** ((now - self.at) / half_life_s)
        self.at = now


class Feedback:
    """Of one scheduler. Where the settings have it off it keeps nothing and moves nobody."""

    __slots__ = ("_began", "_config", "_reviewed_at", "_used")

    def __init__(self, config: FeedbackConfig) -> None:
        self._config = config
        self._used: dict[str, _Use] = {}
        self._began: dict[str, int] = {}
        """Tokens that a running task's agent had used when it began, by task."""
        self._reviewed_at = float("-inf")

    def began(self, task: Task, agent: Agent | None) -> None:
        """The task runs from now on; its agent is None while it hasn't been seen yet."""
        if self._config.enabled:
            self._began[task.spec.id] = 0 if agent is None else agent.own.ever.tokens

    def landed(self, scheduler: Scheduler, agent: Agent, usage: Usage | None, now: float) -> None:
        """An attempt of the agent's has ended and used so much."""
        if not self._config.enabled:
            return
        if usage is not None:
            use = self._used.get(agent.name)
            if use is None:
                use = self._used[agent.name] = _Use(now)
            use.fade(now, self._config.half_life_s)
            use.amount += usage.weighted
        self.review(scheduler, now)

    def review(self, scheduler: Scheduler, now: float) -> None:
        """See where everybody stands, once in a while."""
        if not self._config.enabled or now < self._reviewed_at + REVIEW_EVERY_S:
            return
        self._reviewed_at = now
        at_work = {agent.name: agent for agent in scheduler.agents.values() if self._at_work(agent, now)}
        self._began = {name: began for name, began in self._began.items() if _runs(scheduler, name)}
        for name, use in list(self._used.items()):
            use.fade(now, self._config.half_life_s)
            if use.amount < FORGOTTEN and name not in at_work:
                del self._used[name]
        amounts = {name: self._used[name].amount if name in self._used else 0.0 for name in at_work}
        mean = sum(amounts.values()) / len(amounts) if amounts else 0.0
        for agent in scheduler.agents.values():
            nudge = 0
            if agent.name in at_work:
                nudge = self._stand(agent.name, amounts[agent.name], mean, now)
                nudge = -1 if self._nearly_done(scheduler, agent) else nudge
            if nudge != agent.nudge:
                agent.nudge = nudge
                reclass(agent, now)
                scheduler.events.append(Nudged(now, agent.name, nudge))

    def _at_work(self, agent: Agent, now: float) -> bool:
        return bool(agent.tickets) or (not agent.ended and now - agent.last_seen < self._config.half_life_s)

    def _stand(self, name: str, amount: float, mean: float, now: float) -> int:
        """Where its use puts it. Having sunk or risen, it stays so until it is half way back to the mean, or it would
        go up and down with every answer."""
        use = self._used.get(name)
        if use is None:
            use = self._used[name] = _Use(now)
        sink, rise = self._config.sink_share, self._config.rise_share
        if amount > (sink if use.standing < 1 else (sink + 1) / 2) * mean:
            use.standing = 1
        elif amount < (rise if use.standing > -1 else (rise + 1) / 2) * mean:
            use.standing = -1
        else:
            use.standing = 0
        return use.standing

    def _nearly_done(self, scheduler: Scheduler, agent: Agent) -> bool:
        """One of its tasks has used most of what it was estimated at."""
        if agent.task_priority is None:
            return False
        tokens = agent.own.ever.tokens
        for task in scheduler.tasks.of_agent(agent.name):
            if task.state == "running" and task.spec.estimated_tokens:
                # One that a restart found running counts from then on.
                used = tokens - self._began.setdefault(task.spec.id, tokens)
                if used >= self._config.finish_share * task.spec.estimated_tokens:
                    return True
        return False


def _runs(scheduler: Scheduler, task: str) -> bool:
    found = scheduler.tasks.get(task)
    return found is not None and found.state == "running"
