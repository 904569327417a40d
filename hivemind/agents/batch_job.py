"""One claimed task of a batch, seen through: a place, its process, and what the graph is told of its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.agents.attempts import Ended, TaskProcess, adopt, start
from hivemind.agents.batch_context import WHO, BatchContext, TaskOutcome
from hivemind.agents.environment import command_for, environment_for
from hivemind.agents.run import CannotRun, check_command
from hivemind.agents.shim import NOT_STARTED
from hivemind.api_types import PlaceRequest, RunUsage, TaskState
from hivemind.control.client import ControlError
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.text.amounts import raise_command
from hivemind.text.humanise import short_duration, usage

if TYPE_CHECKING:
    from hivemind.agents.plan import PlannedTask

GRACE_S = 10.0
"""From being asked to end to being ended."""
LOST_LIMIT = 3
"""An attempt that vanished without a result is made again; after so many in a row the task has failed."""
_TIMED_OUT = "timed out"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_NEXT_ASKS_EVERY_S = 0.25
"""For a place, when it is the next to get one."""
_LOOK_EVERY_S = 0.25
"""At whether its end is wanted; its end itself is noticed at once."""


class TaskRun:
    """From the claim to the end."""

    def __init__(self, desk: BatchContext, state: TaskState, *, taken_over: bool = False) -> None:
        self._desk = desk
        self.state = state
        self.planned: PlannedTask = desk.planned(state)
        self.agent = state.spec.agent or state.spec.id
        self.phase = "queued"
        """`queued` for a place, `running`, `stopping`, `delayed` before it starts again, or `over`."""
        self.ahead: int | None = None
        """How many queue before it; None: it doesn't."""
        self.unwanted = False
        """Somebody else ended the task in the graph."""
        self.began: float | None = None
        """Wall clock."""
        self._taken_over = taken_over
        self._folder = desk.folder.attempt(self.planned.name, state.runner)
        self._spared = False
        """It ended while its proxy was gone with the runner, so it isn't to blame if it failed."""
        self._place = asyncio.Lock()
        self._left = False
        self._token = ""
        """What its process shows as an agent; empty: what all agents show."""
        self._reason = ""
        """Why we ended it."""

    @property
    def name(self) -> str:
        """As the plan has it."""
        return self.planned.name

    @property
    def place(self) -> PlaceRequest:
        """What it asks for."""
        planned, state = self.planned, self.state
        return PlaceRequest(
            self.agent,
            self._desk.batch,
            state.spec.id,
            state.priority,
            running=self.phase in ("running", "stopping"),
            resumed=any(self._earlier()),
            command=planned.command,
            cwd=str(planned.cwd),
            runner=state.runner,
            takes_token=True,
            who=WHO,
        )

    async def run(self) -> None:
        """See it through; what couldn't be told to the proxy is found by a later runner."""
        try:
            async with self._desk.alone(self.agent):
                attempt = await (self._found() if self._taken_over else self._begun())
                if attempt is not None:
                    await self._conclude(await self._watched(attempt))
        except ControlError as error:
            self._desk.say(f"{self.name}: the proxy isn't told how it stands ({error}); --resume will", "warn")
        finally:
            self.phase = "over"
            self._desk.changed.set()

    async def keep(self) -> None:
        """Keep its place, if it has one. Raises: NoAnswer."""
        async with self._place:
            if self.phase in ("running", "stopping") and not self._left:
                with contextlib.suppress(Rejected):  # somebody has the name; the process runs all the same
                    await self._desk.keep(self.place)

    async def _leave(self, exit_code: int | None) -> RunUsage:
        async with self._place:  # asked for after it was given back, it would be taken for a while
            self._left = True
            return await self._desk.leave(self.agent, self.state.runner, exit_code)

    # --- Beginning ------------------------------------------------------------------------------------------------

    async def _found(self) -> TaskProcess | None:
        """What an earlier runner left of it; None: nothing."""
        if not self._folder.exists():
            self._desk.say(f"{self.name} hadn't been started yet; it goes back", "warn")
            await self._leave(None)
            await self._tell(ok=False, note="lost before it was started", again=True)
            return None
        attempt = adopt(self._folder)
        self.phase, self.began = "running", self._folder.stat().st_mtime
        runner = self._desk.folder.runner(self.state.runner)
        if attempt.look() is not None:
            self._spared = runner is not None and runner.hosted
        else:
            self._desk.say(f"{self.name} still runs", "")
        return attempt

    async def _begun(self) -> TaskProcess | None:
        """None: it isn't to be started any more, or couldn't be."""
        desk, planned, way = self._desk, self.planned, self._desk.session.way
        if not await self._placed():
            await self._tell(ok=False, note="stopped", again=True)
            return None
        try:
            await desk.budget(self.agent, planned.budget)
        except Rejected as error:
            desk.say(f"{self.name}: its budget isn't set: {error}", "warn")
        given = {**desk.environ, **planned.env}
        way = way.with_token(self._token)
        environ = environment_for(way, self.agent, given, program=planned.command[0], task=self.state.spec.id)
        command, log = command_for(way, self.agent, planned.command), desk.folder.log(self.name)
        self.phase, self.began = "running", desk.wall()
        try:
            check_command(command, planned.cwd, environ)
            self._head(log)
            attempt = start(self._folder, command, cwd=planned.cwd, environ=environ, log=log)
        except CannotRun as error:
            _explain(log, str(error))
            await self._conclude(Ended(error.code), str(error))
            return None
        except OSError as error:
            await self._conclude(Ended(NOT_STARTED), f"{error.filename or log}: {error.strerror}")
            return None
        desk.say(f"{self.name} started" + (f" (try {self.state.attempt})" if self.state.attempt > 1 else ""), "start")
        return attempt

    async def _placed(self) -> bool:
        """Get a place. Returns False where the runner is to stop first."""
        told = False
        while not (self._desk.stop.is_set() or self.unwanted):
            try:
                given = await self._desk.ask(lambda client: client.place(self.place))
            except Rejected as error:
                self.ahead = None
                if not told:
                    self._desk.say(f"{self.name} waits: {error}", "warn")
                told = True
            else:
                if given.granted:
                    self.ahead, self._token = None, given.token
                    return True
                self.ahead = given.ahead
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._desk.stop.wait(), _NEXT_ASKS_EVERY_S if self.ahead == 0 else ASK_EVERY_S)
        if self.ahead is not None:
            await self._leave(None)
        return False

    def _head(self, log: Path) -> None:
        """Tell the attempts of a task apart."""
        if log.exists() and self.began is not None:
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.began))
            with log.open("a", encoding="utf-8") as file:
                file.write(f"--- try {self.state.attempt}, {stamp} ---\n")

    # --- While it runs --------------------------------------------------------------------------------------------

    async def _watched(self, attempt: TaskProcess) -> Ended:
        """Until the process has ended, by itself or because we want it to."""
        loop, kill_at = asyncio.get_running_loop(), float("inf")
        end = asyncio.create_task(attempt.ended())
        try:
            while not end.done():
                if not self._reason and (reason := self._why_end()):
                    self._reason, self.phase, kill_at = reason, "stopping", loop.time() + GRACE_S
                    attempt.stop()
                if self._reason and (loop.time() > kill_at or self._desk.at_once.is_set()):
                    attempt.stop(hard=True)
                await asyncio.wait((end,), timeout=_LOOK_EVERY_S)
            return end.result()
        finally:
            end.cancel()

    def _why_end(self) -> str:
        limit_s = self.planned.timeout
        if self.unwanted:
            return "cancelled"
        if self._desk.stop.is_set():
            return "stopped"
        if limit_s is not None and self.began is not None and self._desk.wall() - self.began > limit_s:
            return f"{_TIMED_OUT} after {short_duration(limit_s)}"
        return ""

    # --- The end --------------------------------------------------------------------------------------------------

    async def _conclude(self, ended: Ended, problem: str = "") -> None:
        """Record and report how the process ended."""
        code, took = ended.exit_code, max(0.0, ended.ended - ended.began)
        used = await self._leave(-9 if code is None else code)
        how, note = self._verdict(code, problem)
        outcome = TaskOutcome(how, code, took, used.tokens, used.dollars, used.unpriced)
        self._desk.folder.conclude(self.name, self.state.runner, outcome)
        if how == "cancelled":
            self._desk.say(f"{self.name} was ended, because somebody else ended its task", "warn")
        elif how == "done":
            self._desk.say(f"{self.name} is done after {short_duration(took)}{_used(used)}", "good")
            await self._tell(ok=True, note="", again=False)
        elif how == "failed":
            await self._failed(note, took, used)
        else:
            self._desk.say(f"{self.name}: {note}; it goes back", "warn")
            await self._tell(ok=False, note=note, again=True)

    def _verdict(self, code: int | None, problem: str) -> tuple[str, str]:
        """What it comes to, and why."""
        if self._reason == "cancelled":
            return "cancelled", ""
        if code == 0 and not self._reason.startswith(_TIMED_OUT):
            return "done", ""
        if self._reason == "stopped":
            return "stopped", "stopped"
        if code is None:
            lost = self._recent("lost") + 1
            return ("lost", "lost without a result") if lost < LOST_LIMIT else ("failed", f"lost {lost} times")
        if self._spared and not self._reason:
            return "stopped", f"{_ending(code)} while no proxy ran"
        return "failed", problem or self._reason or _ending(code)

    async def _failed(self, note: str, took: float, used: RunUsage) -> None:
        failures, planned = self._recent("failed"), self.planned
        if used.stopped:
            note += ", stopped by an operator"
        elif used.used_up is not None:
            note += ", budget used up"
        said = f"{self.name} failed ({note}) after {short_duration(took)}{_used(used)}"
        again = failures <= planned.restarts and used.used_up is None and not used.stopped
        if not again:
            if used.used_up is not None:
                said += f"; raise it with {raise_command(used.used_up)}, then --retry-failed"
            self._desk.say(said, "bad")
        else:
            delay_s = planned.restart_delay
            when = f"in {short_duration(delay_s)}" if delay_s else "at once"
            self._desk.say(f"{said}; it starts again {when} ({failures} of {planned.restarts})", "warn")
            self.phase = "delayed"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._desk.stop.wait(), delay_s)
        await self._tell(ok=False, note=note, again=again)

    async def _tell(self, *, ok: bool, note: str, again: bool) -> None:
        if not self.unwanted:
            await self._desk.finish(self.state, ok=ok, note=note, again=again)

    def _recent(self, how: str) -> int:
        """Attempts that came to that, since the task was tried anew."""
        return sum(each.how == how for each in self._earlier(this_one=True))

    def _earlier(self, *, this_one: bool = False) -> list[TaskOutcome]:
        """What came of its attempts since the task was tried anew."""
        outcomes = self._desk.folder.outcomes(self.name)[-max(1, self.state.attempt) :]
        return [each for each in (outcomes if this_one else outcomes[:-1]) if each is not None]


def _explain(log: Path, text: str) -> None:
    """Of a command that can't be started, where people look for what it said."""
    with contextlib.suppress(OSError), open(os.open(log, _APPEND, 0o600), "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def _used(used: RunUsage) -> str:
    return f", {usage(used.tokens, used.dollars, used.unpriced)}" if used.tokens else ""
