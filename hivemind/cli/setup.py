"""`hivemind setup`: what to paste where, to point a client at the proxy; and the proxy as a service of the user."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hivemind.cli.address import checked_agent, given_settings, own_url
from hivemind.cli.plugin import Command
from hivemind.console import print_note
from hivemind.control.discovery import URL_VARIABLE
from hivemind.errors import HiveMindError, UsageError
from hivemind.setup.clients import CLIENTS, Instructions, instructions
from hivemind.text.humanise import instead_of
from hivemind.text.shells import SHELLS, shell_of
from hivemind.upstream.origin import is_loopback

if TYPE_CHECKING:
    from hivemind.setup.service import Manager, Service

_WIDTH = 80
_SERVICE = "hivemind setup service has systemd or launchd run the proxy."
_MANAGERS = ("systemd", "launchd")
_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; without one: list them")
    parser.add_argument(
        "--url", metavar="URL", help="the proxy's [HIVEMIND_URL, else as set in hivemind.toml or HIVEMIND_PORT]"
    )
    parser.add_argument("--agent", metavar="NAME", help="what the agent is to be called [after the client]")
    parser.add_argument("--shell", choices=SHELLS, metavar="|".join(SHELLS), help="whose lines to print [by $SHELL]")
    _add_service_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    if namespace.client is None:
        rows = [(client.name, f"{client.title}: {client.summary}") for client in CLIENTS.values()]
        print(f"hivemind setup CLIENT prints what to paste where. CLIENT is one of\n\n{_aligned(rows, indent='  ')}")
        print(f"\n{_SERVICE}")
        return 0
    name = namespace.client
    if name == "service":
        return _run_service(namespace)
    if name not in CLIENTS:
        raise UsageError(f"{name}: no such client{instead_of(name, CLIENTS)}")
    client = CLIENTS[name]
    settings = given_settings(os.environ, Path.cwd())
    url, named = namespace.url or os.environ.get(URL_VARIABLE), "--url" if namespace.url else URL_VARIABLE
    url = _checked_url(url, named) if url else own_url(settings, "--url")
    agent = client.agent if namespace.agent is None else checked_agent(namespace.agent, "--agent")
    # Any address but loopback needs one, and so most likely does a proxy that was named.
    token = "token" in settings or not is_loopback(url)
    print(
        as_text(instructions(client, url, agent, token, shell=namespace.shell or shell_of(os.environ, os.name))), end=""
    )
    return 0


def _checked_url(text: str, named: str) -> str:
    try:
        fits = _URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:
        fits = False
    if not fits:
        # What came instead may hold a token, so it isn't repeated.
        raise UsageError(f"{named}: must be the proxy's scheme, host and port alone, as in http://127.0.0.1:8765")
    return text.removesuffix("/")


def as_text(found: Instructions) -> str:
    """What `hivemind setup CLIENT` prints, with a line end."""
    blocks = [
        f"{found.client.title}, as the agent {found.target.agent}" if found.client.named else found.client.title,
        *(_wrapped(limit) for limit in found.steps.limits),
    ]
    for snippet in (*found.steps.snippets, found.check, found.steps.undo):
        blocks += [_wrapped(f"{snippet.where}:"), snippet.text] if snippet.text else [_wrapped(snippet.where)]
    blocks.append(_aligned(found.facts))
    return "\n\n".join(blocks) + "\n"


def _aligned(rows: Iterable[tuple[str, str]], *, indent: str = "") -> str:
    rows = list(rows)
    column = max(len(label) for label, _ in rows) + 3
    return "\n".join(_wrapped(text, indent + label.ljust(column), indent + " " * column) for label, text in rows)


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _add_service_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `setup service`."""
    group = parser.add_argument_group("service: the proxy as a service of yours, by systemd or launchd")
    group.add_argument("--manager", choices=_MANAGERS, metavar="|".join(_MANAGERS), help="which one [this system's]")
    group.add_argument("--install", action="store_true", help="write the file, rather than print it")


def _run_service(namespace: argparse.Namespace) -> int:
    """Print the file, or write it; returns the exit code. Raises: HiveMindError: it can't be written."""
    from hivemind.settings import load
    from hivemind.settings_file import find_settings_file
    from hivemind.setup.service import service
    from hivemind.store.trust import read_found

    settings = load([], environ=os.environ, cwd=Path.cwd(), quiet=True)
    named = os.environ.get("HIVEMIND_CONFIG")
    file = Path(named).absolute() if named else find_settings_file(Path.cwd())
    if file is not None and not named and not read_found(file).trusted:
        raise UsageError(f"{file} isn't trusted, and the service would take it as it is; to trust it: hivemind trust")
    command = [_program(), "up", *(() if file is None else ("--config", str(file)))]
    manager: Manager = namespace.manager or ("launchd" if sys.platform == "darwin" else "systemd")
    made = service(manager, command, settings.drain_s, Path.home(), os.environ)
    if namespace.install:
        _write_service(made)
        print(f"hivemind: {made.path} is written; to start it, now and at each login:")
    else:
        sys.stdout.write(made.text)
        sys.stdout.flush()
        print_note(f"that is {made.path}, which --install writes; to start it then, now and at each login:")
    out = sys.stdout if namespace.install else sys.stderr
    print("\n".join(f"  {line}" for line in made.start), file=out)
    print(f"to take it away: {'; '.join(made.stop)}\n{made.more}", file=out)
    return 0


def _program() -> str:
    """Return the path of this program. Raises: UsageError."""
    beside = Path(sys.executable).with_name("hivemind")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("hivemind")
    if found is None:
        raise UsageError("the program hivemind isn't in PATH, so a service couldn't start it")
    return os.path.abspath(found)


def _write_service(made: Service) -> None:
    from hivemind.store.atomic import written_whole

    try:
        if made.path.exists() and not made.replaces(made.path.read_text("utf-8", "replace")):
            raise HiveMindError(f"{made.path} is there already, and not by this command; remove it first")
        made.path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(made.path, 0o644) as file:
            file.write(made.text.encode())
    except OSError as error:
        raise HiveMindError(f"{error.filename}: can't be written ({error.strerror})") from None


command = Command(_configure, _run)
