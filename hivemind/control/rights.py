"""What a run may do through the control API and the tools: lower, pause and stop itself and what it started, never
raise itself or undo what somebody else decided. The operator may do all.

Who decided what is kept in memory; after a restart every decision counts as the operator's.

Pure: it is told what is known of agents and tasks, and returns the command to carry out, or raises :class:`Denied`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from hivemind.agent_names import same
from hivemind.api_types import PlaceRelease, PlaceRequest
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Budget
from hivemind.scheduler.commands import Command, Conflict, Rejected
from hivemind.scheduler.tasks import Task
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import ceiling

_DEEPEST = 1_000
_OPERATOR = ""
"""Who decided something, in :class:`Rights`: the operator, or a run's agent."""


class Principal(Struct, frozen=True):
    """Whose a request is."""

    run: str | None = None
    """The agent of the run; None: the operator."""


OPERATOR = Principal()


class Denied(Rejected):
    """A run asked for what it may not do."""

    bad_input = False


class Known(Protocol):
    """What is known of agents and tasks."""

    @property
    def tasks(self) -> Mapping[str, Task]: ...
    def find(self, name: str) -> Agent | None:
        """Return the agent of that name in any spelling, at hand or not."""

    def is_reserved(self, name: str) -> bool:
        """Return whether the settings bind the name to a token."""

    def below(self, agent: Agent) -> Iterable[Agent]:
        """Return the agents that it started, those that they started, and so on."""

    def ran(self, name: str) -> bool:
        """Return whether a runner started the agent's process, now or before."""

    def runs(self, name: str) -> bool:
        """Return whether the agent's process runs, or waits for a place."""


class Rights:
    """The rights of one proxy's runs."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._decided: dict[tuple[str, str], str] = {}
        """Who decided last what holds: by kind of command and agent or task. Nothing of it outlives the proxy: what was
        decided before counts as the operator's."""

    # --- Decisions ------------------------------------------------------------------------------------------------

    def note(self, command: Command, run: str = _OPERATOR) -> None:
        """Note who gave a command that was carried out."""
        about = _about(command)
        if about is not None:
            self._decided[about] = run

    def decider(self, run: str, command: Command) -> str:
        """Return whose decision it will be what a run's command decides: the run's, unless it stays within what
        somebody else decided. To be asked before the command is carried out."""
        about = _about(command)
        by = _OPERATOR if about is None else self._decided.get(about, _OPERATOR)
        if by:
            return run if self.includes(run, by) else by
        match command:
            case cmd.SetBudget(agent=str(name)):
                undecided = not self._agent(name).budget
            case cmd.SetPriority(name):
                undecided = self._agent(name).priority is None
            case cmd.PauseAgent(name):
                undecided = not self._agent(name).paused
            case cmd.StopAgent(name):
                undecided = not self._agent(name).stopped
            case cmd.SetTaskPriority():
                undecided = about not in self._decided
            case _:
                undecided = True
        return run if undecided else _OPERATOR

    def _is_own(self, run: str, command: Command) -> bool:
        """Return whether what holds now was decided by the run, or by one that it started."""
        about = _about(command)
        by = None if about is None else self._decided.get(about)
        return bool(by) and self.includes(run, by or "")

    # --- The tree of agents ---------------------------------------------------------------------------------------

    def includes(self, run: str, name: str) -> bool:
        """Return whether an agent is the run's own, or one that it started."""
        return same(name, run) or self._is_below(run, name)

    def _is_below(self, run: str, name: str) -> bool:
        at = name.rfind("/")
        while at > 0:  # a sub-agent within the run's process may not be known yet
            if same(name[:at], run):
                return True
            at = name.rfind("/", 0, at)
        agent = self._known.find(name)
        for _ in range(_DEEPEST):
            agent = None if agent is None else agent.parent
            if agent is None:
                return False
            if same(agent.name, run):
                return True
        return False

    def _agent(self, name: str) -> Agent:
        return self._known.find(name) or Agent(name, 0.0)

    def _require_below(self, run: str, name: str, what: str) -> None:
        if not self.includes(run, name):
            raise Denied(f"the run of {run} may not {what} {name}, which is neither itself nor was started by it")

    def priority(self, name: str) -> Priority:
        """Return the class in which an agent's requests count that ask for none."""
        agent: Agent | None = self._agent(name)
        base = Priority.NORMAL
        while agent is not None:
            if agent.priority is not None:
                return agent.priority
            if agent.task_priority is not None:
                base = agent.task_priority
            agent = agent.lead
        return base

    # --- Commands -------------------------------------------------------------------------------------------------

    def check(self, run: str, command: Command) -> Command:
        """Return the command as the run may give it. Raises: Denied."""
        match command:
            case cmd.SetBudget():
                self._check_budget(run, command)
            case cmd.SetPriority():
                self._check_priority(run, command)
            case cmd.PauseAgent(name, holds) | cmd.StopAgent(name, holds):
                self._require_below(run, name, "pause or stop")
                agent = self._agent(name)
                held = agent.paused if isinstance(command, cmd.PauseAgent) else agent.stopped
                if held and not holds and not self._is_own(run, command):
                    raise Denied(f"the run of {run} may not release {name}, which somebody else held")
            case cmd.CutRequest(name):
                self._require_below(run, name, "cut a request of")
            case cmd.BoostAgent(name, for_s):
                self._require_below(run, name, "end the boost of")
                if for_s:
                    raise Denied(f"the run of {run} may boost no agent")
            case cmd.EndAgent(name):
                within = any(same(name[:at], run) for at, letter in enumerate(name) if letter == "/")
                if not within or self._known.ran(name):  # a process is over when its runner says so
                    raise Denied(f"the run of {run} may only end sub-agents of its own process, and {name} is none")
            case cmd.BeginAgent():
                asked = PlaceRequest(
                    command.agent, command.parent, command.task, running=command.goes_on, resumed=command.resumed
                )
                made = self.place(run, asked)
                return replace(command, parent=made.parent)
            case cmd.SubmitTasks(specs):
                return replace(command, tasks=tuple(self._checked_spec(run, spec) for spec in specs))
            case cmd.ClaimTask(name) | cmd.FinishTask(name) | cmd.CancelTask(name):
                if not self._may_report_named(run, name):
                    raise Denied(f"task {name} is neither the run of {run}'s nor was it submitted by it")
                if isinstance(command, cmd.FinishTask):
                    return replace(command, others=tuple(o for o in command.others if self._may_report_named(run, o)))
            case cmd.RetryTask(name):
                self._check_retry(run, command)
            case cmd.SetTaskPriority():
                self._check_task_priority(run, command)
            case cmd.ForgetTasks(batch):
                self.require_own_batch(run, batch, "forget")
            case _:
                raise Denied(
                    f"the run of {run} may not give the command {type(command).__name__}: that is for the operator"
                )
        return command

    def _check_budget(self, run: str, command: cmd.SetBudget) -> None:
        name = command.agent
        if name is None:
            raise Denied(f"the run of {run} may not change the budget of all agents")
        self._require_below(run, name, "change the budget of")
        now = self._agent(name).budget
        if not now or _is_lower(now, command):
            return
        if same(name, run):
            raise Denied(f"the run of {run} may lower its own budget ({_text(now)}), but neither raise nor lift it")
        if not self._is_own(run, command):
            raise Denied(f"the run of {run} may only lower {name}'s budget ({_text(now)}), which somebody else set")

    def _check_priority(self, run: str, command: cmd.SetPriority) -> None:
        name, wanted = command.agent, command.priority
        self._require_below(run, name, "change the priority of")
        if wanted >= self.priority(name):
            return
        if same(name, run):
            raise Denied(f"the run of {run} may not raise its own priority")
        if wanted < self.priority(run):
            raise Denied(f"the run of {run} may not raise {name} above its own priority")
        if self._agent(name).priority is not None and not self._is_own(run, command):
            raise Denied(f"the run of {run} may only lower {name}'s priority, which somebody else set")

    # --- Tasks ----------------------------------------------------------------------------------------------------

    def may_report(self, run: str, spec: TaskSpec) -> bool:
        """Return whether the run works on the task, submitted it, or started the agent that does."""
        return self.includes(run, spec.agent or spec.id) or self.submitted(run, spec)

    def _may_report_named(self, run: str, name: str) -> bool:
        task = self._known.tasks.get(name)
        return task is None or self.may_report(run, task.spec)

    def submitted(self, run: str, spec: TaskSpec) -> bool:
        """Return whether the task was submitted by the run, or by one that it started."""
        return bool(spec.parent) and self.includes(run, spec.parent)

    def require_own_batch(self, run: str, batch: str | None, what: str) -> None:
        """Check that the run submitted all tasks of a batch, or (None) all tasks. Raises: Denied."""
        tasks: Iterable[Task] = self._known.tasks.values()
        of_others = (t for t in tasks if batch in (None, t.spec.batch) and not self.submitted(run, t.spec))
        if (found := next(of_others, None)) is not None:
            raise Denied(f"the run of {run} may {what} only what it submitted, and {found.spec.id} isn't that")

    def _checked_spec(self, run: str, spec: TaskSpec) -> TaskSpec:
        if spec.priority < self.priority(run):
            raise Denied(f"the run of {run} may not submit {spec.id} with a higher priority than its own")
        name = spec.agent or spec.id
        if not self.includes(run, name) and (self._known.find(name) is not None or self._known.is_reserved(name)):
            raise Denied(
                f"the run of {run} may not give {spec.id} to {name}, which it didn't start: that would hold it"
            )
        return spec if self.submitted(run, spec) else replace(spec, parent=run)

    def _check_retry(self, run: str, command: cmd.RetryTask) -> None:
        task = self._known.tasks.get(command.task)
        if task is None:
            return
        if not self.submitted(run, task.spec):
            raise Denied(f"the run of {run} may not retry {command.task}, which somebody else submitted")
        if task.state not in ("failed", "paused") and not self._is_own(run, cmd.CancelTask(command.task)):
            raise Denied(f"the run of {run} may not retry {command.task}, which somebody else cancelled")

    def _check_task_priority(self, run: str, command: cmd.SetTaskPriority) -> None:
        task = self._known.tasks.get(command.task)
        if task is None or (self.may_report(run, task.spec) and command.priority >= task.spec.priority):
            return
        decided = self._decided.get(("SetTaskPriority", command.task)) == _OPERATOR
        if not self.submitted(run, task.spec) or decided:
            raise Denied(f"the run of {run} may not raise {command.task}, whose priority somebody else decided")
        if command.priority < self.priority(run):
            raise Denied(f"the run of {run} may not raise {command.task} above its own priority")

    # --- Places ---------------------------------------------------------------------------------------------------

    def place(self, run: str, wanted: PlaceRequest) -> PlaceRequest:
        """Return the request for a place as the run may make it: of an agent that it starts. Raises: Rejected."""
        name = wanted.agent
        if same(name, run):
            raise Denied(f"the run of {run} may not take its own place")
        agent = self._known.find(name)
        if not self._is_below(run, name) and (agent is not None or self._known.is_reserved(name)):
            if wanted.fresh:  # it only looks for a free name
                raise Conflict(f"{name} is known already; choose another name")
            anew = not (wanted.running or wanted.resumed)
            if not anew or agent is None or self._known.is_reserved(name) or not self._is_free(run, agent):
                raise Denied(f"the run of {run} may not start {name}, which wasn't started by it; choose another name")
        if agent is not None and agent.stopped and not self._is_own(run, cmd.StopAgent(name, stopped=False)):
            raise Denied(f"the run of {run} may not start {name}, which somebody else stopped")
        task = None if wanted.task is None else self._known.tasks.get(wanted.task)
        if task is not None and not self.may_report(run, task.spec):
            raise Denied(f"task {wanted.task} is neither the run of {run}'s nor was it submitted by it")
        parent = wanted.parent if wanted.parent and self.includes(run, wanted.parent) else run
        return replace(wanted, parent=parent, priority=max(wanted.priority, self.priority(run)))

    def _is_free(self, run: str, agent: Agent) -> bool:
        """Return whether a run may start an agent anew that another run started: both have ended, and whatever else has
        rights over it, but for the run's own ancestors; it started nothing but parts of it; nothing that the operator
        decided about it holds; no task of others is for it. From then on it is charged to the new run."""
        known = self._known
        if agent.parent is None or agent.lead is not None:
            return False
        if not (known.ran(agent.name) and known.ran(agent.parent.name)):
            return False  # the operator's, or that of a batch of the operator's
        parts = tuple(known.below(agent))
        tree = (agent, *parts)
        if any(each.tickets or known.runs(each.name) for each in tree) or not all(each.lead in tree for each in parts):
            return False
        above: Agent | None = agent.parent
        while above is not None and not self.includes(above.name, run):
            if above.tickets or known.runs(above.name):
                return False
            above = above.parent
        theirs = (task.spec for task in known.tasks.values() if same(task.spec.agent or task.spec.id, agent.name))
        if not all(self.submitted(run, spec) for spec in theirs):
            return False
        return not any(self._decided_by_operator(each) for each in tree)

    def _decided_by_operator(self, agent: Agent) -> bool:
        """Return whether something holds for an agent that no run decided."""
        held = {
            "SetBudget": agent.budgeted,
            "SetPriority": agent.priority is not None,
            "PauseAgent": agent.paused,
            "StopAgent": agent.stopped,
        }
        if agent.boosted_until is not None or agent.task_priority is not None:
            return True
        return any(holds and not self._decided.get((kind, agent.name)) for kind, holds in held.items())

    def owned_since(self, run: str, name: str) -> float:
        """Return since when an agent that a run includes was the run's, in seconds of the scheduler's clock."""
        since, agent = -math.inf, self._known.find(name)
        while agent is not None:
            since, above = max(since, agent.since), agent.parent
            agent = None if same(agent.name, run) else above
        return since

    def owned(self, run: str, name: str, parent: str | None) -> bool:
        """Return whether an agent that a run includes was the run's already when this was its parent."""
        agent = self._known.find(name)
        if agent is None or agent.parent is None:
            return True
        if agent.lead is not None and self.owned_since(run, name) > -math.inf:
            return False  # which of its process's parents it had then isn't known
        return parent is None or same(agent.parent.name, parent)

    def leave(self, run: str, ended: PlaceRelease) -> None:
        """Check that the run may release a place. Raises: Denied."""
        if not self._is_below(run, ended.agent):
            raise Denied(f"the run of {run} may only release places of what it started, and {ended.agent} isn't that")

    def parent_for(self, wanted: PlaceRequest) -> str | None:
        """Return the parent of an agent that an operator's runner starts: of a task that a run submitted, that run."""
        task = None if wanted.task is None else self._known.tasks.get(wanted.task)
        if task is None or not task.spec.parent:
            return wanted.parent
        if wanted.parent and self.includes(task.spec.parent, wanted.parent):
            return wanted.parent
        return task.spec.parent


def _about(command: Command) -> tuple[str, str] | None:
    """Return what a command decides."""
    kind = type(command).__name__
    match command:
        case cmd.SetBudget(agent=str(name)) | cmd.SetPriority(name) | cmd.PauseAgent(name) | cmd.StopAgent(name):
            return kind, name
        case cmd.SetTaskPriority(name) | cmd.CancelTask(name):
            return kind, name
    return None


def _is_lower(now: Budget, command: cmd.SetBudget) -> bool:
    """Return whether the command leaves at most what the budget leaves now."""
    if command.per not in (None, now.per, "ever"):
        return False
    if now.covers == "subtree" and command.covers == "agent":
        return False
    pairs = ((now.tokens, command.tokens), (now.dollars, command.dollars))
    return all(before is None or (after is not None and after <= before) for before, after in pairs)


def _text(budget: Budget) -> str:
    return ceiling(budget.tokens, budget.dollars, budget.per, budget.covers)
