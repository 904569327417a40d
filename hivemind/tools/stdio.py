"""The client's end of `hivemind mcp`: reads its messages from the start, and answers what needs no SDK.

The SDK takes seconds to import on a busy machine, and clients wait no longer than their first turn for the list of
tools. So `initialize`, `ping` and the list are answered here, from a file that is made of the same tools; all else
waits for the SDK, which is told of the handshake afterwards. This module imports only what is quick.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from hivemind import __version__

HANDSHAKE = Path(__file__).with_name("handshake.json")
"""Versions of the protocol, and what the SDK would answer to `initialize` and `tools/list`."""


class StdioFront:
    """Standard input and output of one client, from :meth:`start` on."""

    def __init__(self, source: BinaryIO, write: Callable[[bytes], object]) -> None:
        self._source = source
        self._write = write
        self._lock = threading.Lock()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._known: dict[str, Any] = json.loads(HANDSHAKE.read_bytes())
        self._answered: Any = None
        """Id of the handshake that was answered here, whose answer by the SDK is left out."""
        self._shaken = False

    def start(self) -> None:
        """Begin to read, on a thread that ends with the input or the process."""
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def line(self) -> bytes | None:
        """Wait for the next message that the SDK is to answer; None: there are no more."""
        return self._lines.get()

    def send(self, line: str) -> None:
        """Send a message of the SDK's."""
        if self._answered is not None and json.loads(line).get("id") == self._answered:
            self._answered = None
            return
        self._send(line)

    def _read(self) -> None:
        try:
            for line in self._source:
                if line.strip() and not self._answers(line):
                    self._lines.put(line)
        except (OSError, ValueError):
            pass  # closed
        self._lines.put(None)

    def _answers(self, line: bytes) -> bool:
        """Answer a message, if that can be done here."""
        try:
            message = json.loads(line)
            method, number, params = message["method"], message["id"], message.get("params") or {}
            if method == "initialize" and not self._shaken:
                return self._shake_hands(line, number, params)
            if not self._shaken:
                return False
            if method == "ping":
                self._reply(number, {})
            elif method == "tools/list" and params.get("cursor") is None:
                self._reply(number, {"tools": self._known["tools"]})
            else:
                return False
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False  # the SDK says what is wrong with it
        return True

    def _shake_hands(self, line: bytes, number: Any, params: dict[str, Any]) -> bool:
        wanted, whole = params["protocolVersion"], {"protocolVersion", "capabilities", "clientInfo"} <= params.keys()
        if wanted not in self._known["versions"] or not whole:
            return False
        self._shaken, self._answered = True, number
        self._lines.put(line)
        server = {**self._known["server"], "version": __version__}
        self._reply(number, {"protocolVersion": wanted, **self._known["initialize"], "serverInfo": server})
        return True

    def _reply(self, number: Any, result: dict[str, Any]) -> None:
        self._send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, separators=(",", ":")))

    def _send(self, line: str) -> None:
        with self._lock:
            self._write(line.encode() + b"\n")


def claimed() -> tuple[BinaryIO, Callable[[bytes], object]]:
    """Return standard input, and what writes to standard output. Other parts of this process don't reach them any
    more: what they print would be taken for a message."""
    source, output = os.fdopen(os.dup(0), "rb"), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(output, data) :]

    return source, write
