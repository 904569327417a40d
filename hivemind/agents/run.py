"""One command as an agent: a place for its process first, then the process, and at its end what it used."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from hivemind.agents.environment import command_for, environment_for
from hivemind.agents.foreground import Foreground
from hivemind.agents.session import Ask, Say, Session
from hivemind.api_types import PlaceRelease, PlaceRequest, PlaceResponse, RunUsage
from hivemind.control.client import ControlClient, ControlError
from hivemind.errors import HiveMindError, UsageError
from hivemind.scheduler.accounts import Covers
from hivemind.scheduler.commands import Command, Rejected, SetBudget, SetPriority
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.scheduler.types import Priority
from hivemind.text.amounts import WantedBudget
from hivemind.text.suggest import did_you_mean

WHO = "runner"
"""Signs what a runner orders."""
TOLD_WITHIN_S = 10.0
"""How long a runner tries to tell a proxy that is away how its agent ended."""
_HEAD_ASKS_EVERY_S = 0.25
"""Whoever is next asks so often; those behind it less and less."""


class CannotRun(HiveMindError):
    """A command that can't be started; the exit code is a shell's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """What is to run."""

    command: tuple[str, ...]
    cwd: Path
    name: str | None = None
    """The agent's; None: its task's, else a free one after the command."""
    parent: str | None = None
    """The agent that starts it."""
    priority: Priority | None = None
    """None: as it is."""
    budget: WantedBudget | None = None
    """None: as it is."""
    covers: Covers | None = None
    task: str | None = None
    resumed: bool = False
    """The agent goes on where it was stopped, and so does its run."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How the command ended, and what it used."""

    agent: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    seconds: float
    """From start to end of the process."""
    usage: RunUsage | None
    """None: the proxy was away."""


def check_command(command: tuple[str, ...], cwd: Path, environ: Mapping[str, str]) -> None:
    """Whether it can be started, as far as that can be told beforehand. Raises: CannotRun."""
    name = command[0]
    if os.sep in name:
        path = cwd / name
        if not path.exists():
            raise CannotRun(f"{name}: there is no such file", 127)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise CannotRun(f"{name}: isn't a program that can be executed", 126)
    elif not name or shutil.which(name, path=environ.get("PATH", os.defpath)) is None:
        raise CannotRun(f"{name}: no such command in PATH", 127)


async def run_agent(
    session: Session, job: AgentCommand, *, environ: Mapping[str, str], say: Say, foreground: Foreground
) -> RunOutcome:
    """Run the command in the foreground, with our standard streams, and wait for its end.

    Cancelled while it queues, it gives its turn up; see :class:`~.foreground.Foreground` for signals after that.
    Raises: CannotRun, UsageError: before it is started; NoAnswer.
    """
    check_command(job.command, job.cwd, environ)
    wanted, given = await _first_asked(session, job)
    async with _registered(session, wanted) as left:
        way = session.way.with_token((await _queue(session, wanted, given, say)).token)
        await _decide(session, job, wanted.agent)
        loop = asyncio.get_running_loop()
        made = environment_for(way, wanted.agent, environ, program=job.command[0], task=job.task)
        began = loop.time()
        process = _started(command_for(way, wanted.agent, job.command), job.cwd, made)
        with foreground.given_to(process):
            keeping = asyncio.create_task(_keep(session, wanted), name="keep the place")
            try:
                code = await asyncio.to_thread(process.wait)
            finally:
                keeping.cancel()
                await asyncio.wait((keeping,))
        seconds = loop.time() - began
        return RunOutcome(wanted.agent, code, seconds, await left(code))


def _started(command: tuple[str, ...], cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Raises: CannotRun."""
    try:
        return subprocess.Popen(command, cwd=cwd, env=dict(environ))
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        raise CannotRun(f"{command[0]}: can't be started ({error.strerror})", code) from None


class _Left:
    """Says once that an agent's process has ended, or won't be started."""

    def __init__(self, session: Session, wanted: PlaceRequest) -> None:
        self._session = session
        self._wanted = wanted
        self.said = False

    async def __call__(self, code: int | None) -> RunUsage | None:
        self.said = True
        ended = PlaceRelease(self._wanted.agent, code, self._wanted.runner, WHO)
        try:
            return await self._session.patiently(lambda client: client.leave(ended), within_s=TOLD_WITHIN_S)
        except (ControlError, Rejected):
            return None  # its place will be free because nobody asks for it any more


@contextlib.asynccontextmanager
async def _registered(session: Session, wanted: PlaceRequest) -> AsyncIterator[_Left]:
    left = _Left(session, wanted)
    try:
        yield left
    finally:
        if not left.said:
            await left(None)


async def _first_asked(session: Session, job: AgentCommand) -> tuple[PlaceRequest, PlaceResponse]:
    """What to ask for, and the first answer; the name is ours from now on. Raises: UsageError, NoAnswer."""
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
        who=WHO,
    )
    if name is None:
        return await _free_name(session, wanted)
    try:
        return wanted, await session.ask(lambda client: client.place(wanted))
    except Rejected as error:
        raise UsageError(str(error)) from None


async def _free_name(session: Session, wanted: PlaceRequest) -> tuple[PlaceRequest, PlaceResponse]:
    """`claude-1` for the first claude, and so on. Raises: UsageError, NoAnswer."""
    stem = PurePath(wanted.command[0]).name
    known = {agent.name for agent in (await session.ask(ControlClient.world)).snapshot.agents}
    for number in itertools.count(1):
        asked = replace(wanted, agent=f"{stem}-{number}", fresh=True)
        if asked.agent in known:
            continue
        try:
            return asked, await session.ask(_placing(asked))
        except Rejected as error:
            if "already" not in str(error):  # else somebody took it just now
                raise UsageError(f"{error}; name the agent with --name") from None
    raise AssertionError("numbers don't end")


def _placing(wanted: PlaceRequest) -> Ask[PlaceResponse]:
    return lambda client: client.place(wanted)


async def _name_by_task(session: Session, task: str | None) -> str | None:
    """Who works on it. Raises: UsageError: there is no such task; NoAnswer."""
    if task is None:
        return None
    known = {each.spec.id: each for each in (await session.ask(lambda client: client.tasks())).tasks}
    if task not in known:
        raise UsageError(f"--task {task}: there is no such task{did_you_mean(task, known) or '; see hivemind tasks'}")
    return known[task].spec.agent or task


async def _queue(session: Session, wanted: PlaceRequest, given: PlaceResponse, say: Say) -> PlaceResponse:
    """Until there is a place, which is returned."""
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
    say(f"{wanted.agent}: starts")
    return given


async def _decide(session: Session, job: AgentCommand, agent: str) -> None:
    """What the operator wants of the agent, before it can ask for anything. Raises: UsageError, NoAnswer."""
    decisions: list[Command] = []
    if job.priority is not None:
        decisions.append(SetPriority(agent, job.priority))
    if job.budget is not None:
        decisions.append(SetBudget(agent, job.budget.tokens, job.budget.dollars, job.budget.per, job.covers))
    for command in decisions:
        try:
            await session.patiently(_ordering(command), within_s=TOLD_WITHIN_S)
        except Rejected as error:
            raise UsageError(str(error)) from None


def _ordering(command: Command) -> Ask[object]:
    return lambda client: client.command(command, WHO)


async def _keep(session: Session, wanted: PlaceRequest) -> None:
    """Ask for the place again and again, so that a proxy that is started anew knows of it too."""
    while True:
        await asyncio.sleep(ASK_EVERY_S)
        with contextlib.suppress(Rejected):  # somebody took the name while we were away: the command goes on
            await session.patiently(_placing(replace(wanted, running=True)))
