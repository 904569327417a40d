"""`hivemind setup`: what to paste where, to point a client at the proxy."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from hivemind.cli import service
from hivemind.cli.address import checked_agent, given_settings, own_url
from hivemind.cli.plugin import Command
from hivemind.control.discovery import URL_VARIABLE
from hivemind.errors import UsageError
from hivemind.setup.clients import CLIENTS, Instructions, instructions
from hivemind.text.humanise import instead_of
from hivemind.text.shells import SHELLS, shell_of
from hivemind.upstream.origin import is_loopback

_WIDTH = 80
_SERVICE = "hivemind setup service has systemd or launchd run the proxy."
_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; without one: list them")
    parser.add_argument(
        "--url", metavar="URL", help="the proxy's [HIVEMIND_URL, else as set in hivemind.toml or HIVEMIND_PORT]"
    )
    parser.add_argument("--agent", metavar="NAME", help="what the agent is to be called [after the client]")
    parser.add_argument("--shell", choices=SHELLS, metavar="|".join(SHELLS), help="whose lines to print [by $SHELL]")
    service.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    if namespace.client is None:
        rows = [(client.name, f"{client.title}: {client.summary}") for client in CLIENTS.values()]
        print(f"hivemind setup CLIENT prints what to paste where. CLIENT is one of\n\n{_aligned(rows, indent='  ')}")
        print(f"\n{_SERVICE}")
        return 0
    name = namespace.client
    if name == "service":
        return service.run_service(namespace)
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


command = Command(_configure, _run)
