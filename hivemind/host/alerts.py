"""The webhook of alerts: each that is raised or over is sent to a URL of the operator's, signed, and retried.

Nothing waits for it, and no alert for another: each is a task of its own. The URL may hold a secret, so neither it nor
anything that names it is logged: of a failure only its kind is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import random
import secrets
import ssl
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec

from hivemind import __version__
from hivemind.scheduler.events import AlertOver, AlertRaised
from hivemind.text.humanise import plural

TIMEOUT_S = 10.0
"""Longest wait for the whole head of an answer, from connecting on; its body isn't read."""
ATTEMPTS_MOST = 8
DELIVERY_S = 300.0
"""Longest time that all attempts of one delivery may take."""
AT_ONCE_MOST = 8
"""Attempts in flight; a delivery that pauses before the next one isn't counted."""
WAITING_MOST = 100
"""Deliveries that aren't done; of more the oldest are dropped."""
FIRST_DELAY_S = 1.0
"""Before the second attempt; doubles with each further one."""
LONGEST_DELAY_S = 60.0
CLOSE_S = 2.0
"""How long deliveries may go on when the proxy ends."""
_AGAIN = frozenset({408, 425, 429})

_log = logging.getLogger(__name__)


class Delivery(NamedTuple):
    """What is sent, at each attempt the same."""

    id: str
    body: bytes


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return what a receiver compares with the header: `sha256=` and the HMAC-SHA256 of timestamp, dot and body."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


class Webhook:
    """Sends alerts in the background on the running loop, until :meth:`aclose`; what is told of one, in its order."""

    def __init__(
        self,
        url: str,
        secret: str = "",
        *,
        ca_file: Path | None = None,
        wall: Callable[[], float] = time.time,
        first_delay_s: float = FIRST_DELAY_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`secret` empty: unsigned; `ca_file`: certificates to trust besides the system's; `wall`: the time of day."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each URL
        trusted = ssl.create_default_context()
        if ca_file is not None:
            trusted.load_verify_locations(ca_file)
        self._url = url
        self._secret = secret
        self._wall = wall
        self._first_delay_s = first_delay_s
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(timeout=timeout_s, verify=trusted, trust_env=False)
        self._at_once = asyncio.Semaphore(AT_ONCE_MOST)
        self._sending: dict[asyncio.Task[None], int] = {}
        """The deliveries that aren't done, each with its alert's number."""
        self._dropped = 0

    def tell(self, event: AlertRaised | AlertOver, proxy: str, verdict: str) -> None:
        """Send an alert of the proxy at this address, whose verdict this is, after what was told of it before."""
        body = msgspec.json.encode(
            {
                "event": "alert.over" if isinstance(event, AlertOver) else "alert.raised",
                "number": event.number,
                "rule": event.rule,
                "about": event.about,
                "text": event.text,
                "time": round(self._wall(), 3),
                "proxy": proxy,
                "verdict": verdict,
            }
        )
        if len(self._sending) >= WAITING_MOST:
            oldest = next(iter(self._sending))
            oldest.cancel()
            del self._sending[oldest]
            self._dropped += 1
        before = [task for task, number in self._sending.items() if number == event.number]
        task = asyncio.create_task(self._send(Delivery(secrets.token_hex(8), body), before), name="send an alert")
        self._sending[task] = event.number
        task.add_done_callback(lambda done: self._sending.pop(done, None))

    async def settled(self) -> None:
        """Wait until nothing is left to be sent."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def aclose(self) -> None:
        """Send what is left, but no longer than a moment, and close the connections."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.settled()
        for task in self._sending:
            task.cancel()
        await self.settled()
        await self._client.aclose()

    async def _send(self, delivery: Delivery, before: Collection[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        if self._dropped:
            _log.warning("the webhook is slow: %s not sent", plural(self._dropped, "older alert"))
            self._dropped = 0
        try:
            async with asyncio.timeout(DELIVERY_S):
                why = await self._delivered(delivery)
        except TimeoutError:
            why = f"not within {DELIVERY_S:g} s"
        if why:
            _log.warning("an alert didn't reach the webhook: %s", why)

    async def _delivered(self, delivery: Delivery) -> str:
        """Return why it couldn't be delivered; empty: it was."""
        why = ""
        for attempt in range(ATTEMPTS_MOST):
            if attempt:
                delay_s = min(LONGEST_DELAY_S, self._first_delay_s * 2 ** (attempt - 1))
                await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            try:
                status = await self._attempt(delivery)
            except Exception as error:  # an exception's text may hold the URL
                why = type(error).__name__
                continue
            if status < 300:
                return ""
            why = f"answered {status}"
            if status < 500 and status not in _AGAIN:
                return why
        return f"{why}, {plural(ATTEMPTS_MOST, 'time')}"

    async def _attempt(self, delivery: Delivery) -> int:
        timestamp = str(int(self._wall()))
        headers = {
            "content-type": "application/json",
            "user-agent": f"hivemind/{__version__}",
            "x-hivemind-delivery": delivery.id,
            "x-hivemind-timestamp": timestamp,
        }
        if self._secret:
            headers["x-hivemind-signature"] = signature(self._secret, timestamp, delivery.body)
        posted = self._client.stream("POST", self._url, content=delivery.body, headers=headers)
        async with self._at_once, asyncio.timeout(self._timeout_s), posted as answer:
            return answer.status_code  # its body may be long, and says nothing that is needed
