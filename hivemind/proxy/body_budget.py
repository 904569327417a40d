"""Bodies in memory: of requests, with a limit for each and one for all together, and of answers that are held.

A body is kept until its request is over, because a retry needs it, and most of that time its request waits. So a body
for which there is no room is refused at once, with a 503 and a Retry-After, rather than delayed: room is made in
minutes, not in seconds, and the disconnect of a client that isn't read goes unnoticed.
"""

from __future__ import annotations

import asyncio
import logging
from io import BytesIO

from hivemind.proxy.asgi import Receive
from hivemind.wire.request_head import RequestRefused

_log = logging.getLogger(__name__)

RETRY_AFTER_S = 10.0
_LOG_EVERY_S = 60.0


class BodyBudget:
    """Reads bodies and counts their bytes. `largest_mb` is the limit of one in MiB, `total_mb` that of all together, at
    least the limit of one."""

    def __init__(self, largest_mb: int, total_mb: int) -> None:
        self._largest = largest_mb << 20
        self._total = max(total_mb, largest_mb) << 20
        self._logged_at = -_LOG_EVERY_S
        self.used = 0
        """Bytes that are in memory."""
        self.most = 0
        """The most that they were, for whoever sets it back."""

    @property
    def is_exceeded(self) -> bool:
        """Whether there is no room for what has come already."""
        return self.used > self._total

    async def read(self, receive: Receive, declared: bytes | None) -> bytes | None:
        """Return the whole body, which counts until :meth:`release`; None when the client left. `declared` is the
        request's content-length.

        Raises: RequestRefused: it is too large, or there is no room; nothing is read where the length says so.
        """
        if declared is not None and declared.isdigit():
            self._check(int(declared), int(declared))
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        if not message.get("more_body"):
            self.take(part)
            return part
        # It returns its own buffer, which grows in place: no second copy, and no long step.
        body = BytesIO()
        size = 0
        try:
            while True:
                self._check(size + len(part), len(part))
                body.write(part)
                size += len(part)
                self._add(len(part))
                if not message.get("more_body"):
                    break
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
            size = 0
            return body.getvalue()
        except MemoryError:
            raise self._full("the system gives no more memory") from None
        finally:
            self.used -= size

    def take(self, body: bytes) -> None:
        """Count a body that has come. Raises: RequestRefused, as :meth:`read`."""
        self._check(len(body), len(body))
        self._add(len(body))

    def release(self, body: bytes) -> None:
        """Count a body no longer, because its request is over."""
        self.used -= len(body)

    def hold(self, size: int) -> bool:
        """Count so many bytes more of an answer that is held, until they are taken from :attr:`used`. Return whether
        there was room: answers leave half of it to requests, which would be refused."""
        if self.used + size > self._total // 2:
            return False
        self._add(size)
        return True

    def _add(self, size: int) -> None:
        self.used += size
        if self.used > self.most:
            self.most = self.used

    def _check(self, size: int, more: int) -> None:
        """Check that a body may have that size, and that there is room for so many more bytes."""
        if size > self._largest:
            text = f"the request body is larger than {self._largest >> 20} MiB (max_body_mb)"
            raise RequestRefused(413, text, "request_too_large")
        if self.used + more > self._total:
            raise self._full(f"max_bodies_mb allows {self._total >> 20}")

    def _full(self, why: str) -> RequestRefused:
        """Return what refuses a body for which there is no room, and log that once a minute."""
        held = f"hold {self.used >> 20} MiB, and {why}"
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            _log.warning("request bodies %s; those that don't fit are answered 503", held)
        return RequestRefused(503, f"the requests in flight and in the queue {held}", "bodies_full", RETRY_AFTER_S)
