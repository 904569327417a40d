"""A request served without a task, by callbacks: granted at once, answered whole. Anything else goes on in a task."""

from __future__ import annotations

from typing import Protocol

from hivemind.providers.limits import read_limits
from hivemind.providers.taps import is_short_json
from hivemind.proxy.cycle import Cycle
from hivemind.proxy.exchange import Shared, log_estimate, notice
from hivemind.proxy.reply import in_pieces
from hivemind.proxy.streaming import usage_so_far
from hivemind.scheduler.ticket import Ticket
from hivemind.upstream.base import StartedResponse
from hivemind.wire.call import Call
from hivemind.wire.recent_heads import Heads
from hivemind.wire.request_head import about_body, for_client


class DirectExchange:
    """One request, from its ticket to its end or to the task that goes on with it."""

    __slots__ = ("_plane", "_response", "_shared", "call", "cycle", "ended_by_scheduler", "heads", "ticket")

    def __init__(self, call: Call, ticket: Ticket, cycle: Cycle, heads: Heads, shared: Shared, plane: Plane) -> None:
        self.call = call
        self.ticket = ticket
        self.cycle = cycle
        self.heads = heads
        self.ended_by_scheduler = False
        """The scheduler has ended the attempt."""
        self._shared = shared
        self._plane = plane
        self._response: StartedResponse | None = None

    def begin(self) -> None:
        """Send the request, if it was granted and a connection is open."""
        ticket = self.ticket
        response = None
        if not ticket.waiting and ticket.refusal is None:
            response = self.call.head.route.upstream.start(self.call.outgoing(False))
        if response is None:
            self._plane.go_on(self, None)
            return
        self._response = response
        ticket.tag = self._end_attempt
        response.watch(self._progressed)
        self.cycle.on_disconnect = self._leave

    def _progressed(self) -> None:
        """Pass the answer on if it is whole; have a task read it unless it soon will be."""
        response = self._response
        assert response is not None, "watched"
        body = response.whole
        if body is None and response.growing and self._comes_whole(response):
            return
        try:
            answered = body is not None and self._answer(response, body)
        except BaseException:
            self._leave()
            self.cycle.transport.abort()
            raise
        if not answered:
            self._go_on()
            return
        self._unwatch()
        self._plane.over(self.call)

    def _comes_whole(self, response: StartedResponse) -> bool:
        return response.status == 200 and not in_pieces(about_body(response.headers), self.call.facts)

    def _answer(self, response: StartedResponse, body: bytes) -> bool:
        """Pass on an answer that came whole, if it is a plain success. Return whether it was; else nothing is done."""
        call, ticket, shared = self.call, self.ticket, self._shared
        if response.status != 200:
            return False
        described = about_body(response.headers)
        if not is_short_json(described, body) and in_pieces(described, call.facts):
            return False
        state = call.head.dialect.read_reply(described, call.facts, body)
        if state is None or state.error is not None or not (state.complete and body):
            return False
        log_estimate(ticket, state)
        self.heads.set_response(response.headers)
        shared.engine.headers(ticket, read_limits(response.headers, shared.wall()), ending=True)
        shared.engine.succeed(ticket, 200, usage_so_far(ticket, state, unmetered=call.facts.unmetered))
        ticket.tag = None
        self.cycle.answer(200, for_client(response.headers) + notice(ticket), body)
        return True

    def _end_attempt(self) -> None:
        """Stop serving the request, for the scheduler."""
        self.ended_by_scheduler = True
        self._go_on()

    def _go_on(self) -> None:
        self._unwatch()
        self._plane.go_on(self, self._response)

    def _leave(self) -> None:
        """Drop the attempt, because the client has left or serving it has failed."""
        self._unwatch()
        if self._response is not None:
            self._response.close()
        self.ticket.tag = None
        self._plane.over(self.call)
        self._shared.engine.abandon(self.ticket)

    def _unwatch(self) -> None:
        if self._response is not None:
            self._response.watch(None)
        self.cycle.on_disconnect = None


class Plane(Protocol):
    """What is told of a request that is served directly."""

    def go_on(self, direct: DirectExchange, started: StartedResponse | None) -> None:
        """Serve the request from here in a task, with the attempt that has begun, if any."""

    def over(self, call: Call) -> None:
        """Note that the request is over."""
