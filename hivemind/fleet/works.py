"""Which proxy of a fleet books what work used that goes on after its reply: the first that is told.

The proxy through which work is begun tells the store its id and agent; one that is told what it used claims the id
there before it books. No request waits for either. While the store is away, a proxy books without a claim, says so, and
tells the store when it is back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from hivemind.agent_names import BadName, normalised
from hivemind.fleet.presence import StoreCalls, whole
from hivemind.fleet.store import StoreError

_log = logging.getLogger(__name__)

CHANNEL = "hm:works"
KEPT_MS = 30 * 24 * 3600 * 1000
"""Providers keep what a batch brought for about so long."""
AGAIN_S = 1.0
BYE_S = 1.0
"""Longest wait for claims under way at the end."""
AWAY = (
    "the fleet's store was away when work in the background or a batch ended: what it used was booked here, and also at"
    " each other proxy that was told the same meanwhile"
)

Booking = Callable[[bool, str], object]
"""Called with whether what was used is to be booked here, and the agent that began it; empty: nobody knows."""


class Works:
    """One proxy's claims. `ended` is called with the id of work whose use another one has booked."""

    def __init__(
        self, store: StoreCalls, member: str, ended: Callable[[str], object], notice: Callable[[str], object]
    ) -> None:
        self._store = store
        self._member = member
        self._ended = ended
        self._notice = notice
        self._tasks: set[asyncio.Task[None]] = set()

    def begun(self, names: Sequence[str], agent: str) -> None:
        """Tell whose work these are the ids of."""
        self._spawn(self._tell([("SET", _begun(name), agent, "PX", KEPT_MS) for name in names]))

    def claim(self, names: Sequence[str], then: Booking, *, sure: bool) -> None:
        """Call `then` with whether this proxy is the first to claim work of these ids. Unless `sure`, it isn't known
        to be work, and nothing happens where nobody has begun any of these ids."""
        self._spawn(self._claim(names, then, sure=sure))

    def heard(self, message: str | None) -> None:
        """Take a message of :data:`CHANNEL`."""
        member, _, name = (message or "").partition(" ")
        if name and member != self._member:
            self._ended(name)

    async def aclose(self) -> None:
        """Wait for the claims under way, then stop."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=BYE_S)
        for task in self._tasks:
            task.cancel()

    async def _claim(self, names: Sequence[str], then: Booking, *, sure: bool) -> None:
        token = secrets.token_hex(8)
        booked = [f"hm:booked:{name}" for name in names]
        # All of these ids or none: a batch is known by its own id and by those of its files.
        pairs = [each for key in booked for each in (key, token)]
        commands = [("MSETNX", *pairs), *(("PEXPIRE", key, KEPT_MS) for key in booked), ("GET", booked[0])]
        try:
            agents = await self._store.call("MGET", *map(_begun, names))
            agent = next((_agent(each) for each in agents if each), "")
            if not (sure or agent):
                return
            first = whole(await self._store.pipeline(commands))[-1] == token.encode()
        except (StoreError, asyncio.CancelledError) as error:
            if sure:
                self._notice(AWAY)
                then(True, "")
                if isinstance(error, StoreError) and (await self._tell(commands))[-1] != token.encode():
                    _log.warning("the fleet: what %s used was booked here and by another proxy", names[0])
            return
        then(first, agent)
        if first:
            await self._tell([("PUBLISH", CHANNEL, f"{self._member} {name}") for name in names])

    async def _tell(self, commands: Sequence[Any]) -> list[Any]:
        """Send commands until the store has taken them."""
        while True:
            try:
                return whole(await self._store.pipeline(commands))
            except StoreError:
                await asyncio.sleep(AGAIN_S)

    def _spawn(self, running: Coroutine[Any, Any, object]) -> None:
        async def run() -> None:
            await running

        task = asyncio.create_task(run(), name="fleet-works")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _agent(text: bytes) -> str:
    """Return the name of an agent; empty if it can't be one: what may write to the store can write anything."""
    try:
        return normalised(text.decode())
    except (UnicodeDecodeError, BadName):
        return ""


def _begun(name: str) -> str:
    return f"hm:work:{name}"
