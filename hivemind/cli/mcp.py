"""`hivemind mcp`: the tools on standard input and output, for clients that start their servers themselves."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from hivemind.cli.plugin import Command
from hivemind.control.find import STATE_VARIABLE, TOKEN_VARIABLE
from hivemind.errors import UsageError
from hivemind.settings import Settings, load
from hivemind.setup.reach import local_url

AGENT_VARIABLE = "HIVEMIND_AGENT"
URL_VARIABLE = "HIVEMIND_URL"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attach", metavar="URL", help="the proxy to ask [HIVEMIND_URL, else as set in hivemind.toml or HIVEMIND_PORT]"
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="its control token [HIVEMIND_CONTROL_TOKEN, else its own note]",
    )
    parser.add_argument("--agent", metavar="NAME", help="who calls the tools [HIVEMIND_AGENT]")


def _run(namespace: argparse.Namespace) -> int:
    from hivemind import logs

    logs.configure("warning")
    if sys.stdin.isatty():
        print("hivemind: mcp waits for an MCP client on standard input; see hivemind setup mcp", file=sys.stderr)
    # A thread waits in a read that nothing else ends, and there is nothing to put away.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    environ = os.environ
    settings = load([], environ=environ, cwd=Path.cwd())
    url = namespace.attach or environ.get(URL_VARIABLE) or _own_url(settings)
    told = {**environ, **_told(settings)}
    asyncio.run(_serve(url, namespace.token_file, _agent(namespace.agent, environ), told))
    return 0


def _own_url(settings: Settings) -> str:
    if settings.port == 0:
        raise UsageError("the port is set to 0, any free one; say where the proxy is with --attach")
    return local_url(settings.host, settings.port)


def _told(settings: Settings) -> Mapping[str, str]:
    """Where to look for a token, as the settings' file says it too."""
    told = {}
    if settings.control_token is not None:
        told[TOKEN_VARIABLE] = settings.control_token.get_secret_value()
    if settings.state_dir is not None:
        told[STATE_VARIABLE] = str(settings.state_dir)
    return told


def _agent(given: str | None, environ: Mapping[str, str]) -> str | None:
    from hivemind.agent_names import BadName, normalised

    name, origin = (given, "--agent") if given else (environ.get(AGENT_VARIABLE), AGENT_VARIABLE)
    if not name:
        return None
    try:
        return normalised(name)
    except BadName as error:
        raise UsageError(f"{origin}: {error}") from None


async def _serve(url: str, token_file: Path | None, agent: str | None, environ: Mapping[str, str]) -> None:
    from hivemind.control.client import open_http
    from hivemind.control.find import place_of
    from hivemind.tools.desk import Caller
    from hivemind.tools.server import serve_stdio
    from hivemind.tools.there import There

    place = place_of(url)
    async with open_http(place) as http:
        await serve_stdio(There(place, environ, token_file, http), Caller(agent))


command = Command("mcp", "serve the tools for agents on standard input and output (MCP)", _configure, _run)
