"""`hivemind setup`: what to paste where, to point a client at the proxy."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from hivemind.cli.address import given_settings, own_url
from hivemind.cli.plugin import Command
from hivemind.errors import UsageError
from hivemind.setup.clients import CLIENTS, instructions
from hivemind.setup.model import Client
from hivemind.setup.reach import is_loopback
from hivemind.setup.text import as_text, listing
from hivemind.text.shells import SHELLS, Shell, shell_of
from hivemind.text.suggest import did_you_mean

_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; without one: list them")
    parser.add_argument("--url", metavar="URL", help="the proxy's [as set in hivemind.toml or HIVEMIND_PORT]")
    parser.add_argument("--agent", metavar="NAME", help="what the agent is to be called [after the client]")
    parser.add_argument("--shell", metavar="|".join(SHELLS), help="whose lines to print [by $SHELL]")


def _run(namespace: argparse.Namespace) -> int:
    if namespace.client is None:
        print(listing(CLIENTS.values()), end="")
        return 0
    client = _client(namespace.client)
    settings = given_settings(os.environ, Path.cwd())
    url = own_url(settings, "--url") if namespace.url is None else _checked_url(namespace.url)
    agent = client.agent if namespace.agent is None else _checked_agent(namespace.agent)
    # Any address but loopback needs one, and so most likely does a proxy that was named.
    token = "token" in settings or not is_loopback(url)
    print(as_text(instructions(client, url, agent, token, shell=_shell(namespace.shell))), end="")
    return 0


def _client(name: str) -> Client:
    if name not in CLIENTS:
        raise UsageError(f"{name}: no such client{did_you_mean(name, CLIENTS) or '; there are ' + ', '.join(CLIENTS)}")
    return CLIENTS[name]


def _checked_url(text: str) -> str:
    try:
        fits = _URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:
        fits = False
    if not fits:
        # What came instead may hold a token, so it isn't repeated.
        raise UsageError("--url: must be the proxy's scheme, host and port alone, as in http://127.0.0.1:8765")
    return text.removesuffix("/")


def _checked_agent(name: str) -> str:
    from hivemind.agent_names import BadName, normalised

    if name in ("", ".", ".."):
        raise UsageError(
            "--agent: must be at least one character, and neither . nor .., which URLs understand as folders"
        )
    try:
        return normalised(name)
    except BadName as error:
        raise UsageError(f"--agent: {error}") from None


def _shell(name: str | None) -> Shell:
    if name is None:
        return shell_of(os.environ, os.name)
    for shell in SHELLS:
        if shell == name:
            return shell
    raise UsageError(f"--shell {name}: must be {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")


command = Command(_configure, _run)
