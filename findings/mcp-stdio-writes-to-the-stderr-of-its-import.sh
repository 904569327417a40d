#!/bin/sh
# mcp 2.3.0's Client, given a StdioServerParameters, starts the server with the sys.stderr that there was when mcp was
# imported, and has no parameter for another one. A program that has replaced its stderr since (a test runner that
# captures output, a daemon after its start), and closed the old one, can't start a server: ValueError, I/O operation on
# closed file. It can with Client(stdio_client(parameters, errlog=sys.stderr)).
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mcp==2.3.0 || exit 2
cat >"$folder/server.py" <<'PYTHON'
from mcp.server import MCPServer

MCPServer("empty").run()
PYTHON
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import asyncio
import sys

folder = sys.argv[1]
first = sys.stderr = open(f"{folder}/first.log", "w")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

sys.stderr = open(f"{folder}/second.log", "w")
first.close()


async def begun(server) -> str:
    """Return the name that a server gives itself, or why it isn't started."""
    try:
        async with Client(server, read_timeout_seconds=30) as client:
            return client.server_info.name
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return f"{type(error).__name__}: {error}"


parameters = StdioServerParameters(command=sys.executable, args=[f"{folder}/server.py"])
by_itself, told = asyncio.run(begun(parameters)), asyncio.run(begun(stdio_client(parameters, errlog=sys.stderr)))
print("of itself:", by_itself, "- told the present stderr:", told)
sys.exit(0 if by_itself == "ValueError: I/O operation on closed file" and told == "empty" else 1)
PYTHON
