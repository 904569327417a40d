"""A proxy as one of its runs may use it: the control API and the tools answer a run with this in the proxy's place."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hivemind import api_types as api
from hivemind.control.codec import to_plain
from hivemind.control.parsing import WHO_LENGTH
from hivemind.control.rights import Denied
from hivemind.records import replace
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import Command, SetBudget, SteerCommand, SubmitTasks
from hivemind.world.snapshot import RequestDetail

if TYPE_CHECKING:
    from hivemind.control.controlled import ControlledProxy

_ASKED_LENGTH = 200
_HIDDEN = ("…",)


class RunAccess:
    """The proxy for the run of an agent: what it may not do raises :class:`Denied`, and is an event of the proxy's."""

    def __init__(self, proxy: ControlledProxy, run: str) -> None:
        self._proxy = proxy
        self._rights = proxy.rights
        self.run = run
        self.who = f"agent {run}"[:WHO_LENGTH].strip()
        """Author of its commands."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proxy, name)

    @property
    def processes(self) -> RunAccess:
        """The agents' processes, which the run may use as it may the proxy."""
        return self

    @property
    def settings_file(self) -> Path | None:
        """The settings' file, which is the operator's."""
        with self.reported("read or write the settings' file"):
            raise Denied("the settings' file is for the operator")

    @contextlib.contextmanager
    def reported(self, asked: str) -> Iterator[None]:
        """Report what is denied in this context."""
        try:
            yield
        except Denied as error:
            self._proxy.denied(self.run, asked, str(error))
            raise

    def owns(self, agent: str) -> bool:
        """Return whether an agent is the run's own, or one that it started."""
        return self._rights.includes(self.run, agent)

    def require(self, agent: str, asked: str, at: float = math.inf) -> None:
        """Check that it owns the agent, and did at a moment of the scheduler's clock. Raises: Denied."""
        with self.reported(asked):
            if not self.owns(agent) or at < self._rights.owned_since(self.run, agent):
                raise Denied(f"the run of {self.run} may only {asked} of itself and of what it started")

    def owns_checkpoint(self, agent: str, parent: str | None) -> bool:
        """Return whether it owns an agent, and did when this was the agent's parent."""
        return self.owns(agent) and self._rights.owned(self.run, agent, parent)

    def require_checkpoint(self, agent: str, parent: str | None) -> None:
        """Check that it owns the agent of a checkpoint that was written under this parent. Raises: Denied."""
        with self.reported("read checkpoints"):
            if not self.owns_checkpoint(agent, parent):
                raise Denied(f"the run of {self.run} may only read checkpoints of itself and of what it started")

    # --- Commands -------------------------------------------------------------------------------------------------

    def apply(self, command: Command, who: str) -> None:
        """Carry out a command. Raises: Rejected."""
        command = self._spelled(command)
        with self.reported(_asked(command)):
            command = self._rights.check(self.run, command)
        decider = self._rights.decider(self.run, command)
        self._proxy.apply(command, self.who)
        self._rights.note(command, decider)

    async def apply_anywhere(self, command: Command, who: str) -> None:
        """Carry out a command here, where all that the run may decide on is. Raises: Rejected."""
        self.apply(command, who)

    def _spelled(self, command: Command) -> Command:
        if isinstance(command, SteerCommand | SetBudget) and command.agent:
            return replace(command, agent=self._proxy.engine.spelling(command.agent))
        return command

    # --- Places and tasks -----------------------------------------------------------------------------------------

    def claim(self, wanted: api.ClaimRequest, who: str) -> api.TaskClaim:
        """Start the next eligible task that has a command. Raises: Rejected."""
        with self.reported(f"claim a task of {'any batch' if wanted.batch is None else wanted.batch}"):
            self._rights.require_own_batch(self.run, wanted.batch, "claim")
        return self._proxy.processes.claim(wanted, self.who)

    def place(self, wanted: api.PlaceRequest, who: str) -> api.PlaceResponse:
        """Return whether the process of an agent that it starts may run now. Raises: Rejected."""
        with self.reported(f"start {wanted.agent}"):
            wanted = self._rights.place(self.run, wanted)
        if wanted.process and not self._proxy.processes.runs.within(self.run, wanted.process):
            wanted = replace(wanted, process="")
        return self._proxy.processes.place(wanted, self.who)

    async def leave(self, ended: api.PlaceRelease, who: str) -> api.RunUsage:
        """Note that the process of an agent that it started has ended. Raises: Rejected."""
        if not self._proxy.processes.is_below(self.run, ended.agent):
            with self.reported(f"release the place of {ended.agent}"):
                self._rights.leave(self.run, ended)
        return await self._proxy.leave(ended, self.who)

    def tasks(self, batch: str | None, *, running: bool = False) -> tuple[api.TaskState, ...]:
        """Return the tasks, as the proxy does; without the commands that others submitted, which may hold secrets."""

        def shown(task: api.TaskState) -> api.TaskState:
            if not task.spec.command or self._rights.may_report(self.run, task.spec):
                return task
            return replace(task, spec=replace(task.spec, command=_HIDDEN))

        return tuple(shown(task) for task in self._proxy.processes.tasks(batch, running=running))

    # --- What is shown --------------------------------------------------------------------------------------------

    def detail(self, ticket: int) -> RequestDetail | None:
        """Return the details of a request of its own, or of what it started. Raises: Denied."""
        found = self._proxy.detail(ticket)
        if found is not None:
            self.require(found.view.agent, "read the details of requests", found.view.arrived_at)
        return found


def _asked(command: Command) -> str:
    """Return a command in a bounded line, for people."""
    about = to_plain(command)
    if isinstance(command, SubmitTasks):
        about = {"tasks": [spec.id for spec in command.tasks]}
    given = ", ".join(f"{key} {_value(value)}" for key, value in about.items() if value is not None)
    text = " ".join(redact(f"{type(command).__name__} {given}").split())
    return text if len(text) <= _ASKED_LENGTH else f"{text[: _ASKED_LENGTH - 1]}…"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
