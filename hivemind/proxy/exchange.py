"""One request from its ticket to its last byte: wait, try, hold the prelude, try again unseen, or let the bytes flow.

Until the first content has come, nothing of an attempt reaches the client, so a failed one can be replaced without its
ever knowing. From the first content on, every byte goes through as it comes, and the tap only looks on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from hivemind.journal.write.bodies import Heard
from hivemind.providers.base import Limits, Tap, TapState
from hivemind.providers.encoding import Decoder, decode_body, decoder_for
from hivemind.providers.errors import MAX_ERROR_BODY
from hivemind.providers.limits import read_limits
from hivemind.proxy.engine import Engine
from hivemind.proxy.keepalive import Company
from hivemind.proxy.progress import Telling
from hivemind.proxy.refusals import text_of
from hivemind.proxy.reply import Reply, in_pieces, misfit_of, misfit_text, read_most
from hivemind.proxy.reply_buffer import Prelude, write
from hivemind.proxy.response_writer import Audience
from hivemind.proxy.step_runner import Turns
from hivemind.scheduler.ledger.budget import warning_of
from hivemind.scheduler.ticket import Refusal, Ticket
from hivemind.scheduler.types import Failure, FailureKind, Usage
from hivemind.text.amounts import HEADER, field
from hivemind.upstream.base import Truncated, UpstreamError, UpstreamResponse
from hivemind.wire.call import Call
from hivemind.wire.headers import Headers, for_client, value
from hivemind.wire.recent_heads import Heads

_log = logging.getLogger(__name__)

HOLD_LIMIT = 1 << 20
"""Bytes of a reply that are held, at most."""
ERROR_LIMIT = 1 << 20
"""Bytes of an error body that are read."""
PRELUDE_S = 10.0
"""A stream that has begun but shows no content for so long (thinking, say) is let go, so that the client sees signs of
life; from then on it can't be tried again."""
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Keepalive:
    """When a waiting stream is begun, and how often it gets a sign of life."""

    after_s: float
    every_s: float


class Exchange:
    """Runs in the task of the client that sent the request first, for as long as anybody listens."""

    def __init__(
        self,
        call: Call,
        ticket: Ticket,
        audience: Audience,
        engine: Engine,
        wall: Callable[[], float],
        keepalive: Keepalive,
        heads: Heads,
        turns: Turns,
        heard: Heard | None = None,
    ) -> None:
        self.call = call
        self.ticket = ticket
        self.audience = audience
        self._engine = engine
        self._wall = wall
        self._keepalive = keepalive
        self._heads = heads
        self._turns = turns
        self._heard = heard
        self._company: Company | None = None
        self._over: asyncio.Future[None] | None = None
        self._task = asyncio.current_task()
        self._told_to_end = False
        self._sent = False
        self._tap: TapState | None = None

    async def run(self) -> None:
        """See the request through. Cancelling it means that nobody listens any more."""
        try:
            await self._see_through()
        except BaseException as error:
            self._engine.abandon(self.ticket, self._usage(), sent=self._sent)
            if not self._ended_by_us(error):
                raise
            await self._stop_short()
        finally:
            self.ticket.tag = None
            if self._company is not None:
                self._company.drop()
            if self._over is not None and not self._over.done():
                self._over.set_result(None)

    async def _see_through(self) -> None:
        ticket = self.ticket
        while True:
            if ticket.waiting:
                self._sent = False
                self._seek_company()
                await self._engine.granted(ticket)
                self._rest()
            if ticket.refusal is not None:
                # It may have been granted a moment before.
                self._engine.abandon(ticket, sent=False)
                await self._refuse(ticket.refusal)
                return
            ticket.tag = self._end
            if await self._attempt():
                return

    def _end(self) -> None:
        """End the attempt, wherever it is: the scheduler wants it so."""
        self._told_to_end = True
        assert self._task is not None
        self._task.cancel()

    def _ended_by_us(self, error: BaseException) -> bool:
        """The attempt was cancelled for the scheduler's sake, and nobody else wants the whole exchange cancelled."""
        if not (self._told_to_end and isinstance(error, asyncio.CancelledError)):
            return False
        assert self._task is not None
        return not self._task.uncancel()

    async def _stop_short(self) -> None:
        """Say why, as long as nothing of an answer is out; one that has begun is cut off where it is."""
        assert self.ticket.refusal is not None
        if not self.ticket.content_started:
            await self._refuse(self.ticket.refusal)

    def over(self) -> asyncio.Future[None]:
        """Done when the exchange is."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        return self._over

    # --- One attempt; each step returns whether the request is over -----------------------------------------------

    async def _attempt(self) -> bool:
        call = self.call
        self._sent, self._tap = True, None
        try:
            response = await call.route.upstream.send(
                call.method,
                call.target,
                call.headers_for(self.audience.started),
                call.body,
                retry_stale=not call.facts.continues_state,
            )
        except UpstreamError as error:
            return await self._failed(call.failure_of(error))
        self._heads.answered(response.headers)
        if self._heard is not None:
            response = self._heard.answer(self.ticket.attempts, response)
        try:
            self._engine.headers(self.ticket, read_limits(response.headers, self._wall()))
            if response.status >= 400:
                return await self._answered_error(response)
            misfit = misfit_of(response.status, response.headers, self.call.facts)
            if misfit:
                return await self._answered_misfit(response, misfit)
            return await self._answered(response)
        finally:
            response.close()

    async def _answered_error(self, response: UpstreamResponse) -> bool:
        """The upstream said no."""
        try:
            body, ended = await read_most(response, ERROR_LIMIT)
        except UpstreamError as error:
            return await self._failed(self.call.failure_of(error))
        failure = self.call.dialect.classify(response.status, response.headers, body, self._wall())
        if failure is None:
            failure = Failure(FailureKind.CLIENT_ERROR, False, response.status)
        if failure.status not in self.call.route.origin.profile.retryable_statuses:
            asked = value(response.headers, b"x-should-retry") == b"true"
            failure = replace(failure, retryable=failure.retryable and asked)
        self._engine.headers(self.ticket, Limits(readings=failure.readings))
        # The rest of a very long one goes through as it comes.
        return await self._failed(failure, Reply(response, body, stream=not (ended or self.audience.started)))

    async def _answered_misfit(self, response: UpstreamResponse, misfit: str) -> bool:
        """What came isn't an answer, and asking again would bring the same. It is passed on as it is, and says nothing
        of the upstream's load: neither congestion nor a latency."""
        try:
            body, ended = await read_most(response, 1)
        except UpstreamError as error:
            return await self._failed(self.call.failure_of(error))
        if self.audience.started:
            return await self._misfit_to_begun(misfit)
        failure = Failure(FailureKind.CLIENT_ERROR, False, response.status, message=misfit)
        return await self._failed(failure, Reply(response, body, stream=not ended))

    async def _misfit_to_begun(self, misfit: str) -> bool:
        """The client was promised a stream, in which only an error of our own can tell what came instead."""
        failure = Failure(FailureKind.CLIENT_ERROR, False, message=misfit)
        await self._leave_company()
        self._engine.fail(self.ticket, failure, self._usage())
        await self._say(400, "not_a_stream", f"the upstream answered {misfit}", None)
        return True

    async def _answered(self, response: UpstreamResponse) -> bool:
        """The upstream said yes; hold what comes until it can't be taken back."""
        tap = self.call.dialect.tap(response.status, response.headers, self.call.facts)
        state = self._tap = tap.state
        if not in_pieces(response.headers, self.call.facts):
            return await self._answered_whole(response, tap)
        prelude = Prelude(lambda: self._begin(response), self.audience, PRELUDE_S, self._turns)
        try:
            while state.error is None:
                try:
                    data = await response.read()
                except UpstreamError as error:
                    if prelude.released:
                        return self._cut_off(self.call.failure_of(error))
                    return await self._failed(self.call.failure_of(error))
                if not data:
                    await self._ended(tap)
                    break
                if (rest := tap.feed(data)) is not None:
                    await self._turns.run(rest)
                prelude.hold(data)
                if prelude.released or prelude.size > HOLD_LIMIT or state.content_started:
                    return await self._let_go(response, tap, prelude)
            if prelude.released:
                return await self._let_go(response, tap, prelude)
        finally:
            prelude.drop()
        return await self._ended_early(response, state, prelude.rest(), whole=False)

    async def _let_go(self, response: UpstreamResponse, tap: Tap, prelude: Prelude) -> bool:
        try:
            decoder = await prelude.let_go()
        except Truncated as error:
            return self._cut_off(self.call.failure_of(error))
        return await self._flow(response, tap, decoder, prelude.rest())

    async def _answered_whole(self, response: UpstreamResponse, tap: Tap) -> bool:
        """Not a stream: held to its end, unless it is very long, so that a truncated one can be tried again."""
        held: list[bytes] = []
        size = 0
        try:
            while data := await response.read():
                if (rest := tap.feed(data)) is not None:
                    await self._turns.run(rest)
                size += len(data)
                if size <= HOLD_LIMIT:
                    held.append(data)
                elif not self.audience.started:
                    return await self._flow(response, tap, await self._begin(response), b"".join([*held, data]))
        except UpstreamError as error:
            return await self._failed(self.call.failure_of(error))
        await self._ended(tap)
        return await self._ended_early(response, tap.state, b"".join(held), whole=True)

    async def _ended_early(self, response: UpstreamResponse, state: TapState, body: bytes, *, whole: bool) -> bool:
        """All of the answer was held: a whole one, or a stream that ended or failed before its first content."""
        if state.error is not None:
            return await self._failed(state.error, Reply(response, body, stream=not whole))
        if not (whole or state.complete):
            return await self._failed(_CUT_SHORT, Reply(response, body, stream=True, cut=True))
        await self._leave_company()
        if not self.audience.started:
            self._engine.succeed(self.ticket, response.status, self._usage())
            await self.audience.answer(response.status, self._head(response), body)
            return True
        if whole:
            return await self._misfit_to_begun(misfit_text(response.status, response.headers, stream=True))
        try:
            await write(self.audience, decoder_for(response.headers), body, self._turns)
        except Truncated as error:
            return self._cut_off(self.call.failure_of(error))
        self._engine.succeed(self.ticket, response.status, self._usage())
        await self.audience.finish()
        return True

    async def _flow(self, response: UpstreamResponse, tap: Tap, decoder: Decoder | None, data: bytes) -> bool:
        """The agent sees content: every byte goes on as it comes, and the end is the upstream's end."""
        state = tap.state
        telling = Telling(lambda: self._engine.progress(self.ticket, self._output_tokens(), self._usage()))
        try:
            while data:
                await write(self.audience, decoder, data, self._turns)
                data = await response.read()
                if (rest := tap.feed(data)) is not None:
                    await self._turns.run(rest)
                telling.content()
        except UpstreamError as error:
            return self._cut_off(self.call.failure_of(error))
        finally:
            telling.stop()
        await self._ended(tap)
        if state.error is not None:
            self._engine.fail(self.ticket, self.call.without_credentials(state.error), self._usage())
        elif self.call.facts.stream and not state.complete:
            # Finished cleanly, this would pass for a whole answer with most SDKs; cut off, it can't.
            return self._cut_off(_CUT_SHORT)
        else:
            self._engine.succeed(self.ticket, response.status, self._usage())
        await self.audience.finish()
        return True

    async def _ended(self, tap: Tap) -> None:
        if (rest := tap.end()) is not None:
            await self._turns.run(rest)
        if tap.state.gave_up:
            _log.info("what request %d used is estimated: %s", self.ticket.id, tap.state.gave_up)

    def _cut_off(self, failure: Failure) -> bool:
        """The client has a part of the answer and gets no more; its connection ends without the end of the body."""
        self._engine.fail(self.ticket, self.call.without_credentials(failure), self._usage())
        return True

    async def _begin(self, response: UpstreamResponse) -> Decoder | None:
        """The response can't be taken back from here on. Returns a decoder where the head the client has promised
        none of the upstream's encoding."""
        await self._leave_company()
        self._engine.first_content(self.ticket, self._usage())
        if self.audience.started:
            return decoder_for(response.headers)
        await self.audience.start(response.status, self._head(response))
        return None

    # --- Failure --------------------------------------------------------------------------------------------------

    async def _failed(self, failure: Failure, reply: Reply | None = None) -> bool:
        """Try again if the scheduler says so, else tell the client, in the upstream's own words where there are any."""
        if self.call.facts.continues_state and failure.kind is not FailureKind.CONNECT:
            failure = replace(failure, retryable=False)
        if self._engine.fail(self.ticket, self.call.without_credentials(failure), self._usage()):
            return False
        await self._leave_company()
        if reply is None:
            status = 504 if failure.kind is FailureKind.TIMEOUT else 502
            await self._say(status, "upstream_unreachable", failure.message or "the upstream didn't answer", None)
        elif reply.stream:
            await self._pass_stream_on(reply)
        elif self.audience.started:
            body = decode_body(reply.response.headers, reply.body, MAX_ERROR_BODY)
            await self.audience.finish(self.call.dialect.failure_event(failure, body))
        else:
            await self.audience.answer(reply.response.status, self._head(reply.response), reply.body)
        return True

    async def _pass_stream_on(self, reply: Reply) -> None:
        """A stream that failed before its first content goes out as it came, ending as it ended."""
        response, data = reply.response, reply.body
        decoder = None
        if self.audience.started:
            decoder = decoder_for(response.headers)
        else:
            await self.audience.start(response.status, self._head(response))
        while data:
            try:
                await write(self.audience, decoder, data, self._turns)
                data = b"" if reply.cut else await response.read()
            except UpstreamError:
                return
        if not reply.cut:
            await self.audience.finish()

    async def _refuse(self, refusal: Refusal) -> None:
        await self._leave_company()
        retry_after_s, most_s = refusal.retry_after_s, self.call.client.max_retry_after_s
        if retry_after_s is not None and most_s is not None:
            retry_after_s = min(retry_after_s, most_s)
        await self._say(refusal.status, refusal.reason, text_of(refusal), retry_after_s)

    async def _say(self, status: int, reason: str, text: str, retry_after_s: float | None) -> None:
        """An error of our own, in the provider's shape."""
        message, dialect = f"HiveMind: {text}", self.call.dialect
        if self.audience.started:
            await self.audience.finish(dialect.stream_error(status, reason, message))
            return
        headers, body = dialect.refusal(status, reason, message, retry_after_s)
        await self.audience.answer(status, [*headers, *self._notice()], body)

    def _head(self, response: UpstreamResponse) -> Headers:
        """The upstream's, as far as it is for the client, and what we have to tell it."""
        return for_client(response.headers) + self._notice()

    def _notice(self) -> Headers:
        """That a budget of the agent's runs low or is used up."""
        agent = self.ticket.agent
        state = warning_of(agent) if agent.limits else None
        return [] if state is None else [(HEADER, field(state))]

    def _seek_company(self) -> None:
        """A stream that waits too long is begun before its turn, so that the client doesn't give up."""
        if not self.call.facts.stream or self._company is not None:
            return
        beat = self.call.dialect.keepalive(self.call.client.name)
        if beat:
            waited_s = asyncio.get_running_loop().time() - self.ticket.arrived_at
            self._company = Company(
                self.audience,
                [*self.call.dialect.stream_headers(self.call.facts), *self._notice()],
                beat,
                after_s=max(0.0, self._keepalive.after_s - waited_s),
                every_s=self._keepalive.every_s,
            )

    def _rest(self) -> None:
        """Its turn came before the client needed company: its head will be the upstream's own."""
        if self._company is not None and not self._company.begun:
            self._company.drop()
            self._company = None

    async def _leave_company(self) -> None:
        if self._company is not None:
            await self._company.leave()
            self._company = None

    def _usage(self) -> Usage | None:
        """What the provider counted, else what can be guessed from what came, or from what was asked for."""
        state = self._tap
        if state is None:
            return None
        if state.usage is None and self.call.facts.unmetered:
            return Usage(input_tokens=self.ticket.estimated_input, output_tokens=self.ticket.estimated_output)
        guess = self._output_tokens()
        if state.gave_up and not state.usage_final:
            guess = max(guess, self.ticket.estimated_output)
        elif state.usage is not None and (state.usage_final or not guess):
            return state.usage
        if state.usage is not None:
            return replace(state.usage, output_tokens=max(state.usage.output_tokens, guess))
        return Usage(input_tokens=self.ticket.estimated_input, output_tokens=guess) if guess else None

    def _output_tokens(self) -> int:
        return 0 if self._tap is None else self._tap.output_chars // CHARS_PER_TOKEN


_CUT_SHORT = Failure(FailureKind.TRUNCATED, True, message="the stream ended before its own end marker")
