"""`hivemind work`: run tasks with a command as they are submitted, outside of batches."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from hivemind.cli.agents.batch import AT_ONCE, stopping_on_signals
from hivemind.cli.plugin import Command
from hivemind.errors import HiveMindError, UsageError
from hivemind.settings import Settings, add_flags, forget_secrets, from_flags
from hivemind.settings.options import STARTING
from hivemind.text.humanise import plural


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [--max-agents N] [--idle-exit S] [setting ...]"
    parser.epilog = (
        "Runs every task with a command that isn't of a plan, as hivemind tasks submit and the tools add them, until it"
        " is interrupted. Several may work at once; each task runs once. What a killed one has left goes on, and is"
        " taken over by another or by the next. --max-agents is how many tasks run at once; unset: as the proxy says,"
        " else 8."
    )
    parser.add_argument("--idle-exit", type=float, metavar="S", help="end after so many seconds without a task [never]")
    parser.add_argument("--to", metavar="NAME", help="the upstream that all requests go to [by their path]")
    parser.add_argument("--attach", metavar="URL", help="use the proxy at this address")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="where its control token is noted")
    add_flags(parser, STARTING)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.control.client import ControlError
    from hivemind.host.loop import run_loop

    if namespace.idle_exit is not None and not 0 <= namespace.idle_exit < float("inf"):
        raise UsageError("--idle-exit: must be a number of seconds, 0 or more")
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    forget_secrets()
    try:
        return run_loop(_served(namespace, settings))
    except ControlError as error:
        raise HiveMindError(str(error)) from None
    except OSError as error:
        raise HiveMindError(f"{error.filename}: {error.strerror}") from None


async def _served(namespace: argparse.Namespace, settings: Settings) -> int:
    from hivemind.agents.batch_context import RunnerContext, RunnerNote
    from hivemind.agents.progress import Screen, size_of
    from hivemind.agents.work import Worker, WorkFolder
    from hivemind.cli.agents.opening import most_given, session_by_flags
    from hivemind.store.token_file import state_dir

    screen = Screen(sys.stderr, os.environ, size_of(sys.stderr))
    folder = WorkFolder(state_dir(settings.state_dir))

    def say(text: str, tone: str = "") -> None:
        screen.say(text, "" if tone == "start" else tone)

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, screen.close)
        session = await stack.enter_async_context(session_by_flags(namespace, settings, environ=os.environ, say=say))
        most = most_given(namespace, settings) or session.about.max_agents or AT_ONCE
        context = RunnerContext(session, folder, os.environ, say, time.time)
        note = RunnerNote("", session.about.run)
        with folder.joined(context.runner, note), stopping_on_signals(context, screen) as received:
            say(f"works on tasks as they come: {plural(most, 'task')} at once, logs in {folder.logs}")
            await Worker(context, folder, most, namespace.idle_exit).run()
    return 128 + received[0] if received else 0


command = Command(_configure, _run)
