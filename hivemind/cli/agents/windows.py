"""`hivemind run --tmux`: each agent in a window of a tmux session, which stays open when the agent has ended."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hivemind.agents.numbered import names_of
from hivemind.agents.run import AgentCommand
from hivemind.agents.session import Session, proxy_variables
from hivemind.cli.agents.opening import session_by_flags
from hivemind.cli.agents.several import free_name
from hivemind.console import print_note
from hivemind.errors import HiveMindError, UsageError
from hivemind.host.loop import run_loop
from hivemind.settings import Settings
from hivemind.text.humanise import plural
from hivemind.text.shells import TOKEN_VARIABLE

_START = (sys.executable, "-P", "-c", "import sys; from hivemind.cli.main import main; sys.exit(main())")
_SESSION = "agents"
_FITTING = re.compile(r"[^A-Za-z0-9_-]")
_OF_OUTER = ("TMUX", "TMUX_PANE")
_PASSED_ON = ("token_file", "priority", "budget", "covers", "task", "to")
_ANSWERS_WITHIN_S = 20.0


def run_in_windows(
    namespace: argparse.Namespace,
    settings: Settings,
    job: AgentCommand,
    check: Callable[[Session], object],
    *,
    environ: Mapping[str, str],
) -> int:
    """Start each agent in a window, and attach the terminal if there is one. Return the exit code, which is tmux's.

    `check` is given the proxy's session.

    Raises: UsageError: tmux isn't installed, or has a session of that name; ControlError.
    """
    if namespace.report is not None:
        raise UsageError("--report: is written when a command has ended, so it doesn't go with --tmux")
    program = shutil.which("tmux", path=environ.get("PATH", os.defpath))
    if program is None:
        raise UsageError("--tmux: there is no tmux in PATH; install it, or leave the flag out")
    name, url = run_loop(_prepared(namespace, settings, job, check, environ))
    names = [name] if namespace.count is None else names_of(name, namespace.count)
    # A server of its own takes our environment, which may hold keys, without a command line that shows them.
    server = (program, "-L", f"hivemind-{_FITTING.sub('_', name)}")
    environ = {key: value for key, value in proxy_variables(settings, environ).items() if key not in _OF_OUTER}
    if settings.token is not None:
        environ[TOKEN_VARIABLE] = settings.token.get_secret_value()
    attach = (*server, "attach-session")
    shown = f"tmux -L {server[2]} attach-session"
    if _tmux((*server, "has-session"), environ).returncode == 0:
        raise UsageError(f"--tmux: the windows of {name} are open already: {shown}; or choose another --name")
    flags = _flags(namespace, url, job.cwd)
    started = _tmux((*server, *_windows(names, flags, job)), environ)
    if started.returncode != 0:
        raise HiveMindError(f"tmux can't start: {started.stderr.strip() or f'exit code {started.returncode}'}")
    if not namespace.quiet:
        close = f"tmux -L {server[2]} kill-server"
        print_note(f"{name}: {plural(len(names), 'agent')} in tmux; to see: {shown}; to end and close all: {close}")
    if "TMUX" not in os.environ and all(os.isatty(stream) for stream in (0, 1)):
        return subprocess.run(attach, env=environ, check=False).returncode
    return 0


async def _prepared(
    namespace: argparse.Namespace,
    settings: Settings,
    job: AgentCommand,
    check: Callable[[Session], object],
    environ: Mapping[str, str],
) -> tuple[str, str]:
    """Return the agents' common name, and the URL of the proxy, which runs then."""
    say = (lambda _: None) if namespace.quiet else print_note
    async with session_by_flags(namespace, settings, environ=environ, say=say) as session:
        check(session)
        return job.name or await free_name(session, job, namespace.count or 1), session.client.url


def _flags(namespace: argparse.Namespace, url: str, cwd: Path) -> list[str]:
    """Return the flags of each window's `hivemind run`, but for the name."""
    flags = ["--attach", url, "--cwd", str(cwd), "--restarts", str(namespace.restarts)]
    for name in _PASSED_ON:
        value = getattr(namespace, name)
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", str(value)]
    if namespace.worktree is not None:
        flags.append(f"--worktree={namespace.worktree}" if namespace.worktree else "--worktree")
    return [*flags, *(["--require-traffic"] if namespace.require_traffic else [])]


def _windows(names: Sequence[str], flags: Sequence[str], job: AgentCommand) -> list[str]:
    """Return tmux's commands, in one line, for a session with a window for each name."""
    words = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]
    words += ["set-option", "-g", "automatic-rename", "off", ";"]
    for number, name in enumerate(names):
        new = ("new-session", "-s", _SESSION) if number == 0 else ("new-window", "-t", f"={_SESSION}:")
        command = (*_START, "run", "--name", name, *flags, "--", *job.command)
        words += [*new, "-d", "-n", _plain(name), "--", *map(_argument, command), ";"]
    return words[:-1]


def _plain(text: str) -> str:
    """Return a text in which tmux finds no format (man tmux, FORMATS)."""
    return text.replace("#", "##")


def _argument(text: str) -> str:
    """Return an argument that tmux doesn't take for the end of its command: a semicolon at the end is one."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text


def _tmux(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HiveMindError(f"tmux didn't answer within {_ANSWERS_WITHIN_S:.0f} s") from None
