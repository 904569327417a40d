"""`hivemind web`: what the entry point of that name names. Imports the server only when it is to run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hivemind.cli.plugin import Command
from hivemind.errors import UsageError

PORT = 8780


def _configure(parser: argparse.ArgumentParser) -> None:
    from hivemind.cli.client import add_place_flags

    parser.usage = "%(prog)s [--port N] [--attach URL]"
    parser.epilog = (
        "Prints an address with a token, which the browser keeps as a cookie. Each tab is an attached control room of"
        " its own; ending it or this command doesn't stop the proxy. Anyone with the address can steer the proxy."
    )
    add_place_flags(parser)
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="HOST", help="listen there [127.0.0.1]")
    add("--port", type=int, default=PORT, metavar="N", help=f"and on this port; 0: any free one [{PORT}]")
    help_ = "another name by which browsers reach it, as of a reverse proxy; may be repeated"
    add("--allowed-host", action="append", default=[], metavar="NAME", help=help_)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.cli.address import locate_proxy, only_proxy
    from hivemind.control.discovery import find_token, parse_address
    from hivemind.settings.hosts import checked_host

    if not 0 <= namespace.port <= 65_535:
        raise UsageError(f"--port {namespace.port}: must be from 0 to 65535")
    try:
        allowed = [checked_host(each) for each in namespace.allowed_host]
    except ValueError as error:
        raise UsageError(f"--allowed-host: {error}") from None
    attach = getattr(namespace, "attach", None)
    url, environ = locate_proxy(only_proxy(attach) or attach)
    given = getattr(namespace, "token_file", None)
    file = None if given is None else Path(given).absolute()
    place = parse_address(url)
    find_token(place, environ, file)  # so that what is missing is said here, rather than in each tab
    try:
        from hivemind_tui.web.server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "aiohttp_jinja2", "jinja2", "textual_serve"):
            raise
        raise UsageError("the control room in a browser needs textual-serve: pip install 'hivemind-tui[web]'") from None
    from hivemind.host.loop import run_loop

    os.environ.update(environ)  # for the rooms, which are processes of their own
    run_loop(serve(place.url, file, namespace.host, namespace.port, allowed))
    return 0


command = Command(_configure, _run, "serve the control room of a running proxy to browsers")
