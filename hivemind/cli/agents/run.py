"""`hivemind run`: a command as an agent, with its own path through the proxy, priority and budget."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from hivemind.agents.restarts import run_with_restarts
from hivemind.agents.run import AgentCommand, Foreground, RunOutcome, check_command
from hivemind.agents.session import Say, Session
from hivemind.cli.address import checked_agent
from hivemind.cli.agents.opening import session_by_flags, write_report
from hivemind.cli.plugin import Command
from hivemind.console import print_note
from hivemind.control.client import ControlError
from hivemind.control.discovery import AGENT_VARIABLE, URL_VARIABLE
from hivemind.errors import HiveMindError, UsageError
from hivemind.scheduler.types import Priority
from hivemind.settings import Settings, add_flags, forget_secrets, from_flags, without_secrets
from hivemind.settings.options import FINDING, STARTING, given_flags
from hivemind.text.amounts import WantedBudget, owner, parse_budget, raise_command, shell_hint
from hivemind.text.deadlines import parse_deadline
from hivemind.text.humanise import duration, exit_text, plural, usage
from hivemind.text.shells import command_line
from hivemind.world.lines import silent

if TYPE_CHECKING:
    from hivemind.agents.worktrees import WantedWorktree

NO_TRAFFIC = 4
"""Exit code of a run that had to send requests on its path and sent none."""
_EXAMPLE = "hivemind run --name alice -- claude -p 'fix the tests'"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [--name NAME] [--priority WORD] [--budget AMOUNT] [setting ...] -- COMMAND ..."
    parser.epilog = (
        "Uses the proxy that runs, or starts one, which ends when it is idle; settings are that one's. The exit code is"
        " the command's, 128 and the signal's number where a signal ended it."
    )
    add = parser.add_argument
    add("--name", metavar="NAME", help="the agent's [the command's, and a number]")
    words = [each.name.lower() for each in Priority]
    add("--priority", type=str.lower, choices=words, metavar="WORD", help="critical, high, normal or low")
    add("--budget", metavar="AMOUNT", help="as 200k, 5usd, 5usd/day or 200k,5usd; none takes it away")
    add(
        "--covers",
        choices=("agent", "subtree"),
        metavar="WORD",
        help="agent, or subtree: with all agents that it starts",
    )
    add("--task", metavar="ID", help="the task that it works on")
    add("--to", metavar="NAME", help="the upstream that all its requests go to [by their path]")
    add("--hold-answers", action="store_true", help="hold each stream until it is whole, so that a cut one is retried")
    add("--cwd", type=Path, metavar="FOLDER", help="where to start it [here]")
    add(
        "--worktree",
        nargs="?",
        const="",
        metavar="BASE",
        help="start it in a git worktree and branch of its own, kept afterwards [at the last commit]",
    )
    add(
        "--deadline",
        metavar="WHEN",
        help="by when its requests must have their turn: 90s, 1h30m, 18:00, 2026-12-24T18:00; the earliest go first",
    )
    add("--count", type=int, metavar="N", help="so many agents, NAME-1 to NAME-N, each with priority and budget")
    add(
        "--restarts",
        type=int,
        default=0,
        metavar="K",
        help="start it again when it crashes, at most so often; not after a stop, a signal or a used-up budget",
    )
    add(
        "--require-traffic", action="store_true", help="exit with 4 if no request came on its path, and it ended with 0"
    )
    add("--report", type=Path, metavar="FILE", help="write exit code, time and usage there (JSON)")
    add("--quiet", action="store_true", help="say nothing but what goes wrong")
    add("--attach", metavar="URL", help="use the proxy at this address")
    add("--token-file", type=Path, metavar="FILE", help="where its control token is noted")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    add_flags(parser, STARTING)


def _run(namespace: argparse.Namespace) -> int:
    job = _job(namespace, without_secrets(os.environ))
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    forget_secrets()
    log: Say = (lambda _: None) if namespace.quiet else print_note

    async def run(session: Session, foreground: Foreground) -> RunOutcome:
        _check_unused(session, namespace)
        restarts = namespace.restarts
        return await run_with_restarts(session, job, restarts, environ=os.environ, say=log, foreground=foreground)

    # An agent's process uses its own proxy, unless a flag names another.
    named = given_flags(namespace).keys() & {"host", "port"}
    environ = {key: value for key, value in os.environ.items() if not (named and key == URL_VARIABLE)}
    if namespace.count is not None:
        return _run_several(namespace, settings, job, environ)
    return run_in_session(namespace, settings, job, run, environ=environ, log=log)


def _run_several(
    namespace: argparse.Namespace, settings: Settings, job: AgentCommand, environ: Mapping[str, str]
) -> int:
    """Run several agents of one command. Return the exit code."""
    from hivemind.agents.numbered import names_of
    from hivemind.cli.agents.several import run_several

    if job.task is not None:
        raise UsageError("--task: is one agent's, so it doesn't go with --count")
    if job.name is not None:
        names_of(job.name, namespace.count)
    check_command(job.command, job.cwd, os.environ)
    try:
        return run_several(namespace, settings, job, lambda session: _check_unused(session, namespace), environ=environ)
    except ControlError as error:
        raise HiveMindError(f"the proxy can't be reached any more: {error}") from None


def run_in_session(
    namespace: argparse.Namespace,
    settings: Settings,
    job: AgentCommand,
    run: Callable[[Session, Foreground], Awaitable[RunOutcome]],
    *,
    environ: Mapping[str, str],
    log: Say,
) -> int:
    """Run an agent's command in the foreground with a proxy, and report how it ended. Return the exit code."""
    from hivemind.host.loop import run_loop

    given = vars(namespace)  # `resume` has fewer flags
    report = given.get("report")

    async def served() -> int:
        foreground, code = Foreground(), 0
        with foreground.caught():
            try:
                async with session_by_flags(namespace, settings, environ=environ, say=log) as session:
                    outcome = await run(session, foreground)
                    code = _shell_code(outcome.exit_code)
                    log(outcome_text(outcome))
                    required = given.get("require_traffic", False)
                    if outcome.usage is not None and outcome.usage.requests == 0:
                        (print_note if required else log)(f"{outcome.agent}: {silent(outcome.usage.elsewhere)}")
                        code = code or (NO_TRAFFIC if required else 0)
                    if report is not None:
                        await asyncio.to_thread(write_report, report, _as_json(outcome))
            except asyncio.CancelledError:
                if not foreground.number:
                    raise
                return code or 128 + foreground.number
            except ControlError as error:
                raise HiveMindError(f"the proxy can't be reached any more: {error}") from None
        return code

    check_command(job.command, job.cwd, os.environ)
    return run_loop(served())


def _job(namespace: argparse.Namespace, environ: Mapping[str, str]) -> AgentCommand:
    words = list(namespace.program)
    if words[:1] != ["--"] or len(words) < 2:
        raise UsageError(f"the command goes after --, as in {_EXAMPLE}")
    cwd = Path.cwd() if namespace.cwd is None else namespace.cwd.expanduser().absolute()
    if not cwd.is_dir():
        raise UsageError(f"--cwd {namespace.cwd}: there is no such folder")
    if namespace.report is not None and not namespace.report.absolute().parent.is_dir():
        raise UsageError(f"--report {namespace.report}: there is no such folder")
    if namespace.count is not None:
        from hivemind.agents.plans.values import MOST_AGENTS

        if not 1 <= namespace.count <= MOST_AGENTS:
            raise UsageError(f"--count {namespace.count}: must be a whole number from 1 to {MOST_AGENTS:,}")
    if not 0 <= namespace.restarts <= 1_000:
        raise UsageError(f"--restarts {namespace.restarts}: must be a whole number from 0 to 1,000")
    budget = _budget(namespace.budget)
    if namespace.covers is not None and not budget:
        raise UsageError("--covers: says whose use a budget counts, so it needs --budget AMOUNT")
    return AgentCommand(
        command=tuple(words[1:]),
        cwd=cwd,
        name=None if namespace.name is None else checked_agent(namespace.name, "--name"),
        parent=environ.get(AGENT_VARIABLE) or None,
        priority=None if namespace.priority is None else Priority[namespace.priority.upper()],
        budget=budget,
        covers=namespace.covers,
        task=namespace.task,
        deadline=_deadline(namespace.deadline),
        worktree=_worktree(namespace.worktree, cwd, environ),
    )


def _worktree(base: str | None, cwd: Path, environ: Mapping[str, str]) -> WantedWorktree | None:
    if base is None:
        return None
    from hivemind.agents.worktrees import WantedWorktree

    return WantedWorktree.checked(base or None, cwd, environ)


def _deadline(text: str | None) -> float | None:
    try:
        return None if text is None else parse_deadline(text, time.time())
    except ValueError as error:
        raise UsageError(f"--deadline {text or repr(text)}: {error}") from None


def _budget(text: str | None) -> WantedBudget | None:
    if text is None:
        return None
    try:
        budget = parse_budget(text)
    except ValueError as error:
        raise UsageError(f"--budget: {error}{shell_hint(text)}") from None
    if budget.more:
        raise UsageError(f"--budget {text}: must be the whole amount; hivemind budget NAME {text} adds to one")
    return budget


def _check_unused(session: Session, namespace: argparse.Namespace) -> None:
    """Say which settings don't count, because the proxy runs already with its own."""
    unused = sorted(given_flags(namespace).keys() - FINDING - {"token"}) if not session.started else []
    if unused:
        flags = ", ".join("--" + name.replace("_", "-") for name in unused)
        verb = "isn't" if len(unused) == 1 else "aren't"
        print_note(f"the proxy at {session.way.url} keeps its own settings, so {flags} {verb} used")


def _shell_code(code: int) -> int:
    """Return the exit code as shells report it."""
    return 128 - code if code < 0 else code


def outcome_text(outcome: RunOutcome) -> str:
    """Return how it ended: `alice: exit code 0 after 12.3 s, 45,123 tokens, $0.42`."""
    text = f"{outcome.agent}: {exit_text(outcome.exit_code)} after {duration(outcome.seconds)}"
    text += f" and {plural(outcome.restarts, 'restart')}" if outcome.restarts else ""
    tree = "" if outcome.worktree is None else f"; {outcome.worktree.text}"
    if outcome.usage is None:
        return f"{text}; the proxy is away, so what it used isn't known here{tree}"
    used = outcome.usage
    text = f"{text}, {usage(used.tokens, used.dollars, used.unpriced, used.estimated)}{tree}"
    if used.checkpoint is not None:
        text += f"; what it was at is kept: {command_line('hivemind checkpoints show', used.checkpoint)}"
    if used.used_up is not None and outcome.exit_code:
        again = command_line("hivemind resume", outcome.agent)
        text += f"; {owner(used.used_up)} is used up: {raise_command(used.used_up)}, then {again}"
    return text


def _as_json(outcome: RunOutcome) -> dict[str, object]:
    used, tree = outcome.usage, outcome.worktree
    return {
        "agent": outcome.agent,
        "exit_code": _shell_code(outcome.exit_code),
        "signal": -outcome.exit_code if outcome.exit_code < 0 else None,
        "seconds": round(outcome.seconds, 3),
        "tokens": used and used.tokens,
        "dollars": used and used.dollars,
        "unpriced_tokens": used and used.unpriced,
        "estimated_tokens": used and used.estimated,
        "requests": used and used.requests,
        "elsewhere": used and used.elsewhere,
        "checkpoint": used and used.checkpoint,
        "restarts": outcome.restarts,
        "worktree": None if tree is None else asdict(tree) | {"folder": str(tree.folder)},
    }


command = Command(_configure, _run)
