"""What everybody who works on a batch shares: the proxy, the plan, the folder, the lines, and the word to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hivemind.agents.batch_folder import BatchFolder
from hivemind.agents.plan import Plan, PlannedTask
from hivemind.agents.session import Ask, Session
from hivemind.api_types import PlaceRelease, PlaceRequest, RunUsage, TaskState
from hivemind.control.client import ControlError
from hivemind.control.discovery import AGENT_VARIABLE
from hivemind.scheduler.commands import FinishTask, Rejected, SetBudget
from hivemind.text.amounts import WantedBudget

T = TypeVar("T")

WHO = "batch"
"""Signs what a runner orders."""
LAST_WORDS_S = 10.0
"""How long a proxy that is away is waited for once the runner is to stop."""
_LAST_WORD_S = 1.0
"""And once it is to stop at once."""


@dataclass
class BatchContext:
    """What a batch's runner works with: proxy, plan, folder and output."""

    session: Session
    plan: Plan
    folder: BatchFolder
    environ: Mapping[str, str] = field(repr=False)
    say: Callable[[str, str], object]
    """Takes a line and its tone."""
    wall: Callable[[], float]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Start nothing more, and end what runs."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """End it the hard way."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    notice: str = ""
    """What keeps everything from going on."""
    _agents: dict[str, asyncio.Lock] = field(default_factory=dict)

    @property
    def batch(self) -> str:
        """The batch's name."""
        return self.plan.name

    @property
    def place(self) -> PlaceRequest:
        """The batch's own: it is the parent of its agents, which costs no place, and counts what they use."""
        return PlaceRequest(
            self.batch,
            self.environ.get(AGENT_VARIABLE) or None,
            running=True,
            resumed=True,
            runner=f"{socket.gethostname()}:{self.folder.root}",
            who=WHO,
        )

    async def keep(self, place: PlaceRequest) -> None:
        """Keep a place in the proxy for the runner. Raises: NoAnswer, Rejected."""
        await self.session.ask(lambda client: client.place(place))

    def planned(self, state: TaskState) -> PlannedTask:
        """Return a task as the plan has it; one that isn't in the plan, as the graph has it."""
        name, spec = self.short(state.spec.id), state.spec
        return self.plan.tasks.get(name) or PlannedTask.model_construct(
            name=name,
            command=spec.command,
            agent=spec.agent,
            cwd=Path(self.plan.path).parent,
            restarts=spec.attempts - 1,
            env=self.plan.env,
        )

    def short(self, text: str) -> str:
        """Return a task's name without the batch's before it."""
        return text.removeprefix(f"{self.batch}.")

    @contextlib.asynccontextmanager
    async def alone(self, agent: str) -> AsyncIterator[None]:
        """One process at a time is called that."""
        async with self._agents.setdefault(agent, asyncio.Lock()):
            yield

    async def ask(self, ask: Ask[T]) -> T:
        """Ask the proxy, and wait for it where it is away; not for ever once the runner is to stop.

        Raises: Rejected; NoAnswer.
        """
        patient = asyncio.create_task(self.session.patiently(ask, away=self.away, back=self.back))
        stop, hard = asyncio.create_task(self.stop.wait()), asyncio.create_task(self.at_once.wait())
        try:
            await asyncio.wait((patient, stop), return_when=asyncio.FIRST_COMPLETED)
            if not patient.done():
                await asyncio.wait((patient, hard), timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait((patient,), timeout=_LAST_WORD_S)
            if not patient.done():
                raise ControlError("the proxy is away")
            return patient.result()
        finally:
            for task in (patient, stop, hard):
                task.cancel()
            await asyncio.wait((patient, stop, hard))

    def away(self, why: str) -> None:
        """The proxy doesn't answer."""
        if not self.notice:
            self.notice = (
                f"the proxy is away ({why}); running tasks go on, and what becomes of them is told when it is back"
            )
            self.say(self.notice, "warn")

    def back(self) -> None:
        """Note that the proxy answers again."""
        if self.notice:
            self.notice = ""
            self.say("the proxy is back", "good")

    async def state_of(self, task: str) -> TaskState | None:
        """A task as the graph has it. Raises: NoAnswer."""
        found = await self.ask(lambda client: client.tasks(self.batch))
        return next((each for each in found.tasks if each.spec.id == task), None)

    async def finish(self, state: TaskState, *, ok: bool, note: str, again: bool) -> None:
        """Tell the graph how an attempt ended, once. Raises: NoAnswer."""
        order, task, heard = FinishTask(state.spec.id, ok, note, again), state.spec.id, False
        while True:
            if heard:
                # It may have been carried out before its answer was lost, and the task be at its next attempt.
                now = await self.state_of(task)
                if now is None or now.state != "running" or now.runner != state.runner:
                    return
            try:
                await self.session.ask(lambda client: client.command(order, WHO))
                return
            except Rejected as error:
                self.say(f"{self.short(task)}: how it ended isn't noted: {error}", "warn")
                return
            except ControlError as error:
                heard = heard or error.sent
                await self.ask(lambda client: client.about())

    async def leave(self, agent: str, claim: str, exit_code: int | None) -> RunUsage:
        """An agent's process has ended. Raises: NoAnswer."""
        return await self.ask(lambda client: client.leave(PlaceRelease(agent, exit_code, claim, WHO)))

    async def budget(self, agent: str, wanted: WantedBudget | None) -> None:
        """Order an agent's budget, with all that it starts, unless that was done; what an operator made of it since
        holds. Raises: NoAnswer, Rejected."""
        if not wanted or self.folder.ordered(agent) == repr(wanted):
            return
        order = SetBudget(agent, wanted.tokens, wanted.dollars, wanted.per, "subtree")
        await self.ask(lambda client: client.command(order, WHO))
        self.folder.order(agent, repr(wanted))
