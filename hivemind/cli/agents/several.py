"""`hivemind run --count`: several agents of one command, by the runner of a batch, so that they survive its end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import PurePath

from hivemind.agents import numbered
from hivemind.agents.batch import BatchRunner, begin
from hivemind.agents.batch_context import BatchContext, BatchFolder, Busy
from hivemind.agents.plans.document import PlanError
from hivemind.agents.progress import BatchProgress, Screen, as_json, size_of, usage_of
from hivemind.agents.run import AgentCommand
from hivemind.agents.session import Session
from hivemind.api_types import TaskState
from hivemind.cli.agents.batch import stopping_on_signals
from hivemind.cli.agents.opening import most_given, session_by_flags, write_report
from hivemind.console import print_note
from hivemind.control.client import ControlClient, ControlError
from hivemind.errors import HiveMindError, UsageError
from hivemind.host.loop import run_loop
from hivemind.scheduler.commands import ForgetTasks, Rejected
from hivemind.settings import Settings
from hivemind.store.token_file import state_dir
from hivemind.text.humanise import plural, short_duration
from hivemind.text.shells import command_line
from hivemind.waiting import cancel_all

_COPY_EVERY_S = 0.2
_BAD = ("warn", "bad")
"""Tones of lines that are printed with --quiet too."""
_FAILED_SHOWN = 8


def run_several(
    namespace: argparse.Namespace,
    settings: Settings,
    job: AgentCommand,
    check: Callable[[Session], object],
    *,
    environ: Mapping[str, str],
) -> int:
    """Run `--count` agents and print how they ended. Return the exit code. `check` is given the proxy's session.

    Raises: HiveMindError; ControlError.
    """
    if job.covers == "agent":
        raise UsageError("--covers agent: with --count the budget is each agent's, with all that it starts")
    try:
        return run_loop(_served(namespace, settings, job, check, environ))
    except Busy:
        raise UsageError(f"{job.name}: a runner works on agents of that name already; choose another --name") from None
    except OSError as error:
        raise HiveMindError(f"{error.filename}: {error.strerror}") from None


async def _served(
    namespace: argparse.Namespace,
    settings: Settings,
    job: AgentCommand,
    check: Callable[[Session], object],
    environ: Mapping[str, str],
) -> int:
    screen = Screen(sys.stderr, os.environ, size_of(sys.stderr))

    def say(text: str, tone: str = "") -> None:
        if tone in _BAD or not namespace.quiet:
            screen.say(text, tone)

    try:
        async with session_by_flags(namespace, settings, environ=environ, say=say) as session:
            check(session)
            name = job.name or await free_name(session, job, namespace.count)
            required = namespace.require_traffic
            plan = numbered.plan_of(job, name, namespace.count, namespace.restarts, require_traffic=required)
            folder = BatchFolder(state_dir(settings.state_dir), name)
            with folder.held():
                context = BatchContext(session, folder, environ, say, time.time, plan=plan)
                most = most_given(namespace, settings) or namespace.count
                standing, received = await _run(context, screen, most, quiet=namespace.quiet)
    finally:
        await asyncio.to_thread(screen.close)
    code = 128 + received[0] if received else numbered.exit_code(standing.rows)
    for line in () if namespace.quiet else _summary(standing):
        print_note(line)
    if namespace.report is not None:
        write_report(namespace.report, {"exit_code": code, **as_json(standing)})
    return code


async def _run(context: BatchContext, screen: Screen, most: int, *, quiet: bool) -> tuple[BatchProgress, list[int]]:
    """Run the plan to its end. Return how it stands then, and the signals received."""
    with stopping_on_signals(context, screen) as received:
        try:
            goes_on = any(state.state == "running" for state in await context.tasks())
            left = await _begin(context, goes_on=goes_on)
            output = _output(context, screen)
            if goes_on:
                output.skip()
            batch = BatchRunner(context, most, watched=screen.live)
            if not quiet:
                screen.say(
                    f"{context.batch}: {plural(len(context.plan.tasks), 'agent')}, logs in {context.folder.logs}"
                )
            copying = asyncio.create_task(_copy(output), name="copy output")
            try:
                standing = await batch.run(left, (lambda _: None) if quiet else screen.show)
            finally:
                await cancel_all((copying,))
                screen.show(None)
                await asyncio.to_thread(output.copy, last=True)
            with contextlib.suppress(ControlError, Rejected):
                await context.order(ForgetTasks(context.batch))  # they were only this runner's
        finally:
            with contextlib.suppress(ControlError):
                await context.leave(context.batch, context.place.runner, 0)
    return standing, received


async def _begin(context: BatchContext, *, goes_on: bool) -> list[TaskState]:
    """Begin anew, or go on with agents whose runner was killed. Raises: UsageError, ControlError, OSError."""
    if goes_on:
        context.say(f"{context.batch}: its agents still run or were interrupted, so this goes on with them", "warn")
    try:
        return await begin(context, resume=goes_on, fresh=not goes_on, retry_failed=False)
    except PlanError:
        raise UsageError(
            f"{context.batch}: agents of that name are at work for another command, and their runner was killed; run"
            " the same command again to go on with them, or choose another --name"
        ) from None


async def free_name(session: Session, job: AgentCommand, count: int) -> str:
    """Return the command's name, with a number if it or one of the agents' names is taken. Raises: ControlError."""
    stem = PurePath(job.command[0]).name
    taken = {agent.name for agent in (await session.ask(ControlClient.world)).snapshot.agents}
    for number in itertools.count(1):
        name = stem if number == 1 else f"{stem}-{number}"
        if taken.isdisjoint((name, *numbered.names_of(name, count))):
            return name
    raise AssertionError


def _output(context: BatchContext, screen: Screen) -> numbered.Output:
    names = [*context.plan.tasks]
    width = max(map(len, names))
    together = screen.live and sys.stdout.isatty()

    def write(name: str, line: bytes) -> None:
        if together:
            screen.write(f"{name:<{width}} | {numbered.shown_safely(line.decode('utf-8', 'replace'))}\n")
            return
        try:
            sys.stdout.buffer.write(f"{name:<{width}} | ".encode() + line + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # nobody reads any more; the agents work on, and their logs have it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return numbered.Output({name: context.folder.log(name) for name in names}, write)


async def _copy(output: numbered.Output) -> None:
    while True:
        await asyncio.to_thread(output.copy)
        await asyncio.sleep(_COPY_EVERY_S)


def _summary(standing: BatchProgress) -> list[str]:
    rows, counts = standing.rows, standing.counts
    states = ", ".join(f"{number} {state}" for state, number in counts.items())
    took = short_duration(standing.elapsed_s)
    lines = [f"{standing.batch}: {plural(len(rows), 'agent')}, {states}; {took}, {usage_of(rows)}"]
    failed = [row for row in rows if row.state == "failed"]
    again = next((command_line("hivemind resume", row.agent) for row in failed if row.checkpoint), "")
    lines += [f"{row.agent} failed ({row.note}), {row.log}" for row in failed[:_FAILED_SHOWN]]
    return [*lines, *([f"to let one go on: {again}"] if again else [])]
