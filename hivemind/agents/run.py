"""One command as an agent: a place for its process, the process in the foreground, and at its end what it used."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from hivemind.agents import descendants, scripts
from hivemind.agents.clients.known import kind_in
from hivemind.agents.clients.shims import path_without_shims
from hivemind.agents.environment import command_for, environment_for
from hivemind.agents.resumption import Resumption, variables_for
from hivemind.agents.session import Ask, Say, Session
from hivemind.agents.worktrees import LeftWorktree, WantedWorktree, without_git
from hivemind.api_types import PlaceRelease, PlaceRequest, PlaceResponse, RunUsage
from hivemind.control.client import ControlClient, ControlError
from hivemind.control.rights import Denied
from hivemind.errors import HiveMindError, UsageError
from hivemind.records import replace
from hivemind.scheduler.accounts import Covers
from hivemind.scheduler.commands import Rejected, SetBudget, SetPriority
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.scheduler.types import Priority
from hivemind.text.amounts import WantedBudget
from hivemind.text.humanise import did_you_mean

_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_CAUGHT = (*_FROM_KEYBOARD, signal.SIGTERM, signal.SIGHUP)
WHO = "runner"
"""Author of a runner's commands."""
REPORT_WITHIN_S = 10.0
"""How long a runner tries to report the end of its agent to a proxy that is away."""
_HEAD_ASKS_EVERY_S = 0.25
"""Interval of requests for a place at the head of the queue; the interval grows with the position."""


class CannotRun(HiveMindError):
    """A command that can't be started; the exit code is a shell's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code


class AgentCommand(Struct, frozen=True):
    """A command to run as an agent."""

    command: tuple[str, ...]
    cwd: Path
    name: str | None = None
    """The agent's name; None: its task's agent, else a free name after the command."""
    parent: str | None = None
    priority: Priority | None = None
    """None: unchanged; the budget likewise."""
    budget: WantedBudget | None = None
    covers: Covers | None = None
    task: str | None = None
    resumed: bool = False
    """The agent continues where it was stopped, and its run too."""
    resumption: Resumption | None = None
    """What its client continues; None: the command starts anew."""
    deadline: float | None = None
    """By when the turns of its requests have to come, in seconds since the epoch."""
    worktree: WantedWorktree | None = None
    """It starts in a git worktree of its own, in the folder that corresponds to `cwd`."""

    def starts_in(self, agent: str) -> Path:
        """Return the folder that its process is started in."""
        return self.cwd if self.worktree is None else self.worktree.start_of(agent, self.cwd)


class RunOutcome(Struct, frozen=True):
    """How the command ended, and what it used."""

    agent: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    seconds: float
    usage: RunUsage | None
    """None: the proxy was away."""
    worktree: LeftWorktree | None = None
    """What became of its worktree; None: it had none."""
    restarts: int = 0
    """How often it was started again."""


def check_command(command: tuple[str, ...], cwd: Path, environ: Mapping[str, str]) -> None:
    """Check that a command can be started. Raises: CannotRun."""
    name = command[0]
    if os.sep in name:
        path = cwd / name
        if not path.exists():
            raise CannotRun(f"{name}: there is no such file", 127)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise CannotRun(f"{name}: isn't a program that can be executed", 126)
    elif not name or shutil.which(name, path=path_without_shims(environ.get("PATH", os.defpath))) is None:
        raise CannotRun(f"{name}: no such command in PATH", 127)


async def run_agent(
    session: Session, job: AgentCommand, *, environ: Mapping[str, str], say: Say, foreground: Foreground
) -> RunOutcome:
    """Run the command in the foreground, with our standard streams, and wait for its end.

    Cancelled while it queues, it gives up its place; see :class:`Foreground` for signals after that.
    Raises: CannotRun, UsageError: before it is started; ControlError.
    """
    check_command(job.command, job.cwd, environ)
    wanted, given = await _request_place(session, job)
    _check_refused(wanted, given)
    session.placed()
    ended, tree, resuming = False, None, contextlib.ExitStack()
    try:
        route = session.way.with_tokens(await _queue(session, wanted, given, say))
        await _set_limits(session, job, wanted.agent)
        loop = asyncio.get_running_loop()
        made = environment_for(route, wanted.agent, environ, task=job.task)
        made |= resuming.enter_context(variables_for(job.resumption))
        cwd, kept = job.cwd, tuple[int, ...]()
        if job.worktree is not None:
            tree = await asyncio.to_thread(job.worktree.open, wanted.agent, job.cwd)
            cwd, made, kept = tree.cwd, without_git(made), (tree.lock,)
            say(f"{wanted.agent}: {tree.notice or f'works in {tree.folder}'}")
        began = loop.time()
        if why := scripts.past(job.command, cwd):
            say(why)
        process = _start(command_for(job.command, made), cwd, made, kept)
        with foreground.given_to(process):
            renewing = asyncio.Lock()
            keeping = asyncio.create_task(_keep(session, wanted, process.pid, renewing), name="keep the place")
            try:
                code = await asyncio.to_thread(process.wait)
            finally:
                async with renewing:  # a renewal that is carried out after the release would take the place again
                    keeping.cancel()
                await asyncio.wait((keeping,))
        seconds, ended = loop.time() - began, True
        used = await _leave(session, wanted, code, asked=foreground.passed_on)
        left = None if tree is None else await asyncio.to_thread(tree.finish, remove=code == 0)
        tree = None
        return RunOutcome(wanted.agent, code, seconds, used, left)
    finally:
        resuming.close()
        if tree is not None:
            tree.close()
        if not ended:
            await _leave(session, wanted, None)


def _start(
    command: tuple[str, ...], cwd: Path, environ: Mapping[str, str], kept: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start the process, which inherits the files `kept`. Raises: CannotRun."""
    try:
        return subprocess.Popen(command, cwd=cwd, env=dict(environ), pass_fds=kept)
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        raise CannotRun(f"{command[0]}: can't be started ({error.strerror})", code) from None


async def _leave(session: Session, wanted: PlaceRequest, code: int | None, *, asked: bool = False) -> RunUsage | None:
    """Release the place; the code is None if the process wasn't started. Return None if the proxy was away."""
    ended = PlaceRelease(wanted.agent, code, wanted.runner, WHO, kind_in(wanted.command), asked)
    try:
        return await session.patiently(lambda client: client.leave(ended), within_s=REPORT_WITHIN_S)
    except (ControlError, Rejected):
        return None  # the place expires, because nothing renews it any more


async def _request_place(session: Session, job: AgentCommand) -> tuple[PlaceRequest, PlaceResponse]:
    """Return the request for a place, and its first response; from then on the name is this runner's.

    Raises: UsageError, ControlError.
    """
    name = job.name or await _name_by_task(session, job.task)
    wanted = PlaceRequest(
        agent=name or "",
        parent=job.parent,
        task=job.task,
        priority=job.priority or Priority.NORMAL,
        resumed=job.resumed,
        command=job.command,
        cwd=str(job.cwd),
        runner=f"{os.getpid()}-{secrets.token_hex(4)}",
        takes_token=True,
        process=descendants.own_process(),
        deadline=job.deadline,
        who=WHO,
    )
    if name is None:
        return await _free_name(session, wanted, job)
    wanted = replace(wanted, cwd=str(job.starts_in(wanted.agent)))
    try:
        return wanted, await session.ask(lambda client: client.place(wanted))
    except Rejected as error:
        raise _refused(error) from None


async def _free_name(session: Session, wanted: PlaceRequest, job: AgentCommand) -> tuple[PlaceRequest, PlaceResponse]:
    """Name the agent `claude-1` for the first claude, and so on. Raises: UsageError, ControlError."""
    stem = PurePath(wanted.command[0]).name
    taken = {agent.name for agent in (await session.ask(ControlClient.world)).snapshot.agents}
    while True:
        name = next(name for number in itertools.count(1) if (name := f"{stem}-{number}") not in taken)
        named = replace(wanted, agent=name, fresh=True, cwd=str(job.starts_in(name)))
        try:
            return named, await session.ask(_placing(named))
        except Rejected as error:
            if "already" not in str(error):
                raise _refused(error, "; name the agent with --name") from None
            taken.add(name)  # by another runner, just now


def _refused(error: Rejected, hint: str = "") -> HiveMindError:
    """Return the error of a command that the proxy refused; what a run may not do isn't wrong usage."""
    return HiveMindError(str(error)) if isinstance(error, Denied) else UsageError(f"{error}{hint}")


def _placing(wanted: PlaceRequest) -> Ask[PlaceResponse]:
    return lambda client: client.place(wanted)


async def _name_by_task(session: Session, task: str | None) -> str | None:
    """Return the agent of the task. Raises: UsageError: there is no such task; ControlError."""
    if task is None:
        return None
    known = {each.spec.id: each for each in (await session.ask(lambda client: client.tasks())).tasks}
    if task not in known:
        raise UsageError(f"--task {task}: there is no such task{did_you_mean(task, known) or '; see hivemind tasks'}")
    return known[task].spec.agent or task


async def _queue(session: Session, wanted: PlaceRequest, given: PlaceResponse, say: Say) -> PlaceResponse:
    if given.granted:
        return given
    say(f"{wanted.agent}: queued behind {given.ahead}" if given.ahead else f"{wanted.agent}: queued, and next")
    while not given.granted:
        await asyncio.sleep(min(ASK_EVERY_S, _HEAD_ASKS_EVERY_S * (given.ahead + 1)))
        given = await session.patiently(
            _placing(wanted),
            away=lambda why: say(f"{wanted.agent}: waits for the proxy: {why}"),
            back=lambda: say(f"{wanted.agent}: the proxy is there again"),
        )
        _check_refused(wanted, given)
    say(f"{wanted.agent}: starts")
    return given


def _check_refused(wanted: PlaceRequest, given: PlaceResponse) -> None:
    if given.refused:
        raise HiveMindError(f"{wanted.agent} isn't started: {given.refused}")


async def _set_limits(session: Session, job: AgentCommand, agent: str) -> None:
    """Set the agent's priority and budget before it sends a request. Raises: UsageError, ControlError."""
    priority, budget = job.priority, job.budget
    try:
        if priority is not None:
            await session.order(SetPriority(agent, priority), WHO, within_s=REPORT_WITHIN_S)
        if budget is not None:
            order = SetBudget(agent, budget.tokens, budget.dollars, budget.per, job.covers)
            await session.order(order, WHO, within_s=REPORT_WITHIN_S)
    except Rejected as error:
        raise _refused(error) from None


async def _keep(session: Session, wanted: PlaceRequest, pid: int, renewing: asyncio.Lock) -> None:
    """Renew the place, so that a restarted proxy knows of it too."""
    while True:
        await asyncio.sleep(ASK_EVERY_S)
        descendants.reap((pid,))
        # Where another runner took the name meanwhile, or the proxy is away, the command continues.
        async with renewing:
            with contextlib.suppress(Rejected, ControlError):
                await session.ask(_placing(replace(wanted, running=True)))


class Foreground:
    """Signals of a runner whose command has the terminal.

    While the command runs, signals that reach only the runner are passed on to it, and the runner waits for its end.
    Before and after that they cancel the task that created this object.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self.number = 0
        """The signal that cancelled the task."""
        self.passed_on = False
        """A signal came while a command ran, so what it ended wasn't a crash."""

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Handle signals in this context, and keep what the command starts among this process's descendants."""
        descendants.adopt_orphans()
        loop = asyncio.get_running_loop()
        for number in _CAUGHT:
            loop.add_signal_handler(number, self._on_signal, number)
        stops = signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        if stops:
            loop.add_signal_handler(signal.SIGTSTP, self._stop)
        try:
            yield
        finally:
            for number in (*_CAUGHT, *([signal.SIGTSTP] if stops else [])):
                loop.remove_signal_handler(number)

    @contextlib.contextmanager
    def given_to(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Pass signals on to this process in this context."""
        self._process = process
        try:
            yield
        finally:
            self._process = None

    def _on_signal(self, number: signal.Signals) -> None:
        if self._process is None:
            self.number = number
            self._task.cancel()
            return
        self.passed_on = True
        if number not in _FROM_KEYBOARD or not _has_the_terminal():
            self._process.send_signal(number)

    def _stop(self) -> None:
        """Stop as if the signal hadn't been caught; whether that is possible depends on the parent process."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)


def _has_the_terminal() -> bool:
    """Return whether keys of the terminal reach this process, and with it the command in the same process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
