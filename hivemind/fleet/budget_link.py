"""The task that keeps a proxy's budgets in step with its fleet. No request ever waits for the store itself."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Protocol

import msgspec

from hivemind.fleet.budget_member import BudgetMember
from hivemind.fleet.budgets import CHANNEL, KEY, BudgetReply
from hivemind.fleet.messages import IDLE_SYNC_S, KICK_APART_S, SYNC_S
from hivemind.fleet.store import BUDGETS, Answer, FleetStore, StoreError
from hivemind.scheduler.shared_budgets import BudgetsLease, BudgetsReport
from hivemind.waiting import cancel_all, wait_up_to

_log = logging.getLogger(__name__)

RETRY_S = 0.25
BYE_S = 1.0
"""Longest farewell."""
_DECODER = msgspec.json.Decoder(BudgetReply)


class Budgets(Protocol):
    """What is used of :class:`hivemind.proxy.engine.Engine`."""

    @property
    def day(self) -> str: ...
    def budgets_report(self) -> BudgetsReport: ...
    def take_budgets(self, lease: BudgetsLease) -> None: ...


class BudgetLink:
    """Made, started and closed on one event loop."""

    def __init__(self, store: FleetStore, budgets: Budgets, member: BudgetMember) -> None:
        self.syncs = 0
        self._store = store
        self._budgets = budgets
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._sent_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._other_protocol = False
        self._told = ""
        """The last failure that was logged, since a sync succeeded."""

    async def start(self) -> None:
        """Begin, and learn which budgets there are before any request is granted, if the store is there. If it isn't,
        no lane grants anything before it is."""
        try:
            await self._sync()
        except Exception as error:  # it is tried again at once
            self._failed(error)
        self._store.subscribe(CHANNEL, self._on_kick)
        self._task = asyncio.create_task(self._run(), name="fleet-budgets")

    def hurry(self) -> None:
        """Sync soon."""
        self._wake.set()

    async def aclose(self) -> None:
        """Leave: what is held here is free for the others at once."""
        if self._task is None:
            return
        await cancel_all((self._task,))
        try:
            async with asyncio.timeout(BYE_S):
                await self._sync(leaving=True)
        except (StoreError, TimeoutError):
            pass  # the store keeps it for a while

    def _on_kick(self, ledger: str | None) -> None:
        if ledger != self._member.ledger:
            self._wake.set()

    async def _run(self) -> None:
        wait_s = 0.0
        while True:
            await wait_up_to(self._wake, wait_s)
            apart_s = self._sent_at + KICK_APART_S - self._loop.time()
            if apart_s > 0:
                await asyncio.sleep(apart_s)
            self._wake.clear()
            try:
                wait_s = await self._sync()
                self._told = ""
            except Exception as error:  # chunks end by themselves, so no budget is overdrawn whatever this is
                self._failed(error)
                wait_s = RETRY_S
                await asyncio.sleep(KICK_APART_S)

    def _failed(self, error: Exception) -> None:
        """Say what concerns budgets alone, once; the rest is told where lanes are leased."""
        text = f"the fleet's budgets: {error}"
        if isinstance(error, StoreError) and error.kind != "refused command":
            return
        if text != self._told:
            self._told = text
            _log.warning("%s; requests under a budget wait", text, exc_info=not isinstance(error, StoreError))

    async def _sync(self, *, leaving: bool = False) -> float:
        """Report, and take the answer. Return the seconds until the next sync. Raises: StoreError."""
        told = self._budgets.budgets_report()
        report = self._member.report(told, self._budgets.day, leaving=leaving)
        self._sent_at = sent_at = self._loop.time()
        answer = await self._store.run(BUDGETS, KEY, msgspec.json.encode(report), secrets.token_hex(8), CHANNEL)
        self.syncs += 1
        reply = self._decoded(answer)
        if reply is None:
            return IDLE_SYNC_S
        lease = self._member.take(reply, sent_at)
        lease.lost = self._member.lost
        self._budgets.take_budgets(lease)
        if reply.again or told.more or lease.lost:
            return 0.0
        return SYNC_S if told.busy else IDLE_SYNC_S

    def _decoded(self, answer: Answer) -> BudgetReply | None:
        """Return the answer; None: the fleet's budgets are those of another version of HiveMind."""
        other = not isinstance(answer, bytes) or answer == b"protocol"
        if other and not self._other_protocol:
            _log.warning(
                "the fleet's budgets are kept by another version of HiveMind: requests under a budget wait until all"
                " proxies of the fleet are of one version"
            )
        self._other_protocol = other
        return _DECODER.decode(answer) if isinstance(answer, bytes) and not other else None
