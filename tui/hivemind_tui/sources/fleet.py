"""All proxies of a fleet as one source, by what they tell the store that they share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from hivemind.fleet.store import FleetStore
from hivemind.fleet.watcher import Watcher
from hivemind.records import replace
from hivemind.scheduler.commands import Command
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import (
    HUNG,
    IN_FLIGHT,
    AgentView,
    AttemptView,
    RequestView,
    Snapshot,
    TicketView,
)
from hivemind_tui.sources.base import Link, Source, signature
from hivemind_tui.sources.remote import empty_snapshot, own_line

_FIRST_ANSWER_S = 1.5
"""How long the first frame waits: proxies show themselves within a second of being asked to."""


class FleetSource(Source):
    """Every proxy that shares the store.

    Only open requests are known of the proxies; the others, and details, are on each proxy's own screen.
    """

    refusal = "each proxy has a settings file of its own; attach to one to write it"

    def __init__(self, watcher: Watcher, shown: str, name: str) -> None:
        """`shown` is the store's URL without credentials; `name` signs commands in the proxies' logs."""
        self._watcher = watcher
        self._shown = shown
        self._name = name
        self._empty = empty_snapshot(shown, time.time())
        self._of: Snapshot | None = None
        self._shown_now = self._empty
        self._requests: tuple[RequestView, ...] | None = None

    @property
    def link(self) -> Link:
        if self._watcher.away:
            return Link("fleet", self._shown, self._watcher.lost_for_s, self._watcher.away)
        return Link("fleet", self._shown)

    def snapshot(self) -> Snapshot:
        snapshot = self._watcher.snapshot()
        if snapshot is None:
            return self._empty
        if snapshot is not self._of:
            self._of = snapshot
            self._shown_now = replace(snapshot, lines=tuple(own_line(line, self._name) for line in snapshot.lines))
            self._requests = None
        return self._shown_now

    def requests(self) -> tuple[RequestView, ...]:
        snapshot = self.snapshot()
        if self._requests is None:
            tickets = sorted((*snapshot.slots, *snapshot.queue), key=lambda ticket: ticket.age_s)
            self._requests = tuple(_opened(ticket, snapshot.at) for ticket in tickets)
        return self._requests

    def fleet(self) -> Fleet:
        return self._watcher.fleet()

    def agents_everywhere(self) -> tuple[AgentView, ...]:
        return self.snapshot().agents

    async def apply(self, command: Command) -> None:
        await self._watcher.apply(command, self._name)


@contextlib.asynccontextmanager
async def attached_to_fleet(
    url: str, environ: Mapping[str, str], ca_file: Path | None = None
) -> AsyncIterator[FleetSource]:
    """Yield all proxies that share the store at this URL as a source; `link` says whether the store answers.

    Raises: UsageError: the URL can't be a store's, or redis-py isn't installed.
    """
    store = FleetStore(url, ca_file, name="hivemind-room")
    watcher = Watcher(store)
    source = FleetSource(watcher, store.shown, signature(environ))
    reading = asyncio.create_task(watcher.run(), name="watch the fleet")
    try:
        source.snapshot()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_ANSWER_S):
                while watcher.snapshot() is None:
                    await watcher.next_answer()
                    if watcher.away or not watcher.fleet().members:
                        break
        yield source
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        await store.aclose()


def _opened(ticket: TicketView, at: float) -> RequestView:
    """Return an open request, as far as its ticket tells: of one that streams it isn't known when it was sent."""
    arrived_at, since = at - ticket.age_s, at - ticket.since_s
    attempts: tuple[AttemptView, ...] = ()
    if ticket.state in (*IN_FLIGHT, HUNG):
        attempts = (AttemptView(ticket.attempt, arrived_at, since, None, None, "in_flight", None, "", None),)
    return RequestView(
        ticket=ticket.ticket,
        agent=ticket.agent,
        lane=ticket.lane,
        model=ticket.model,
        priority=ticket.priority,
        stream=ticket.stream,
        state=ticket.state,
        arrived_at=arrived_at,
        ended_at=None,
        waited_s=since - arrived_at if attempts else 0.0,
        attempts=attempts,
        status=None,
        usage=None,
        output_tokens=ticket.output_tokens,
        estimated_tokens=ticket.estimated_tokens,
        dollars=None,
        last_error=ticket.last_error,
    )
