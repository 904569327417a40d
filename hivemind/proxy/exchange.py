"""One request from its ticket to its last byte: wait, send, hold the reply, retry unseen, or stream it.

Until the first content has come, nothing of an attempt reaches the client, so a failed one is replaced unnoticed. From
the first content on, every byte is passed on as it comes, and the tap only observes.

A request that is granted at once and answered whole is served by callbacks; anything else goes on in a task.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, closing

from msgspec import Struct

from hivemind.journal.write.bodies import BodyRecorder
from hivemind.providers.base import Limits, StreamForm, Tap, TapState, WorkSign
from hivemind.providers.encoding import Decoder, decode_body, decoder_for, is_encoded
from hivemind.providers.errors import LOST_CONNECTION, MAX_ERROR_BODY, read_error
from hivemind.providers.failing import EMPTY
from hivemind.providers.known import provider_of
from hivemind.providers.limits import read_limits
from hivemind.providers.openai import without_usage
from hivemind.providers.sse import is_sign_of_life, prefill_in
from hivemind.providers.taps import begins_otherwise, begins_stream
from hivemind.proxy.asgi import StepRunner
from hivemind.proxy.body_budget import BodyBudget
from hivemind.proxy.client_side import ClientSide, text_of
from hivemind.proxy.cycle import AnswerCut, Cycle
from hivemind.proxy.engine import Engine
from hivemind.proxy.reply import (
    FailedReply,
    error_event,
    failure_of_reply,
    in_pieces,
    is_json,
    may_hold_links,
    mismatch_of,
    mismatch_text,
    nothing_ran,
    read_up_to,
    write,
)
from hivemind.proxy.response_writer import Delivery
from hivemind.proxy.streaming import (
    EventHold,
    KeepaliveTiming,
    ProgressReporter,
    Splice,
    StreamProgress,
    UsageHold,
    usage_so_far,
)
from hivemind.records import replace
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Usage
from hivemind.upstream.base import StartedResponse, Truncated, UpstreamError, UpstreamRequest, UpstreamResponse
from hivemind.upstream.response import NativeResponse
from hivemind.wire.call import Call, scheduler_request
from hivemind.wire.recent_heads import Heads
from hivemind.wire.request_head import about_body, shared_pair, value

_log = logging.getLogger(__name__)

HOLD_LIMIT = 1 << 20
"""Most bytes of a reply that are held."""
ERROR_LIMIT = 1 << 20
"""Most bytes of an error body that are read."""
_TIMES = 10.0
"""How many times as long as is expected a stream at a server at home may take to begin, at each attempt that many times
longer: what was expected may be wrong, as where a prompt was cached."""
_KEPT = 1_000
"""Dialects and models of an upstream that are remembered as answered."""
_SAYS_NOTHING = frozenset({"", "internal server error"})
"""Messages of a 500 that may be an overload's (NeMo Guardrails) or a gateway's without its server (MLflow's)."""
_NO_SERVERS = re.compile(rb"(?i)\bno (?:available|healthy|ready|running) (?:\w+ )?(?:endpoint|instance|server|worker)s")
_TRUNCATED = Failure(FailureKind.TRUNCATED, True, message="it ended before its own end marker")


class Shared(Struct, frozen=True):
    """What all exchanges of a proxy have in common."""

    engine: Engine
    keepalive: KeepaliveTiming
    steps: StepRunner
    wall: Callable[[], float]
    """Seconds since the epoch."""
    progress: ProgressReporter
    bodies: BodyBudget
    uncounted: Callable[[], AbstractContextManager[None]]
    """While it is entered, a drain doesn't wait for the request."""
    go_on: Callable[[Exchange, Cycle], None]
    """Serves a request that was served without a task from here in one."""
    over: Callable[[Exchange], None]
    """Notes that a request is over that was served without a task."""


class Exchange:
    """One request, from its ticket to its end: served by :meth:`begin`, :meth:`run`, or both in turn."""

    __slots__ = (
        "_cycle",
        "_ended_by_scheduler",
        "_engine",
        "_heads",
        "_heard",
        "_over",
        "_sent",
        "_shared",
        "_side",
        "_started",
        "_stays",
        "_tap",
        "_task",
        "_waiter",
        "call",
        "client",
        "ticket",
        "writer",
    )

    def __init__(
        self,
        call: Call,
        ticket: Ticket,
        client: Delivery,
        heads: Heads,
        shared: Shared,
        heard: BodyRecorder | None = None,
    ) -> None:
        self.call = call
        self.ticket = ticket
        self.client = client
        """The client that sent the request first."""
        self._side = ClientSide(call, ticket, client, shared.keepalive, shared.steps)
        self.writer = self._side.writer
        self._shared = shared
        self._engine = shared.engine
        self._heads = heads
        self._heard = heard
        self._over: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._cycle: Cycle | None = None
        """The client, while it is served without a task."""
        self._started: StartedResponse | None = None
        """The response of an attempt that was sent without a task."""
        self._ended_by_scheduler = self._sent = False
        self._stays = False
        """Its answer is read to its end, whoever leaves."""
        self._tap: TapState | None = None

    # --- Decisions of the scheduler -------------------------------------------------------------------------------

    @property
    def without_task(self) -> bool:
        """Whether it is served by callbacks at this moment."""
        return self._cycle is not None

    def decided(self) -> None:
        """Go on once the scheduler has decided about the ticket: wake the task that waits for that, or end the attempt
        of a request that is refused."""
        waiter, ticket = self._waiter, self.ticket
        if waiter is not None:
            if not waiter.done():
                waiter.set_result(None)
        elif ticket.state is TicketState.IN_FLIGHT and (ticket.refusal is not None or ticket.cut is not None):
            if self._ended_by_scheduler:
                return
            self._ended_by_scheduler = True
            if self._task is not None:
                self._task.cancel()
            elif self._cycle is not None:
                self._go_on(self._cycle)

    async def _decision(self) -> None:
        """Wait until the ticket is in flight or refused."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # --- Without a task -------------------------------------------------------------------------------------------

    def begin(self, cycle: Cycle) -> None:
        """Serve a request that came whole: send it if it was granted and a connection is open, and pass on a plain
        success that comes whole. Anything else goes on in a task."""
        ticket = self.ticket
        self._cycle = cycle
        if not ticket.waiting and ticket.refusal is None:
            response = self._started = self.call.head.route.upstream.start(self._outgoing())
            if response is not None:
                self._sent = True
                ticket.tag = self
                response.watch(self._progressed)
                cycle.on_disconnect = self._leave
                return
        self._go_on(cycle)

    def _progressed(self) -> None:
        """Pass the answer on if it is whole; have a task read it unless it soon will be."""
        response, cycle = self._started, self._cycle
        assert response is not None, "watched"
        assert cycle is not None, "watched"
        body = response.whole
        if body is None and response.growing and self._comes_whole(response):
            return
        try:
            answered = body is not None and self._answer_at_once(response, body, cycle)
        except BaseException:
            self._drop()
            cycle.transport.abort()
            raise
        if answered:
            self._leave_callbacks()
            self._shared.over(self)
        else:
            self._go_on(cycle)

    def _comes_whole(self, response: StartedResponse) -> bool:
        if response.status != 200 or in_pieces(about_body(response.headers), self.call.facts):
            return False
        return not (response.begun and begins_otherwise(response.begun))

    def _answer_at_once(self, response: StartedResponse, body: bytes, cycle: Cycle) -> bool:
        """Pass on an answer that came whole, if it is a plain success. Return whether it was; else nothing is done."""
        call = self.call
        if response.status != 200:
            return False
        state = call.head.dialect.read_reply(about_body(response.headers), call.facts, body)
        if state is None or state.error is not None or not (state.complete and body):
            return False
        self._tap = state
        self._log_estimate(state)
        self._note_head(response, ending=True)
        self.ticket.tag = None
        self._succeed(200)
        cycle.answer(200, *self._side.linked(response, body))
        return True

    def _go_on(self, cycle: Cycle) -> None:
        self._leave_callbacks()
        self._shared.go_on(self, cycle)

    @property
    def left(self) -> bool:
        """Whether its answer is computed, and no client is there."""
        return self._stays and not self.writer.has_clients

    def leave(self, cancel: Callable[[], object]) -> bool:
        """Have the request cancelled, as its last client has left; not where its upstream computes the answer all the
        same: the slot is in use until then, and the client's own retry gets that answer. Return whether that is so now,
        and wasn't before."""
        computed_on = self.call.computed_on and self.ticket.state is TicketState.IN_FLIGHT and self._sent
        if not computed_on or self.ticket.refusal is not None:
            cancel()
            return False
        before, self._stays = self._stays, True
        return not before

    def _leave(self) -> None:
        """Drop the attempt, because the client has left."""
        if self._cycle is not None and self.call.computed_on:
            self._go_on(self._cycle)
            return
        self._drop()

    def _drop(self) -> None:
        self._leave_callbacks()
        if self._started is not None:
            self._started.close()
        self.ticket.tag = None
        self._shared.over(self)
        self._engine.abandon(self.ticket)

    def _leave_callbacks(self) -> None:
        if self._started is not None:
            self._started.watch(None)
        if self._cycle is not None:
            self._cycle.on_disconnect = None
            self._cycle = None

    # --- In the task of the client that sent it first, until its last client has left ------------------------------

    async def run(self) -> None:
        """Serve the request to its end. Cancelled when no client is left.

        Raises: AnswerCut: the answer that has begun ends where it is.
        """
        self._task = asyncio.current_task()
        self.ticket.tag = self
        try:
            if self._ended_by_scheduler and self.ticket.refusal is not None:
                raise asyncio.CancelledError
            await self._attempts()
        except BaseException as error:
            if not self._goes_on():
                self._engine.abandon(self.ticket, self._usage(), sent=self._sent)
            if not self._is_own_cancellation(error):
                raise
            await self._refuse_unless_begun()
        finally:
            if self.ticket.tag is self:
                self.ticket.tag = None
            self._side.close()
            if self._started is not None:
                self._started.close()
            if self._over is not None and not self._over.done():
                self._over.set_result(None)
        self._check_whole()

    def _check_whole(self) -> None:
        """Raises: AnswerCut: the answer was left incomplete on purpose."""
        if self._side.cut:
            raise AnswerCut(f"request {self.ticket.id} of {self.ticket.agent.name}: {self._side.cut}")

    async def _attempts(self) -> None:
        ticket, held_back = self.ticket, False
        while True:
            if ticket.waiting:
                self._sent = False
                self._side.arm_keepalive()
                await self._decision()
                self._side.disarm_keepalive()
            if ticket.refusal is not None:
                # It may have been granted a moment before.
                self._engine.abandon(ticket, sent=False)
                if held_back or ticket.refusal.retry_after_s is None or not await self._held_back():
                    await self._side.refuse(ticket.refusal)
                    return
                held_back = True
                waited_s = ticket.request.waited_s + self._engine.now() - ticket.arrived_at
                ticket.tag = None
                ticket = self.ticket = self._side.ticket = self._engine.arrive(scheduler_request(self.call, waited_s))
                ticket.tag = self
            elif await self._attempt():
                return

    def _is_own_cancellation(self, error: BaseException) -> bool:
        """Return whether the scheduler alone cancelled the attempt, and the task wasn't cancelled too."""
        if not (self._ended_by_scheduler and isinstance(error, asyncio.CancelledError)):
            return False
        assert self._task is not None
        return not (self._task.cancelling() and self._task.uncancel())

    async def _refuse_unless_begun(self) -> None:
        """Send the reason while no content was sent; an answer that has begun is truncated where it is."""
        assert self.ticket.refusal is not None
        if self.ticket.content_started:
            self._side.cut = text_of(self.ticket.refusal)
        else:
            await self._side.refuse(self.ticket.refusal)

    async def join(self, client: Delivery) -> None:
        """Answer a client that sent the request again, and wait until the exchange is over.

        Raises: AnswerCut, as :meth:`run`.
        """
        await self.writer.add(client)
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        try:
            await asyncio.shield(self._over)
        finally:
            self.writer.remove(client)
        self._check_whole()

    # --- One attempt; each step returns whether the request is over -----------------------------------------------

    async def _attempt(self) -> bool:
        """Make an attempt, until it ends or an operator cuts it."""
        call = self.call
        self._sent, self._tap = True, None
        started, self._started = self._started, None
        try:
            if self.ticket.cut is None:
                response = await call.head.route.upstream.send(self._outgoing(), started)
                self._note_head(response, ending=response.status >= 400)
                if self._heard is not None:
                    response = self._heard.answer(self.ticket.attempts, response)
                with closing(response):
                    if response.status >= 400:
                        return await self._answered_error(response)
                    mismatch = mismatch_of(response.status, response.headers, self.call.facts)
                    over = await (self._answered_mismatch(response, mismatch) if mismatch else self._answered(response))
                    return over if isinstance(over, bool) else await over
            if started is not None:
                started.close()
        except UpstreamError as error:
            return await self._failed(call.failure_of(error))
        except asyncio.CancelledError as error:
            if not self._is_cut(error):
                raise
        failure, self._ended_by_scheduler = self.ticket.cut, False
        assert failure is not None
        return await (self._truncated(failure) if self.ticket.content_started else self._failed(failure))

    def _is_cut(self, error: BaseException) -> bool:
        """Return whether an operator has ended the attempt, and nothing else has."""
        return self.ticket.cut is not None and self.ticket.refusal is None and self._is_own_cancellation(error)

    def _outgoing(self) -> UpstreamRequest:
        """Return the request to send. At a server at home, a stream has as long to begin as its prompt's length makes
        likely; a whole answer may be of any length, and is maybe computed to its end though nobody waits for it."""
        silent_s = self.call.head.route.origin.profile.computes_s
        if silent_s and self.call.facts.stream:
            silent_s = min(silent_s, _TIMES**self.ticket.attempts * self._engine.begins_s(self.ticket))
        return self.call.outgoing(self.writer.started, silent_s)

    def _note_head(self, response: UpstreamResponse, *, ending: bool) -> None:
        """Note an answer's head; `ending`: the end of the attempt is reported next."""
        self._heads.set_response(response.headers)
        if (on_head := self.call.head.route.on_head) is not None:
            on_head(response.status, response.headers)
        self._engine.headers(self.ticket, read_limits(response.headers, self._shared.wall()), ending=ending)

    async def _answered_error(self, response: UpstreamResponse) -> bool:
        """Handle an error status."""
        body, ended = await read_up_to(response, ERROR_LIMIT)
        failure = failure_of_reply(response, body, self.call.head.route.origin, self._shared.wall())
        absent = response.status == 404 and (not is_json(response.headers) or _NO_SERVERS.search(body))
        if absent and self._asked in self.call.head.route.answered:
            # A gateway lacks the path, or servers, while one is started anew. An API says in JSON what it doesn't have.
            failure = replace(failure, kind=FailureKind.SERVER_ERROR, retryable=True)
        self._engine.headers(self.ticket, Limits(readings=failure.readings), ending=True)
        # The rest of a very long body is passed on as it comes.
        return await self._failed(failure, FailedReply(response, body, stream=not (ended or self.writer.started)))

    async def _answered_mismatch(self, response: UpstreamResponse, mismatch: str) -> bool | Awaitable[bool]:
        """Pass on what isn't an answer as it is: a retry would bring the same. It says nothing of the upstream's load,
        so it counts neither as congestion nor as a latency."""
        body, ended = await read_up_to(response, 1)
        if response.status == 200 and not is_encoded(response.headers) and begins_stream(body):
            return await self._answered(response, body)
        if self.writer.started:
            return await self._mismatch_in_stream(mismatch)
        failure = Failure(FailureKind.CLIENT_ERROR, False, response.status, message=mismatch)
        return await self._failed(failure, FailedReply(response, body, stream=not ended))

    async def _mismatch_in_stream(self, mismatch: str) -> bool:
        """Report the mismatch to a client that was promised a stream, as an error of our own."""
        failure = Failure(FailureKind.CLIENT_ERROR, False, message=mismatch)
        await self._side.stop_keepalive()
        self._engine.fail(self.ticket, failure, self._usage())
        await self._side.send_error(400, "not_a_stream", f"the upstream answered {mismatch}", None)
        return True

    def _answered(self, response: UpstreamResponse, first: bytes = b"") -> Awaitable[bool | Awaitable[bool]]:
        """Hold a successful reply until its first content; `first` are the bytes that were read of it. Return what is
        to be awaited next, of a stream, so that nothing else stays in memory for as long as it takes."""
        tap = self.call.head.dialect.tap(response.headers, self.call.facts)
        self._tap = tap.state
        facts = self.call.facts
        if first or not in_pieces(response.headers, facts) or (facts.unmetered and may_hold_links(response.headers)):
            return self._answered_whole(response, tap, first)
        return self._answered_in_pieces(response, tap)

    async def _answered_in_pieces(
        self, response: UpstreamResponse, tap: Tap, first: bytes = b""
    ) -> bool | Awaitable[bool]:
        """Hold a stream until its first content, and keep its client alive meanwhile; `first` are the bytes that the
        tap has read already."""
        state = tap.state
        held = [first]
        size = len(first)
        self._side.arm_keepalive(response)
        while not (state.content_started or state.error is not None or size > HOLD_LIMIT):
            try:
                data = await response.read()
            except Truncated:
                if size or self.call.facts.form is StreamForm.ANY:
                    raise
                return await self._failed(EMPTY)
            if not data:
                await self._ended(tap)
                whole = state.document and self.call.head.dialect.form is StreamForm.SSE
                return await self._ended_early(response, state, b"".join(held), whole=whole)
            signs = self._shows_life(response, data) and not held[-1]
            if (rest := tap.feed(data)) is not None:
                await self._shared.steps.run(rest)
            if signs and not state.content_started:
                await self._side.pass_comments(response, data)
                continue
            held.append(data)
            size += len(data)
        if state.failed:
            return await self._ended_early(response, state, b"".join(held), whole=False)
        if not self.call.holds or state.work is not None or self.call.facts.form is StreamForm.ANY:
            return self._stream(response, tap, await self._begin(response), b"".join(held))
        return self._answered_held(response, tap, b"".join(held))

    async def _answered_held(self, response: UpstreamResponse, tap: Tap, begun: bytes) -> bool:
        """Hold a stream whose content has begun until it is complete: what goes wrong until then is made good unseen,
        as before its first content. Where memory has no room for it, the stream is passed on."""
        state, bodies, held, size, ended = tap.state, self._shared.bodies, [begun], 0, False
        progress = StreamProgress(self.ticket, state, self.call.facts.unmetered, has_news=True)
        self._shared.progress.add(progress)
        try:
            try:
                async with asyncio.timeout(None) as progress.patience:
                    while not (ended or state.error or (state.complete and not state.unexplained)):
                        if not bodies.hold(len(held[-1])):
                            break
                        size += len(held[-1])
                        progress.reads = True
                        held.append(await response.read())
                        ended = not held[-1]
                        if (rest := tap.feed(held[-1])) is not None:
                            await self._shared.steps.run(rest)
                        progress.has_news = True
            except TimeoutError:
                if not progress.patience.expired():
                    raise
                ended = True  # it is decided, and nothing but signs of life comes
            finally:
                self._shared.progress.discard(progress)
            if ended:
                await self._ended(tap)
            if ended or state.error is not None:
                return await self._ended_early(response, state, b"".join(held), whole=False)
            return await self._stream(response, tap, await self._begin(response), b"".join(held))
        finally:
            bodies.used -= size

    def _shows_life(self, response: UpstreamResponse, data: bytes) -> bool:
        """Note what a server says of a prompt that it reads. Return whether this is nothing else, and its client may be
        begun a stream that can still fail."""
        head = self.call.head
        if not is_sign_of_life(data) or not self.call.facts.stream or head.dialect.form is not StreamForm.SSE:
            return False
        if (read := prefill_in(data)) is not None:
            self._engine.prefill(self.ticket, *read)
        return self.writer.started or not (head.client.silent_s or is_encoded(response.headers))

    async def _answered_whole(self, response: UpstreamResponse, tap: Tap, first: bytes) -> bool | Awaitable[bool]:
        """Hold a reply that isn't a stream to its end, unless it is very long; a truncated one can be retried. Blank
        lines before it are signs of life, and passed on as they come."""
        held: list[bytes] = []
        size = 0
        shows_life = not (self.call.facts.stream or is_encoded(response.headers))
        while data := first or await response.read():
            first = b""
            if (rest := tap.feed(data)) is not None:
                await self._shared.steps.run(rest)
            if shows_life and data.isspace() and not held:
                await self._side.pass_sign_of_life(response, data)
                continue
            size += len(data)
            if size <= HOLD_LIMIT:
                held.append(data)
            elif not (self.writer.started and self.call.facts.stream):
                return await self._stream(response, tap, await self._begin(response), b"".join([*held, data]))
            if tap.state.streamed:
                return await self._answered_in_pieces(response, tap, b"".join(held))
        await self._ended(tap)
        return await self._ended_early(response, tap.state, b"".join(held), whole=True)

    async def _ended_early(self, response: UpstreamResponse, state: TapState, body: bytes, *, whole: bool) -> bool:
        """Handle a reply that was held to its end: a whole one, or a stream that ended or failed before its content."""
        if state.error is not None:
            return await self._failed(state.error, FailedReply(response, body, stream=not whole))
        if whole and not body.strip() and response.status == 200 and self.call.facts.form is not StreamForm.ANY:
            return await self._failed(EMPTY)
        if not state.complete:
            return await self._failed(_TRUNCATED if body else EMPTY)
        body = without_usage(body) if self.call.asks_usage else body
        await self._side.stop_keepalive()
        if not self.writer.started:
            self._succeed(response.status)
            await self.writer.answer(response.status, *self._side.linked(response, body))
            return True
        if whole and self.call.facts.stream:
            return await self._mismatch_in_stream(mismatch_text(response.status, response.headers, stream=True))
        try:
            await write(self.writer, decoder_for(response.headers), body, self._shared.steps)
        except Truncated as error:
            return await self._truncated(self.call.failure_of(error))
        self._succeed(response.status)
        await self.writer.finish()
        return True

    @property
    def _asked(self) -> tuple[str, str]:
        return self.call.head.dialect.name, self.call.facts.model

    def _succeed(self, status: int) -> None:
        if self._goes_on():
            return
        if self.left:
            self._engine.abandon(self.ticket, self._usage())
        else:
            computed = None if self._tap is None else self._tap.computed
            self._engine.succeed(self.ticket, status, self._usage(), computed)
            if len(self.call.head.route.answered) < _KEPT:
                self.call.head.route.answered.add(self._asked)

    def _begin_work(self, work: WorkSign) -> None:
        """Note what the request began, as the reply says."""
        if work.sure and not self.ticket.work:
            booked = None if work.goes_on else work.kind == "background" or bool(self._tap and self._tap.used)
            self._engine.begin_work(self.ticket, self.call.work_name(work.name), work.kind, booked)

    def _goes_on(self) -> bool:
        """Leave the ticket to the work that goes on in the background after the reply, or note its end. Return whether
        there is any."""
        ticket, work = self.ticket, None if self._tap is None else self._tap.work
        if work is None:
            return False
        if ticket.state is TicketState.IN_FLIGHT:
            self._begin_work(work)
        if not ticket.work:
            return False
        if ticket.state is TicketState.IN_FLIGHT:
            self._engine.leave_work(ticket)
            if not work.goes_on:
                usage = self._usage()
                self._engine.end_work(ticket.work, ticket.request, work.kind, {} if usage is None else {"": usage})
        return True

    async def _stream(self, response: UpstreamResponse, tap: Tap, decoder: Decoder | None, data: bytes) -> bool:
        """Stream content to the client, event by event, to the upstream's end."""
        state = tap.state
        hold = None
        if tap.ends and decoder is None and decoder_for(response.headers) is None:
            hold = UsageHold(tap.ends) if self.call.asks_usage else EventHold(tap.ends)
        progress = StreamProgress(self.ticket, state, self.call.facts.unmetered)
        self._shared.progress.add(progress)
        self.writer.drop_head()
        self.call.head.encoded_head.data = b""
        response.headers[:] = map(shared_pair, response.headers)
        failure: Failure | None = None
        try:
            async with asyncio.timeout(None) as progress.patience:
                while data:
                    if passed := data if hold is None else hold.passed(data):
                        await write(self.writer, decoder, passed, self._shared.steps)
                    data = passed = b""  # it would stay in memory until more comes
                    progress.reads = True
                    cycle = self.writer.cycle
                    rest = None
                    if cycle is not None and decoder is None and isinstance(response, NativeResponse):
                        rest = await Splice(response, cycle, tap, progress, hold).run()
                    if rest is not None:
                        await self._shared.steps.run(rest)
                    data = await response.read()
                    progress.reads = False
                    if (rest := tap.feed(data)) is not None:
                        await self._shared.steps.run(rest)
                    progress.has_news = True
        except TimeoutError:
            if not progress.patience.expired():
                raise
            # It is decided, and nothing but signs of life comes.
        except UpstreamError as error:
            failure = self.call.failure_of(error)
        except asyncio.CancelledError as error:
            if not progress.reads or not self._is_cut(error):
                raise
            failure, self._ended_by_scheduler = self.ticket.cut, False
        finally:
            self._shared.progress.discard(progress)
        takes_event = self._takes_event(response, tap, decoder, hold)
        if failure is None:
            await self._ended(tap)
            if (self.call.facts.stream or state.recognised) and not state.complete and state.error is None:
                failure = _TRUNCATED  # finished cleanly, most SDKs would take it for a whole answer
        elif state.complete and not state.unexplained and state.error is None and not self.writer.has_length:
            failure = None  # only the end of the framing is missing
        if failure is not None:
            return await self._truncated(failure, takes_event)
        if state.error is not None and not self._goes_on():
            self._engine.fail(self.ticket, self.call.without_credentials(state.error), self._usage())
        elif state.error is None:
            self._succeed(response.status)
        await self.writer.finish(b"" if hold is None else bytes(hold.held))
        return True

    async def _ended(self, tap: Tap) -> None:
        if (rest := tap.end()) is not None:
            await self._shared.steps.run(rest)
        self._log_estimate(tap.state)

    def _takes_event(
        self, response: UpstreamResponse, tap: Tap, decoder: Decoder | None, hold: EventHold | None = None
    ) -> bool:
        """Return whether an event of our own can follow in the stream that the client gets: between two events, where
        the stream isn't encoded or bound to a length, and hasn't ended in an error already."""
        if tap.state.error is not None or self.writer.has_length:
            return False
        if hold is not None:
            return hold.is_between
        return tap.is_between and (decoder is not None or decoder_for(response.headers) is None)

    async def _truncated(self, failure: Failure, takes_event: bool = False) -> bool:
        """End the client's connection in the middle of the answer, without the end of the body; after an event that
        tells why, where one can follow."""
        failure = self.call.without_credentials(failure)
        if not self._goes_on():
            self._engine.fail(self.ticket, failure, self._usage())
        await self._side.break_off(failure, takes_event=takes_event)
        return True

    async def _begin(self, response: UpstreamResponse) -> Decoder | None:
        """Commit to this reply, and send its head unless a head was sent. Return a decoder where that one promised none
        of the upstream's encoding."""
        await self._side.stop_keepalive()
        if self._tap is not None and self._tap.work is not None:
            self._begin_work(self._tap.work)
        if not self.ticket.work:
            self._engine.first_content(self.ticket, self._used_so_far(), whole=self.call.holds)
        if self.writer.started:
            return decoder_for(response.headers)
        await self.writer.start(response.status, self._side.head(response))
        return None

    # --- Failure --------------------------------------------------------------------------------------------------

    async def _failed(self, failure: Failure, reply: FailedReply | None = None) -> bool:
        """Retry if the scheduler allows it, else pass the failure on, in the upstream's own words if there are any."""
        if self.left:
            self._engine.abandon(self.ticket, self._usage())
            return True
        side = self._side
        failure = self._engine.of_window(self.ticket, self._with_words(failure, reply))
        may_pass = failure.retryable
        if self.call.facts.continues_state and not nothing_ran(failure, None if reply is None else reply.response):
            failure = replace(failure, retryable=False)
        if self._engine.fail(self.ticket, self.call.without_credentials(failure), self._usage()):
            side.disarm_keepalive()  # it would begin with this reply's head
            return False
        may_pass = may_pass and not self.ticket.at_fault
        if may_pass:
            await self._held_back()
        await side.pass_failure_on(failure, reply, to_try_again=may_pass)
        return True

    def _with_words(self, failure: Failure, reply: FailedReply | None) -> Failure:
        """Return the failure, with what a 500 is known again by that says nothing about another attempt, or an answer
        without a byte, as servers end that begin with 200 whatever they refuse then (MLflow's gateway)."""
        if failure is EMPTY:
            return replace(failure, words=(hash(self.call.body), 0))
        repeats = failure.kind is FailureKind.SERVER_ERROR and failure.status in (424, 500, 507)  # 507: lack of memory
        if not repeats or failure.delay_s or reply is None:
            return failure
        headers, body = reply.response.headers, reply.body
        too_long = reply.stream and reply.response.status >= 400
        plain = decode_body(headers, body, MAX_ERROR_BODY)
        if too_long or value(headers, b"x-should-retry") == b"true" or LOST_CONNECTION.search(plain):
            return failure
        if reply.stream:
            body = error_event(plain) or body
        # A gateway at home may pass on what its provider said.
        says = read_error(body if reply.stream else plain).message.lower() not in _SAYS_NOTHING
        known = provider_of("", headers, body)
        at_home = bool(self.call.head.route.origin.profile.computes_s and says and (known is None or known.signs))
        return replace(failure, words=(hash(self.call.body), hash(body)), at_home=at_home)

    async def _held_back(self) -> bool:
        """Wait in the place of a client that asks again too soon and not often enough. Return whether it is one."""
        hold_s = self.call.head.client.try_again.hold_s
        if hold_s:
            with self._shared.uncounted():
                await asyncio.sleep(hold_s)
        return hold_s > 0

    def _usage(self) -> Usage | None:
        """Return what was used, and book what other models used; to be called at the end of an attempt."""
        if self._tap is not None and self._tap.used:
            for model, usage in self._tap.used.items():
                self._engine.book(self.ticket.request, model, usage)
            self._tap.used = None
        return self._used_so_far()

    def _used_so_far(self) -> Usage | None:
        return usage_so_far(self.ticket, self._tap, unmetered=self.call.facts.unmetered)

    def _log_estimate(self, state: TapState) -> None:
        if state.gave_up:
            _log.info("what request %d used is estimated: %s", self.ticket.id, state.gave_up)
