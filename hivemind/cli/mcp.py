"""`hivemind mcp`: the tools on standard input and output, for clients that start their servers themselves."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from hivemind.cli.address import checked_agent, locate_proxy
from hivemind.cli.plugin import Command
from hivemind.console import print_note
from hivemind.control.discovery import AGENT_VARIABLE


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    place = "the proxy to ask [HIVEMIND_URL, else as set in hivemind.toml or HIVEMIND_PORT]"
    add("--attach", metavar="URL", help=place)
    token = "its control token [HIVEMIND_CONTROL_TOKEN, else its own note]"
    add("--token-file", metavar="FILE", type=Path, help=token)
    add("--agent", metavar="NAME", help="who calls the tools [HIVEMIND_AGENT]")


def _run(namespace: argparse.Namespace) -> int:
    from hivemind import logs

    logs.configure("warning")
    if sys.stdin.isatty():
        print_note("mcp waits for an MCP client on standard input; see hivemind setup mcp")
    # A thread waits in a read that nothing else ends, and there is nothing to put away.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    url, environ = locate_proxy(namespace.attach)
    name = namespace.agent or environ.get(AGENT_VARIABLE)
    agent = checked_agent(name, "--agent" if namespace.agent else AGENT_VARIABLE) if name else None
    asyncio.run(_serve(url, namespace.token_file, agent, environ))
    return 0


async def _serve(url: str, token_file: Path | None, agent: str | None, environ: Mapping[str, str]) -> None:
    from hivemind.control.client import open_http
    from hivemind.control.discovery import parse_address
    from hivemind.tools.access import Caller, RemoteAccess
    from hivemind.tools.server import serve_stdio

    place = parse_address(url)
    async with open_http(place) as http:
        await serve_stdio(RemoteAccess(place, environ, token_file, http), Caller(agent))


command = Command(_configure, _run)
