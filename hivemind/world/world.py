"""Views of the world at any moment, for people and programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from hivemind.scheduler.types import Price
from hivemind.world.agents import AgentFold, agent_values
from hivemind.world.fold import Fold
from hivemind.world.request_view import RequestDetail, Requests
from hivemind.world.snapshot import QUEUE_SHOWN, AgentView, LaneView, Snapshot, Totals
from hivemind.world.state import Capture, WorldState
from hivemind.world.tickets import Held, TicketFold


class World(Fold):
    """The fold with its views: feed it every event in order, ask it for a snapshot at any moment."""

    def end(self) -> None:
        """Show from now on that the proxy shuts down."""
        self._ending = True

    def price_by(self, price: Price) -> None:
        """Use these prices from now on, also for earlier usage."""
        self._price = price
        self._log.reconsider_all()

    @property
    def mode(self) -> str:
        """`serving`, `paused` or `draining`."""
        if self._ending or self._drained:
            return "draining"
        return "paused" if self._paused else "serving"

    def uptime_s(self, at: float) -> float:
        """Return how long the proxy has been up at this moment."""
        return at - self._started_at

    def gauges(self) -> tuple[int, int, float]:
        """Return the requests in flight, those that wait, and the level of all lanes together; a lane without a limit
        counts with its requests in flight."""
        levels = [lane.active if math.isinf(lane.level) else lane.level for lane in self._lanes.values()]
        return self._open.in_flight, self._open.waiting, float(sum(levels))

    def keep(self, at: float) -> WorldState:
        """Return the state at this moment, which is not before the last event's."""
        return self.take(at).state()

    def take(self, at: float) -> Capture:
        """Capture the state at this moment, in little time."""
        self._costs.settle(self._price)
        rest = WorldState(
            at=at,
            started_at=self._started_at,
            paused=self._paused,
            drained=self._drained,
            ending=self._ending,
            agents=(),
            tickets=tuple([ticket.captured() for ticket in self._tickets.values()]),
            lanes=tuple(self._lanes.values()),
            sampled_at=self._queue.at,
            providers=tuple(self._open.providers.items()),
            curves=tuple([(lane, tuple(points)) for lane, points in self._curves.points.items()]),
            marks=tuple(self._curves.marks.items()),
            pool=self._budgets.pool,
            spent=tuple(self._budgets.exhausted.items()),
            tasks=(),
            numbered=self._tasks.numbered,
            lines=tuple(self._lines),
            counts=replace(self._counts),
        )
        return Capture(
            rest,
            list(chain.from_iterable(map(agent_values, self._agents.values()))),
            self._tasks.take(self._agents),
        )

    def snapshot(self, at: float) -> Snapshot:
        """Return the view at this moment, which is not before the last event's."""
        self._catch_up(at)
        self._costs.settle(self._price)
        mode = self.mode
        tickets = self._tickets.values()
        waiting = [ticket for ticket in tickets if not ticket.in_flight]
        shown = self._queue.in_order(waiting, QUEUE_SHOWN)
        return Snapshot(
            at=at,
            wall=at + self._wall_offset,
            uptime_s=self.uptime_s(at),
            mode=mode,
            address=self.address,
            upstreams=self._upstreams,
            lanes=tuple(self._lane_views()),
            slots=tuple([ticket.ticket_view(at) for ticket in tickets if ticket.in_flight]),
            queue=tuple([ticket.ticket_view(at, self._held(ticket, at, mode)) for ticket in shown]),
            queued=len(waiting),
            agents=tuple([self._agent_view(agent, at) for agent in self._agents.values()]),
            lines=tuple(self._lines),
            totals=self._totals(),
            pool=self._budgets.pool,
            tasks=self._tasks.views(at),
            task_counts=self._tasks.counts(),
        )

    def _lane_views(self) -> Iterator[LaneView]:
        """Yield the lanes as last sampled, but with their open requests as of now, which the tickets show too."""
        tickets = self._open.by_ticket.values()
        active = Counter(ticket.arrived.lane for ticket in tickets if ticket.in_flight)
        retrying = Counter(ticket.arrived.lane for ticket in tickets if ticket.state == "retry")
        waiting = Counter(ticket.arrived.lane for ticket in tickets if ticket.state == "queued")
        for key, state in self._lanes.items():
            counts = active[key], waiting[key], retrying[key]
            if counts != (state.active, state.waiting, state.retrying):
                state = replace(state, active=counts[0], waiting=counts[1], retrying=counts[2])
            yield LaneView(state, tuple(self._curves.points.get(key, ())))

    def _held(self, ticket: TicketFold, at: float, mode: str) -> Held:
        return self._queue.holding(ticket, at, mode, paused=self._agents[ticket.arrived.agent].paused)

    def _agent_view(self, agent: AgentFold, at: float) -> AgentView:
        task, pending = self._tasks.of(agent.name)
        return agent.view(at, task, pending=pending, spent=self._budgets.spent(agent, self._agents))

    def requests(self, since: int, at: float) -> Requests:
        """Return the requests that changed after that revision; see :meth:`.request_log.RequestLog.since`."""
        self._catch_up(at)
        return self._log.since(since, self._price)

    def detail(self, ticket: int, at: float) -> RequestDetail | None:
        """Return everything known about one request; None if it is forgotten."""
        self._catch_up(at)
        return self._log.detail(ticket, self._price)

    def _totals(self) -> Totals:
        counts, unspoiled = self._counts, [agent for agent in self._agents.values() if not agent.spoiled]
        return Totals(
            requests=counts.requests,
            finished=counts.finished,
            failed=counts.failed,
            refused=counts.refused,
            abandoned=counts.left,
            retries=counts.retries,
            rescued=counts.rescued,
            agents_saved=sum(agent.rescued > 0 for agent in unspoiled),
            tokens_saved=sum(agent.saved_tokens for agent in unspoiled),
            usage=counts.usage,
            wasted=counts.wasted,
            dollars=counts.dollars,
            unpriced=counts.usage.total + counts.wasted.total - counts.priced,
        )
