"""`hivemind up`, `down` and `logs`: a proxy that outlives whoever started it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.cli.plugin import Command
from hivemind.console import print_note
from hivemind.control.discovery import AGENT_VARIABLE, URL_VARIABLE, local_url, parse_address
from hivemind.errors import HiveMindError, UsageError
from hivemind.settings import Settings, add_flags, forget_secrets, from_flags, settings_file
from hivemind.settings.options import FINDING, STARTING
from hivemind.text.humanise import first_few, short_duration

if TYPE_CHECKING:
    from hivemind.control.discovery import Token

_LINES = 100
_LOOK_EVERY_S = 0.05
_ENDS_AFTER_DRAIN_S = 15.0
"""How long a proxy may take to end once nothing is in flight any more."""
_NAMES_SHOWN = 8


def _settings(namespace: argparse.Namespace, *, quiet: bool = False) -> Settings:
    return from_flags(namespace, environ=os.environ, cwd=Path.cwd(), quiet=quiet)


# --- up ---------------------------------------------------------------------------------------------------------------


def _configure_up(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [-d] [setting ...]"
    parser.epilog = (
        "Without an upstream, the path of a request says which of the well-known APIs it goes to. A detached proxy has"
        " its log in the state directory, see hivemind logs, and runs until hivemind down."
    )
    parser.add_argument("-d", "--detach", action="store_true", help="in the background, whatever becomes of this shell")
    add_flags(parser, STARTING)


def _up(namespace: argparse.Namespace) -> int:
    from hivemind.host.detached.start import completed
    from hivemind.host.loop import run_loop

    settings = completed(_settings(namespace, quiet=not namespace.detach))
    file = settings_file(namespace, environ=os.environ, cwd=Path.cwd())
    forget_secrets()
    if namespace.detach:
        return run_loop(_started(settings, file))
    from hivemind.cli.proxy import serve

    return serve(settings, file)


async def _started(settings: Settings, file: Path) -> int:
    from hivemind.agents.session import find_or_start, proxy_variables, where_it_serves
    from hivemind.host.start_lock import StartLock

    async with contextlib.AsyncExitStack() as stack:
        lock = StartLock(settings.state_dir, settings.port)
        await lock.wait()
        stack.callback(lock.release)
        client, about, log = await find_or_start(settings, proxy_variables(settings, os.environ), file, stack)
    if log is None:
        print(f"hivemind: a proxy runs already at {client.url}, with its own settings")
        if about.idle_exit_s:
            idle = short_duration(about.idle_exit_s)
            print_note(f"it ends when nobody has used it for {idle}; for one that stays, end it first: hivemind down")
    else:
        print(f"hivemind: ready on {where_it_serves(settings, client.url, about, log)}")
        if not _is_noted(settings, client.url):
            print_note(
                "no other command finds it, because its control token can't be written to the state directory: end the"
                " process that listens there; then choose another --state-dir, or set HIVEMIND_CONTROL_TOKEN"
            )
            return 1
    return 0


def _is_noted(settings: Settings, url: str) -> bool:
    from hivemind.store.token_file import note_path, state_dir

    with contextlib.suppress(OSError):
        return note_path(state_dir(settings.state_dir), parse_address(url).port).is_file()
    return False


# --- down -------------------------------------------------------------------------------------------------------------


def _configure_down(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [--force] [setting ...]"
    parser.epilog = "Streams in flight may finish, for at most drain_s seconds of the proxy's settings."
    parser.add_argument("--force", action="store_true", help="also while agents' processes run")
    add_flags(parser, FINDING)


def _down(namespace: argparse.Namespace) -> int:
    from hivemind.cli.client import ProxyError
    from hivemind.control.discovery import Token
    from hivemind.control.proof import Unproven
    from hivemind.store.token_file import note_path, process_runs, read_note, state_dir

    if os.environ.get(AGENT_VARIABLE):
        raise HiveMindError(f"the agent {os.environ[AGENT_VARIABLE]} can't end the proxy that it uses")
    settings = _settings(namespace)
    place = parse_address(os.environ.get(URL_VARIABLE) or local_url(settings.host, settings.port))
    if not place.local:
        raise UsageError(f"{place.url} isn't on this machine; end it where it runs")
    try:
        path = note_path(state_dir(settings.state_dir), place.port)
        note = read_note(path)
    except FileNotFoundError:
        print_note(f"no proxy of yours runs at {place.url}")
        return 0
    except (OSError, ValueError) as error:
        raise HiveMindError(f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)) from None
    try:
        running = _running(place.url, Token(note.token, str(path), note=path))
    except ProxyError as error:
        if not isinstance(error.__context__, Unproven):
            raise
        if process_runs(note.pid):
            raise HiveMindError(f"{error}; to end the process of the note: kill {note.pid}") from None
        print_note(f"no proxy of yours runs at {place.url}; the one that did was killed, and something else listens")
        return 0
    if running is None:
        print_note(f"no proxy of yours runs at {place.url}; the one that did was killed")
        return 0
    if running and not namespace.force:
        raise HiveMindError(f"{first_few(running, _NAMES_SHOWN)} would lose it; with --force it ends all the same")
    with contextlib.suppress(ProcessLookupError):
        os.kill(note.pid, signal.SIGTERM)
    until = time.monotonic() + settings.drain_s + _ENDS_AFTER_DRAIN_S
    while process_runs(note.pid):
        if time.monotonic() > until:
            raise HiveMindError(f"the proxy at {place.url} still runs, as process {note.pid}")
        time.sleep(_LOOK_EVERY_S)
    print(f"hivemind: the proxy at {place.url} has ended")
    return 0


def _running(url: str, token: Token) -> list[str] | None:
    """Return the agents whose processes run at the proxy that has that token; None if nothing listens there.

    Raises: ProxyError: it doesn't answer.
    """
    from hivemind.cli.client import ProxyClient, ProxyError

    client = ProxyClient(parse_address(url), token, "down")
    try:
        return [agent.name for agent in client.world().snapshot.agents if agent.running]
    except ProxyError as error:
        if isinstance(error.__cause__ or error.__context__, ConnectionRefusedError):
            return None
        raise


# --- logs -------------------------------------------------------------------------------------------------------------


def _configure_logs(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [-f] [-n LINES] [setting ...]"
    parser.epilog = "A proxy that wasn't started detached writes its log to its terminal, or where its service does."
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument("-n", "--lines", type=int, default=_LINES, metavar="N", help=f"the last N lines [{_LINES}]")
    add_flags(parser, FINDING)


def _logs(namespace: argparse.Namespace) -> int:
    from hivemind.host.detached.log import followed, last_lines, log_path
    from hivemind.store.locks import is_held

    settings = _settings(namespace)
    if namespace.lines < 0:
        raise UsageError(f"--lines {namespace.lines}: must be 0 or more")
    try:
        path = log_path(settings.state_dir, settings.port)
        text, position = last_lines(path, namespace.lines)
    except OSError as error:
        raise HiveMindError(f"{error.filename}: no log of a detached proxy is there ({error.strerror})") from None
    _write(text)
    if namespace.lines and not text:
        print_note(f"nothing is in {path} so far")
    if namespace.follow:
        if not is_held(path):
            print_note(f"no proxy writes to {path} now")
        for data in followed(path, position):
            _write(data)
    return 0


def _write(text: bytes) -> None:
    sys.stdout.write(text.decode(errors="replace"))
    sys.stdout.flush()


up = Command(_configure_up, _up)
down = Command(_configure_down, _down)
logs = Command(_configure_logs, _logs)
