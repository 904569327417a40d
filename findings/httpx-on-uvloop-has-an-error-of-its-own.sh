#!/bin/sh
# Where a server resets a connection as soon as it is made, httpx 0.28.1 raises ConnectError or ReadError on asyncio's
# own event loop. On uvloop 0.23.0 some of the requests end in "AttributeError: 'NoneType' object has no attribute
# 'getpeername'" in place of an httpx.HTTPError: anyio 4.16.0, which httpcore 1.0.9 connects with, asks the transport for
# its socket, and uvloop's has none any more once it is closed. Who catches httpx's errors gets a traceback.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
  httpx==0.28.1 httpcore==1.0.9 anyio==4.16.0 uvloop==0.23.0 || exit 2
cat >"$folder/ask.py" <<'PY'
import asyncio
import collections
import socket
import struct
import threading

import httpx
import uvloop


def reset_all(listening):
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


async def ask(url):
    seen = collections.Counter()
    async with httpx.AsyncClient() as client:
        for _ in range(1000):
            try:
                await client.get(url)
            except httpx.HTTPError as error:
                seen[type(error).__name__] += 1
            except AttributeError as error:
                seen[f"AttributeError of {error.name}"] += 1
    return dict(seen)


listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=reset_all, args=(listening,), daemon=True).start()
url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
own, theirs = asyncio.run(ask(url)), uvloop.run(ask(url))
print("asyncio:", own)
print("uvloop:", theirs)
raise SystemExit("AttributeError of getpeername" in own or "AttributeError of getpeername" not in theirs)
PY
"$folder/env/bin/python" "$folder/ask.py"
