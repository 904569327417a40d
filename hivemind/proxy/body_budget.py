"""Request bodies in memory: each has a limit, and so have all together.

A body is kept until its request is over, since it may have to be sent again, and most of that time its request waits.
So one for which there is no room is refused at once, with a 503 that asks the client to come again, rather than held
up: room is made in minutes, not in seconds, and a client that isn't read can't be seen leaving.
"""

from __future__ import annotations

import asyncio
import logging

from hivemind.proxy.response_writer import Receive

_log = logging.getLogger(__name__)

RETRY_AFTER_S = 10.0
_TOLD_EVERY_S = 60.0
_JOINED_HERE = 4 << 20


class BodyRefused(Exception):
    """A body that isn't read, or not to its end; the text is for the client. `reason` is the provider-neutral word."""

    def __init__(self, status: int, reason: str, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class BodyBudget:
    """Reads bodies and counts their bytes. `largest_mb` is the limit of one, `total_mb` that of all together, or the
    limit of one where that is larger; both in MiB."""

    def __init__(self, largest_mb: int, total_mb: int) -> None:
        self._largest = largest_mb << 20
        self._total = max(total_mb, largest_mb) << 20
        self._told_at = -_TOLD_EVERY_S
        self.used = 0
        """Bytes that are in memory."""

    async def read(self, receive: Receive, declared: bytes | None) -> bytes | None:
        """The whole body, which counts until :meth:`release`; None when the client left. `declared` is the request's
        content-length.

        Raises: BodyRefused: it is too large, or there is no room; nothing is read where its length says so.
        """
        if declared is not None and declared.isdigit():
            self._check(int(declared), int(declared))
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = bytes(message.get("body", b""))
        if not message.get("more_body"):
            self._check(len(part), len(part))
            self.used += len(part)
            return part
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                self._check(size + len(part), len(part))
                parts.append(part)
                size += len(part)
                self.used += len(part)
                if not message.get("more_body"):
                    break
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
            # Joining many megabytes takes tens of milliseconds, in which a thread needs no interpreter.
            body = b"".join(parts) if size < _JOINED_HERE else await asyncio.to_thread(b"".join, parts)
            size = 0
            return body
        finally:
            self.used -= size

    def release(self, body: bytes) -> None:
        """The request that it came with is over."""
        self.used -= len(body)

    def _check(self, size: int, more: int) -> None:
        """A body of that size may be had, and so many more bytes."""
        if size > self._largest:
            text = f"the request body is larger than {self._largest >> 20} MiB (max_body_mb)"
            raise BodyRefused(413, "request_too_large", text)
        if self.used + more > self._total:
            self._tell()
            text = f"the requests in flight and in the queue hold {self._total >> 20} MiB already (max_bodies_mb)"
            raise BodyRefused(503, "bodies_full", text, RETRY_AFTER_S)

    def _tell(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= _TOLD_EVERY_S:
            self._told_at = now
            _log.warning(
                "request bodies hold %d MiB, as much as max_bodies_mb allows; those that don't fit are answered 503",
                self.used >> 20,
            )
