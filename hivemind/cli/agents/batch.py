"""`hivemind batch`: run a plan's tasks, as many at once as may, each as soon as those before it are done."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.cli.plugin import Command
from hivemind.errors import HiveMindError, UsageError
from hivemind.settings import add_flags, forget_secrets, from_flags
from hivemind.settings.options import STARTING
from hivemind.text.humanise import plural
from hivemind.text.shells import command_line

if TYPE_CHECKING:
    from hivemind.agents.batch_context import BatchFolder, RunnerContext
    from hivemind.agents.plans.plan import Plan
    from hivemind.agents.progress import BatchProgress, Screen
    from hivemind.settings import Settings

AT_ONCE = 8
"""Tasks that run at once where neither the plan nor the settings say."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PLAN [--max-agents N] [--resume | --fresh | --check] [setting ...]"
    parser.epilog = (
        "Uses the proxy that runs, or starts one, which ends when it is idle; settings are that one's."
        " --max-agents is also how many tasks run at once; unset: as the plan says, else as the proxy does, else 8."
        " Ctrl-C ends what runs, and --resume goes on where it stood, also after a crash. The exit code is 0 if all"
        " tasks are done, else 1, and 2 for a plan that can't be run."
    )
    parser.add_argument("plan", metavar="PLAN", type=Path, help="a YAML file of tasks")
    parser.add_argument("--check", action="store_true", help="only check the plan, and print the order")
    parser.add_argument("--resume", action="store_true", help="go on where it stood")
    parser.add_argument("--retry-failed", action="store_true", help="go on, and try what failed once more")
    parser.add_argument("--fresh", action="store_true", help="begin anew, whatever was done already")
    parser.add_argument("--json", metavar="FILE", help="write a report there; -: on standard output, for the table")
    parser.add_argument("--to", metavar="NAME", help="the upstream that all requests go to [by their path]")
    parser.add_argument("--attach", metavar="URL", help="use the proxy at this address")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="where its control token is noted")
    add_flags(parser, STARTING)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.agents.plans.reading import read_plan

    if namespace.fresh and (namespace.resume or namespace.retry_failed):
        raise UsageError("--fresh begins anew and --resume goes on; choose one")
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    forget_secrets()
    goes_on = namespace.resume or namespace.retry_failed
    plan = read_plan(namespace.plan, str(namespace.plan), begun=goes_on)
    if namespace.check:
        print("\n".join(_checked(plan)))
        return 0
    return _started(namespace, plan, settings)


def _checked(plan: Plan) -> Iterator[str]:
    """The order in which one agent at a time would go through it."""
    order = plan.order()
    yield f"{plan.name}: {plural(len(order), 'task')}; one at a time, in this order:"
    name = max(len(task.name) for task in order)
    for number, task in enumerate(order, 1):
        after = f"after {', '.join(task.after)}" if task.after else ""
        line = f"{number:>5}  {task.name:<{name}}  {task.priority.name.lower():<8}  {after}"
        yield line.rstrip()


def _started(namespace: argparse.Namespace, plan: Plan, settings: Settings) -> int:
    from hivemind.agents.batch_context import BatchFolder, Busy
    from hivemind.control.client import ControlError
    from hivemind.host.loop import run_loop
    from hivemind.store.token_file import state_dir

    report = _report_file(namespace.json)
    try:
        folder = BatchFolder(state_dir(settings.state_dir), plan.name)
        with folder.held():
            return run_loop(_served(namespace, plan, settings, folder, report))
    except Busy:
        raise UsageError(f"{plan.name}: a runner works on this batch already; wait for it, or end it") from None
    except ControlError as error:
        raise HiveMindError(f"{plan.name}: {error}") from None
    except OSError as error:
        raise HiveMindError(f"{plan.name}: {error.filename}: {error.strerror}") from None


def _report_file(name: str | None) -> Path | None:
    """Raises: UsageError: nothing can be written there."""
    if name is None:
        return None
    path = Path(name)
    if name != "-" and (path.is_dir() or not os.access(path.absolute().parent, os.W_OK)):
        raise UsageError(f"--json {name}: can't be written")
    return path


async def _served(
    namespace: argparse.Namespace, plan: Plan, settings: Settings, folder: BatchFolder, report: Path | None
) -> int:
    from hivemind.agents.batch import BatchRunner, begin
    from hivemind.agents.batch_context import BatchContext
    from hivemind.agents.progress import Screen, size_of
    from hivemind.cli.agents.opening import most_given, session_by_flags
    from hivemind.control.client import ControlError

    screen = Screen(sys.stderr, os.environ, size_of(sys.stderr))
    try:
        async with session_by_flags(namespace, settings, environ=os.environ, say=screen.say) as session:
            context = BatchContext(session, folder, os.environ, screen.say, time.time, plan=plan)
            with stopping_on_signals(context, screen) as received:
                try:
                    again = namespace.retry_failed
                    resume = namespace.resume or again
                    left = await begin(context, resume=resume, fresh=namespace.fresh, retry_failed=again)
                    most = most_given(namespace, settings) or plan.max_agents or session.about.max_agents or AT_ONCE
                    batch = BatchRunner(context, most, watched=screen.live)
                    screen.say(f"{plan.name}: {most} at once, logs in {folder.logs}", "")
                    standing = await batch.run(left, screen.show)
                finally:
                    with contextlib.suppress(ControlError):
                        await context.leave(plan.name, context.place.runner, 0)
            await asyncio.to_thread(screen.close)
            _print_result(standing, report)
            if received:
                screen.say(f"to go on: {command_line('hivemind batch --resume', str(namespace.plan))}", "")
    finally:
        await asyncio.to_thread(screen.close)
    return 128 + received[0] if received else 0 if standing.complete else 1


@contextlib.contextmanager
def stopping_on_signals(context: RunnerContext, screen: Screen) -> Iterator[list[int]]:
    """End everything in good order at the first signal, at once at the second. Yields the signals received."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def stop(number: int) -> None:
        if not received:
            screen.say(f"{signal.Signals(number).name}: what runs is told to end; once more ends it at once", "warn")
        else:
            context.at_once.set()
        received.append(number)
        context.stop.set()
        context.changed.set()

    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup wants it
    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


def _print_result(standing: BatchProgress, report: Path | None) -> None:
    from hivemind.agents.progress import Ink, as_json, closing, size_of

    if report is not None:
        text = json.dumps(as_json(standing), indent=2) + "\n"
        if report == Path("-"):
            sys.stdout.write(text)
            return
        draft = report.with_name(f".{report.name}.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.replace(report)
    terminal = sys.stdout.isatty()
    width = size_of(sys.stdout)()[0] if terminal else 100
    print("\n".join(closing(standing, width, Ink(terminal and not os.environ.get("NO_COLOR")))))


command = Command(_configure, _run)
