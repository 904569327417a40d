"""`hivemind mcp`: the tools on standard input and output, for clients that start their servers themselves."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from hivemind.agent_names import same
from hivemind.cli.address import checked_agent, locate_proxy
from hivemind.cli.plugin import Command
from hivemind.console import print_note
from hivemind.control.discovery import AGENT_VARIABLE, ProxyAddress, parse_address, run_of
from hivemind.errors import UsageError
from hivemind.tools.stdio import StdioFront, claimed


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    place = "the proxy to ask [HIVEMIND_URL, else as set in hivemind.toml or HIVEMIND_PORT]"
    add("--attach", metavar="URL", help=place)
    token = "its control token [HIVEMIND_CONTROL_TOKEN, else its own note]"
    add("--token-file", metavar="FILE", type=Path, help=token)
    add("--agent", metavar="NAME", help="who calls the tools [HIVEMIND_AGENT]")


def _run(namespace: argparse.Namespace) -> int:
    if find_spec("mcp") is None:
        raise UsageError("mcp needs its library: pip install 'hivemind-tui[mcp]'")
    if sys.stdin.isatty():
        print_note("mcp waits for an MCP client on standard input; see hivemind setup mcp")
    # A thread waits in a read that nothing else ends, and there is nothing to put away.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    url, environ = locate_proxy(namespace.attach)
    place, token_file = parse_address(url), namespace.token_file
    agent = _caller(namespace.agent, place, environ, token_file)
    source, write = claimed()
    front = StdioFront(source, write)
    front.start()  # before all that takes time
    return _go_on(front, place, token_file, agent, environ)


def _caller(given: str | None, place: ProxyAddress, environ: Mapping[str, str], token_file: Path | None) -> str | None:
    """Return who calls the tools: in a run its agent, or a part of it. Raises: UsageError."""
    name = given or environ.get(AGENT_VARIABLE)
    agent = checked_agent(name, "--agent" if given else AGENT_VARIABLE) if name else None
    run = None if token_file is not None else run_of(place, environ)
    if run is None or (agent is not None and (same(agent, run) or same(agent[: len(run) + 1], f"{run}/"))):
        return agent
    if given:
        raise UsageError(f"--agent {given}: this is the run of {run}, and its tools can't be called as another agent")
    return run


def _go_on(
    front: StdioFront, place: ProxyAddress, token_file: Path | None, agent: str | None, environ: Mapping[str, str]
) -> int:
    """Load the SDK, and serve what the front doesn't answer."""
    import asyncio

    from hivemind import logs
    from hivemind.control.client import open_http
    from hivemind.tools.access import Caller, RemoteAccess
    from hivemind.tools.server import serve_stdio

    logs.configure("warning")

    async def serve() -> None:
        async with open_http(place) as http:
            await serve_stdio(RemoteAccess(place, environ, token_file, http), Caller(agent, cwd=os.getcwd()), front)

    asyncio.run(serve())
    return 0


command = Command(_configure, _run)
