"""One request to a proxy's control API with the standard library alone, for commands that must start quickly.

The token is shown on a proven connection only (:mod:`.proof`). Whatever listens there: size and time are bounded.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from typing import Any, cast
from urllib.parse import urlsplit

from hivemind.control.discovery import ProxyAddress, Token
from hivemind.control.proof import LARGEST, Challenge

MOST_BYTES = 64 << 20
"""Bytes of an answer; a snapshot of 1,000 agents has about one million."""
_AT_ONCE = 1 << 16


class TooLong(http.client.HTTPException):
    """The answer has more bytes than any of a proxy's."""


def exchange(
    place: ProxyAddress,
    token: Token,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    connect_within_s: float,
    within_s: float,
) -> tuple[int, bytes]:
    """Ask for a path, and return status and body of the answer, which has to be whole `within_s` after the connection.

    Raises: OSError, http.client.HTTPException; Unproven: the listener doesn't know the token, which wasn't sent.
    """
    parts = urlsplit(place.url)
    host = parts.hostname or ""
    made = http.client.HTTPConnection(host, place.port, timeout=connect_within_s)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        made = http.client.HTTPSConnection(host, place.port, timeout=connect_within_s, context=context)
    try:
        made.connect()
        made.sock = cast(socket.socket, _TimedSocket(made.sock, time.monotonic() + within_s))
        made.auto_open = 0  # another connection would be unproven
        challenge = Challenge(token)
        made.request("GET", parts.path + challenge.target)
        try:
            status, answer = _answer(made, LARGEST)
        except TooLong:
            status, answer = 200, b""
        challenge.check(status, answer)
        headers = {"authorization": f"Bearer {token.text}", "content-type": "application/json"}
        made.request(method, parts.path + path, body, headers)
        return _answer(made, MOST_BYTES)
    finally:
        made.close()


def _answer(connection: http.client.HTTPConnection, most: int) -> tuple[int, bytes]:
    answer, body = connection.getresponse(), bytearray()
    while part := answer.read(_AT_ONCE):
        body += part
        if len(body) > most:
            raise TooLong(f"more than {most} bytes")
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return answer.status, bytes(body)


class _TimedSocket:
    """What http.client uses of a socket, with one deadline for all of it."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock = sock
        self._until = until

    def armed(self) -> socket.socket:
        """Return the socket, which waits no longer than to the deadline. Raises: TimeoutError."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)
        return self._sock

    def sendall(self, data: Any) -> None:
        self.armed().sendall(data)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, sock: _TimedSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.armed().recv_into(buffer)
