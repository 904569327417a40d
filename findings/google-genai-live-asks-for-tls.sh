#!/bin/sh
# google-genai 3.6.1's Live client asks for TLS wherever it is pointed: with a base URL of http:// its first bytes are a
# TLS handshake, while every other call goes there in the clear. A proxy or a test server on loopback can't even refuse
# the WebSocket with a status; the client ends with a TLS error.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q google-genai==3.6.1 || exit 2
"$folder/v/bin/python" - <<'PYTHON'
import asyncio
import sys

from google import genai
from google.genai import types


async def first_bytes(use) -> bytes:
    """What a client sends first to a server on loopback, which then ends the connection."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read(16))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    try:
        await asyncio.wait_for(use(client), 30)
    except Exception as error:
        print(f"{type(error).__name__}: {error}"[:120])
    server.close()
    return came[0] if came else b""


async def live(client: genai.Client) -> None:
    async with client.aio.live.connect(model="gemini-live-2.5-flash-preview"):
        pass


async def models(client: genai.Client) -> None:
    await client.aio.models.get(model="gemini-2.5-flash")


clear, tls = asyncio.run(first_bytes(models)), asyncio.run(first_bytes(live))
print("models.get begins with", clear, "and live.connect with", tls)
sys.exit(0 if clear.startswith(b"GET ") and tls[:2] == b"\x16\x03" else 1)
PYTHON
