"""Which proxy a command asks, and how its answer is printed.

What sends the request is imported when the proxy was found, so that a missing one is reported at once.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.cli.address import given_settings, own_url
from hivemind.console import print_json, printable
from hivemind.control.discovery import (
    AGENT_VARIABLE,
    STATE_VARIABLE,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    find_token,
    parse_address,
)
from hivemind.errors import HiveMindError, UsageError
from hivemind.text.table import show

if TYPE_CHECKING:
    from hivemind.cli.proxy_client import ProxyClient

_WHO_LENGTH = 40


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every command that asks a proxy. They may stand before or after a word such as `submit`."""
    group = parser.add_argument_group("which proxy")
    unset, token = argparse.SUPPRESS, "its note, or its token alone [HIVEMIND_CONTROL_TOKEN, else its note]"
    place = "where it is [HIVEMIND_URL, else as hivemind.toml says]"
    group.add_argument("--attach", metavar="URL", help=place, default=unset)
    group.add_argument("--token-file", metavar="FILE", help=token, default=unset)
    parser.add_argument("--json", action="store_true", help="print JSON", default=unset)


def wants_json(namespace: argparse.Namespace) -> bool:
    """Return whether `--json` was given."""
    return bool(getattr(namespace, "json", False))


def print_answer(namespace: argparse.Namespace, answer: object, text: Iterable[str]) -> int:
    """Print the text, or with `--json` the answer as the control API has it. Return the exit code."""
    if wants_json(namespace):
        from hivemind.control.codec import to_plain

        return print_json(to_plain(answer))
    show(text)
    return 0


def send_command(namespace: argparse.Namespace, proxy: ProxyClient, done: str, name: str, **arguments: object) -> int:
    """Have the proxy carry out a command, and print `done` or the answer. Return the exit code."""
    return print_answer(namespace, proxy.command(name, **arguments), [printable(done)])


def find_proxy(namespace: argparse.Namespace) -> ProxyClient:
    """Return the proxy that the flags, the variables or the settings' file name.

    Raises: UsageError; HiveMindError: none runs there, since it left no note.
    """
    environ = {name: value for name, value in os.environ.items() if value}
    url = getattr(namespace, "attach", None) or environ.get(URL_VARIABLE)
    if url is None or STATE_VARIABLE not in environ:
        settings = given_settings(environ, Path.cwd())
        url = url or own_url(settings, "--attach")
        for variable, name in ((STATE_VARIABLE, "state_dir"), (TOKEN_VARIABLE, "control_token")):
            if name in settings:
                environ.setdefault(variable, str(settings[name]))
    place, file = parse_address(url), getattr(namespace, "token_file", None)
    try:
        token = find_token(place, environ, None if file is None else Path(file))
    except UsageError as error:
        if file is None and place.local and not environ.get(TOKEN_VARIABLE):
            raise HiveMindError(str(error)) from None
        raise
    from hivemind.cli.proxy_client import ProxyClient

    return ProxyClient(place, token, who(environ), as_it_is=wants_json(namespace))


def who(environ: Mapping[str, str]) -> str:
    """Return who gives a command, for the proxy's log: the agent in whose process this runs, else the user."""
    agent = environ.get(AGENT_VARIABLE)
    user = environ.get("USER") or environ.get("LOGNAME") or _user()
    name = f"agent {agent}" if agent else f"{user}@{socket.gethostname()}"
    return "".join(letter for letter in name if letter.isprintable())[:_WHO_LENGTH].strip("@ ") or "command line"


def _user() -> str:
    import getpass  # on demand: mostly a variable says it

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
