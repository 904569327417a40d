"""One claimed task: its place, its process, and the report of its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

from hivemind.agents.attempts import Ended, TaskProcess, start
from hivemind.agents.batch_context import WHO, RunnerContext, TaskOutcome
from hivemind.agents.clients.known import kind_in
from hivemind.agents.environment import command_for, environment_for
from hivemind.agents.resumption import Resumption, resumption_in, variables_for
from hivemind.agents.run import CannotRun, check_command
from hivemind.agents.shim import NOT_STARTED
from hivemind.agents.worktrees import without_git
from hivemind.api_types import PlaceRequest, PlaceResponse, RunUsage, TaskState
from hivemind.control.client import ControlError
from hivemind.errors import HiveMindError
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.text.amounts import raise_command
from hivemind.text.humanise import exit_text, moment, short_duration, usage
from hivemind.waiting import wait_up_to

GRACE_S = 10.0
"""From SIGTERM to SIGKILL."""
LOST_LIMIT = 3
"""An attempt that vanished without a result is repeated; after so many in a row the task has failed."""
_TIMED_OUT = "timed out"
_BY_OPERATOR = (_STOPPED, _CANCELLED) = "stopped", "cancelled"
"""Reasons for ending a process that aren't its own fault."""
_NEXT_ASKS_EVERY_S = 0.25
"""Interval of requests for a place at the head of the queue."""
_LOOK_EVERY_S = 0.25
"""Interval of checks whether the process should end; its end is noticed at once."""


class TaskRun:
    """A task from the claim to the end."""

    def __init__(self, context: RunnerContext, state: TaskState, *, taken_over: bool = False) -> None:
        """`taken_over`: an earlier runner claimed it."""
        self._context = context
        self.state = state
        self.planned = context.planned(state)
        self.name = self.planned.name
        self.agent = state.spec.agent or state.spec.id
        self.phase = "queued"
        """`queued` for a place, `running`, `stopping`, `delayed` before it starts again, or `over`."""
        self.ahead: int | None = None
        """Its position in the queue; None: it isn't queued."""
        self.unwanted = False
        """Another client ended the task in the graph."""
        self.began: float | None = None
        """When its process did, on the loop's clock: the time of day may be set meanwhile."""
        self._clock = asyncio.get_running_loop().time
        self._taken_over = taken_over
        self._folder = context.folder.attempt(self.name, state.runner)
        self._spared = False
        """It ended without a proxy, so a failure isn't its own."""
        self._place = asyncio.Lock()
        self._left = False
        self._given = PlaceResponse(False, 0)
        """The answer that granted its place, with the tokens of its process."""
        self._process = ""
        """Its process, as of :attr:`.PlaceRequest.process`."""
        self._resuming = contextlib.ExitStack()
        self._reason = ""
        """Why this runner ended it."""
        self._refused = ""
        """Why no place can be had."""

    @property
    def place(self) -> PlaceRequest:
        """The request for its place."""
        planned, state = self.planned, self.state
        return PlaceRequest(
            self.agent,
            self._context.parent(state),
            state.spec.id,
            state.priority,
            running=self.phase in ("running", "stopping"),
            resumed=any(self._outcomes()[:-1]),
            command=planned.command,
            cwd=str(planned.starts_in(self.agent)),
            runner=state.runner,
            takes_token=True,
            process=self._process,
            deadline=state.spec.deadline or None,
            who=WHO,
        )

    async def run(self) -> None:
        """Run it to its end. An end that can't be reported is found by a later runner."""
        try:
            async with self._context.lock(self.agent):
                attempt = await (self._found() if self._taken_over else self._begun())
                if attempt is not None:
                    await self._conclude(await self._watched(attempt))
        except ControlError as error:
            self._context.say(f"{self.name}: the proxy isn't told how it stands ({error}); a later runner will", "warn")
        finally:
            self._resuming.close()
            self.phase = "over"
            self._context.active.discard(self.name)
            self._context.changed.set()

    async def keep(self) -> None:
        """Renew its place, if it has one. Raises: ControlError."""
        async with self._place:
            if self.phase in ("running", "stopping") and not self._left:
                with contextlib.suppress(Rejected):  # another agent has the name; the process runs all the same
                    await self._context.session.ask(lambda client: client.place(self.place))

    async def _leave(self, exit_code: int | None) -> RunUsage:
        async with self._place:  # a renewal after the release would take the place again
            self._left = True
            kind, asked = kind_in(self.planned.command), self._reason in _BY_OPERATOR
            return await self._context.leave(self.agent, self.state.runner, exit_code, kind, asked=asked)

    # --- Beginning ------------------------------------------------------------------------------------------------

    async def _found(self) -> TaskProcess | None:
        """Return the attempt of an earlier runner; None if it wasn't started."""
        if not self._folder.exists():
            self._context.say(f"{self.name} hadn't been started yet; it goes back", "warn")
            await self._leave(None)
            await self._finish(ok=False, note="lost before it was started", again=True)
            return None
        attempt = TaskProcess(self._folder)
        self._process = attempt.identity
        self.phase = "running"
        self.began = self._clock() - max(0.0, self._context.wall() - self._folder.stat().st_mtime)
        runner = self._context.folder.runner(self.state.runner)
        if attempt.look() is not None:
            self._spared = runner is not None and runner.proxy != self._context.session.about.run
        else:
            self._context.say(f"{self.name} still runs", "")
            self._context.active.add(self.name)
        return attempt

    async def _begun(self) -> TaskProcess | None:
        """Start the process; return None if it shouldn't be started any more, or can't be."""
        context, planned = self._context, self.planned
        if (deadline := self.state.spec.deadline) and context.wall() >= deadline:
            self._refused = f"its deadline, {moment(context.wall(), deadline)}, has passed"
            await self._conclude(Ended(NOT_STARTED), self._refused)
            return None
        if not await self._placed():
            if self._refused:
                await self._conclude(Ended(NOT_STARTED), self._refused)
            else:
                await self._finish(ok=False, note="stopped", again=True)
            return None
        try:
            await context.budget(self.agent, planned.budget)
        except Rejected as error:
            context.say(f"{self.name}: its budget isn't set: {error}", "warn")
        route = context.session.way.with_tokens(self._given)
        given = {**context.environ, **planned.env}
        environ = environment_for(route, self.agent, given, task=self.state.spec.id)
        environ |= self._resuming.enter_context(variables_for(await asyncio.to_thread(self._resumption)))
        command, log = command_for(planned.command, environ), context.folder.log(self.name)
        self.phase, self.began = "running", self._clock()
        cwd, kept = planned.cwd, tuple[int, ...]()
        try:
            if planned.tree is not None:
                tree = await asyncio.to_thread(planned.tree.open, self.agent, planned.cwd)
                cwd, kept, environ = tree.cwd, (tree.lock,), without_git(environ)
                if tree.notice:
                    context.say(f"{self.name}: {tree.notice}", "")
            check_command(planned.command, cwd, environ)
            if log.exists():
                stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(context.wall()))
                _append(log, f"--- try {self.state.attempt}, {stamp} ---")
            attempt = start(self._folder, command, cwd=cwd, environ=environ, log=log, kept=kept, held=True)
            self._process = attempt.identity
            try:
                with contextlib.suppress(ControlError):  # the proxy is away: it is told with the next renewal
                    await self.keep()
            finally:
                attempt.begin()
        except HiveMindError as error:
            _append(log, str(error))
            code = error.exit_code if isinstance(error, CannotRun) else NOT_STARTED
            await self._conclude(Ended(code), str(error))
            return None
        except OSError as error:
            await self._conclude(Ended(NOT_STARTED), f"{error.filename or log}: {error.strerror}")
            return None
        finally:
            for file in kept:
                os.close(file)
        again = f" (try {self.state.attempt})" if self.state.attempt > 1 else ""
        context.say(f"{self.name} started{again}", "start")
        return attempt

    async def _placed(self) -> bool:
        """Wait for a place. Return False if the runner is to stop first, or none can come.

        A place that is refused may be free once one of the runner's other attempts ends, but not without that.
        """
        waits = False
        while not (self._context.stop.is_set() or self.unwanted):
            try:
                given = await self._context.ask(lambda client: client.place(self.place))
            except Rejected as error:
                self.ahead = None
                if not waits:
                    self._context.say(f"{self.name} waits: {error}", "warn")
                waits = True
            else:
                if given.granted:
                    self.ahead, self._given = None, given
                    self._context.active.add(self.name)
                    return True
                self.ahead = None if given.refused else given.ahead
                if given.refused and not self._context.active:
                    self._refused = given.refused
                    return False
            pause_s = _NEXT_ASKS_EVERY_S if self.ahead == 0 else ASK_EVERY_S
            await wait_up_to(self._context.stop, pause_s)
        if self.ahead is not None:
            await self._leave(None)
        return False

    # --- Running and ending ---------------------------------------------------------------------------------------

    async def _watched(self, attempt: TaskProcess) -> Ended:
        """Wait for the end of the process, and end it if there is a reason."""
        loop, kill_at = asyncio.get_running_loop(), float("inf")
        end = asyncio.create_task(attempt.ended())
        try:
            while not end.done():
                if not self._reason and (reason := self._reason_to_end()):
                    self._reason, self.phase, kill_at = reason, "stopping", loop.time() + GRACE_S
                    attempt.stop()
                if self._reason and (loop.time() > kill_at or self._context.at_once.is_set()):
                    attempt.stop(hard=True)
                await asyncio.wait((end,), timeout=_LOOK_EVERY_S)
            return end.result()
        finally:
            end.cancel()

    def _reason_to_end(self) -> str:
        limit_s = self.planned.timeout
        if self.unwanted:
            return _CANCELLED
        if self._context.stop.is_set():
            return _STOPPED
        if limit_s is not None and self.began is not None and self._clock() - self.began > limit_s:
            return f"{_TIMED_OUT} after {short_duration(limit_s)}"
        return ""

    async def _conclude(self, ended: Ended, problem: str = "") -> None:
        code, took = ended.exit_code, max(0.0, ended.ended - ended.began)
        used = await self._leave(-9 if code is None else code)
        how, note = self._verdict(code, problem)
        whole_at = used.whole_at
        if how == "failed" and whole_at is not None and not (self._reason or used.stopped or used.used_up):
            how, note = "paused", "a plan's window is used up"
        silent = used.requests == 0
        if how == "done" and silent and self.planned.require_traffic:
            how, note = "failed", "no request on its own path"
        tree = self.planned.tree
        left = None
        if tree is not None:
            left = await asyncio.to_thread(tree.repository.finish, self.agent, remove=how == "done")
        kept = "" if left is None or left.removed else str(left.folder)
        counts = used.tokens, used.dollars, used.unpriced
        outcome = TaskOutcome(how, code, took, *counts, kept, used.checkpoint, used.estimated)
        self._context.folder.conclude(self.name, self.state.runner, outcome)
        after = f"after {short_duration(took)}"
        if used.tokens:
            after += f", {usage(used.tokens, used.dollars, used.unpriced, used.estimated)}"
        elif how == "done" and silent and self._calls_a_model:
            after += ", no request on its own path"
        if silent and used.elsewhere and self._calls_a_model:
            after += f"; meanwhile its client's requests came as {', '.join(used.elsewhere)}"
        if how == "cancelled":
            self._context.say(f"{self.name} was ended, because somebody else ended its task", "warn")
        elif how == "done":
            self._context.say(f"{self.name} is done {after}", "good")
            await self._finish(ok=True, note="", again=False)
        elif how == "failed":
            await self._failed(note, after, used)
        elif how == "paused" and whole_at is not None:
            await self._finish(ok=False, note=note, again=True, whole_at=whole_at)
            self._context.say(f"{self.name} is paused until {moment(self._context.wall(), whole_at)}: {note}", "warn")
        else:
            self._context.say(f"{self.name}: {note}; it goes back", "warn")
            await self._finish(ok=False, note=note, again=True)
        if left is not None and self.phase != "delayed":
            self._context.say(f"{self.name}: {left.text}", "")

    @property
    def _calls_a_model(self) -> bool:
        """Whether requests are expected of it, which aren't of a task such as `make test`."""
        return self.planned.budget is not None or bool(kind_in(self.planned.command))

    def _verdict(self, code: int | None, problem: str) -> tuple[str, str]:
        """Return the outcome, and the reason for it."""
        if self._reason == _CANCELLED:
            return "cancelled", ""
        if code == 0 and not self._reason.startswith(_TIMED_OUT):
            return "done", ""
        if self._reason == _STOPPED:
            return "stopped", "stopped"
        if code is None:
            lost = self._count("lost") + 1
            return ("lost", "lost without a result") if lost < LOST_LIMIT else ("failed", f"lost {lost} times")
        if self._spared and not self._reason:
            return "stopped", f"{exit_text(code)} while the proxy was away"
        return "failed", problem or self._reason or exit_text(code)

    async def _failed(self, note: str, after: str, used: RunUsage) -> None:
        failures, planned = self._count("failed"), self.planned
        if used.stopped:
            note += ", stopped by an operator"
        elif used.used_up is not None:
            note += ", budget used up"
        text = f"{self.name} failed ({note}) {after}"
        again = failures <= planned.restarts and used.used_up is None and not (used.stopped or self._refused)
        if again:
            delay_s = planned.restart_delay
            when = f"in {short_duration(delay_s)}" if delay_s else "at once"
            self._context.say(f"{text}; it starts again {when} ({failures} of {planned.restarts})", "warn")
            self.phase = "delayed"
            await wait_up_to(self._context.stop, delay_s)
        else:
            if used.used_up is not None:
                text += f"; raise it with {raise_command(used.used_up)}, then {self._context.retry(self.state)}"
            self._context.say(text, "bad")
        await self._finish(ok=False, note=note, again=again)

    async def _finish(self, *, ok: bool, note: str, again: bool, whole_at: float = 0.0) -> None:
        if not self.unwanted:
            await self._context.finish(self.state, ok=ok, note=note, again=again, whole_at=whole_at)

    def _count(self, how: str) -> int:
        return sum(each is not None and each.how == how for each in self._outcomes())

    def _resumption(self) -> Resumption | None:
        """Return what its client continues of the attempt before this one."""
        before = next((each for each in reversed(self._outcomes()) if each is not None), None)
        return resumption_in(self._context.session.way.state_dir, None if before is None else before.checkpoint)

    def _outcomes(self) -> list[TaskOutcome | None]:
        """Return the results of its attempts since the task was retried by hand, the present one's included."""
        return self._context.folder.outcomes(self.name)[-max(1, self.state.attempt) :]


def _append(log: Path, line: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with contextlib.suppress(OSError), open(os.open(log, flags, 0o600), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")
