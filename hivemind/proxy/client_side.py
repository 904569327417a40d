"""What the clients of a request are sent: heads, what keeps them waiting, failures, and errors of our own."""

from __future__ import annotations

import asyncio
import math

from hivemind.providers.encoding import decode_body, decoder_for, is_encoded
from hivemind.providers.errors import MAX_ERROR_BODY
from hivemind.proxy.asgi import StepRunner
from hivemind.proxy.reply import FailedReply, final_form, retryable_form, with_links, write
from hivemind.proxy.response_writer import Delivery, ResponseWriter
from hivemind.proxy.streaming import KeepaliveSender, KeepaliveTiming
from hivemind.scheduler.ledger import warning_of
from hivemind.scheduler.ticket import FINAL_STATUS, Refusal, Ticket
from hivemind.scheduler.types import Failure, FailureKind
from hivemind.text.amounts import HEADER, field, how_used, owner, raise_command
from hivemind.text.humanise import duration
from hivemind.upstream.base import UpstreamError, UpstreamResponse
from hivemind.wire.call import Call
from hivemind.wire.request_head import Headers, for_client, without
from hivemind.world.gates import GATES

_TEXTS = {
    "circuit_open": "the upstream keeps failing, so requests wait until it is tried again",
    "queue_full": "too many requests are waiting already",
    "wait_too_long": "the request waited longer than it may",
    "deadline": "its deadline has passed",
    "draining": "the proxy is draining or shutting down, and takes no new requests",
    "too_many_agents": "as many agents are at work as may be (max_agents)",
    "agent_stopped": "the operator stopped this agent; it is refused until it is released in the control room",
}


class ClientSide:
    """The answer to one request, as its clients see it."""

    __slots__ = ("_keepalive", "_steps", "_timing", "call", "cut", "ticket", "writer")

    def __init__(
        self, call: Call, ticket: Ticket, client: Delivery, timing: KeepaliveTiming, steps: StepRunner
    ) -> None:
        self.call = call
        self.ticket = ticket
        self.writer = ResponseWriter(client)
        self.cut = ""
        """Why the answer was left incomplete on purpose; empty: it wasn't."""
        self._timing = timing
        self._steps = steps
        self._keepalive: KeepaliveSender | None = None

    def close(self) -> None:
        """Stop what keeps the client waiting."""
        if self._keepalive is not None:
            self._keepalive.cancel()

    async def pass_comments(self, response: UpstreamResponse, comments: bytes) -> None:
        """Begin the stream as the server has, with its comments; our own pings go on between them."""
        await self.stop_keepalive()
        await self.pass_sign_of_life(response, comments)
        self.arm_keepalive(response)

    async def pass_sign_of_life(self, response: UpstreamResponse, data: bytes) -> None:
        """Pass on what comes before an answer, which may still fail: another attempt can follow it."""
        if not self.writer.started:
            await self.writer.start(response.status, without(self.head(response), b"content-length"))
        await self.writer.write(data)

    async def break_off(self, failure: Failure, *, takes_event: bool) -> None:
        """Have the answer end where it is, after an event that tells why, where one can follow."""
        self.cut = failure.message or failure.kind.value
        if takes_event:
            message = f"HiveMind: the answer broke off: {failure.message}"
            await self.writer.write(self._error_event(_status(failure), "answer_broke_off", message))

    async def pass_failure_on(self, failure: Failure, reply: FailedReply | None, *, to_try_again: bool) -> None:
        """Tell the client of a failure, in the upstream's own words if there are any; `to_try_again`: so that it tries
        again, if anything does that."""
        await self.stop_keepalive()
        if self.writer.started and not self.call.facts.stream:
            self.cut = failure.message or failure.kind.value
        elif failure.kind is FailureKind.CUT:
            await self.send_error(FINAL_STATUS, "cut", failure.message, None)
        elif reply is None:
            text = failure.message or "the upstream didn't answer"
            await self.send_error(_status(failure), "upstream_unreachable", text, None)
        elif self.writer.started and not reply.stream:
            body = decode_body(reply.response.headers, reply.body, MAX_ERROR_BODY)
            await self.writer.finish(
                self.call.head.dialect.failure_event(failure, body, self.call.head.client.try_again)
            )
        elif (told := self._in_other_form(failure, reply, to_try_again=to_try_again)) is not None:
            status, headers, body = told
            await self.writer.answer(status, [*for_client(headers, self.call.head.links), *notice(self.ticket)], body)
        elif reply.stream:
            await self._pass_stream_on(reply)
        else:
            await self.writer.answer(reply.response.status, self.head(reply.response), reply.body)

    def _in_other_form(
        self, failure: Failure, reply: FailedReply, *, to_try_again: bool
    ) -> tuple[int, Headers, bytes] | None:
        """Return what tells a client to try again, or that it needn't; None: the reply does, or has begun."""
        if self.writer.started:
            return None
        form, status = self.call.head.client.try_again, reply.response.status
        told = retryable_form(failure, reply, form) if to_try_again else None
        # A gateway's 500 may tell of a provider's 400. What follows of a very long error is passed on as it comes.
        final = failure.kind is FailureKind.QUOTA or (failure.kind is FailureKind.CLIENT_ERROR and status >= 500)
        ends = (final or self.ticket.at_fault) and told is None and not (reply.stream and status >= 400)
        return final_form(failure, reply, form) if ends else told

    async def _pass_stream_on(self, reply: FailedReply) -> None:
        """Send a stream that failed before its first content as it comes, ending as it ends."""
        response, data = reply.response, reply.body
        decoder = None
        if self.writer.started:
            decoder = decoder_for(response.headers)
        else:
            await self.writer.start(response.status, self.head(response))
        while data:
            try:
                await write(self.writer, decoder, data, self._steps)
                data = await response.read()
            except UpstreamError as error:
                self.cut = self.call.failure_of(error).message
                return
        await self.writer.finish()

    async def refuse(self, refusal: Refusal) -> None:
        """Send why the request is refused."""
        await self.stop_keepalive()
        await self.send_error(refusal.status, refusal.reason, text_of(refusal), refusal.retry_after_s)

    async def send_error(self, status: int, reason: str, text: str, retry_after_s: float | None) -> None:
        """Send an error of our own, in the provider's shape."""
        message, head = f"HiveMind: {text}", self.call.head
        if self.writer.started and not self.call.facts.stream:
            self.cut = text  # nothing that could follow in the answer would be read as an error
            return
        if self.writer.started:
            await self.writer.finish(self._error_event(status, reason, message))
            return
        form = head.client.try_again
        status = form.ends_at if status == FINAL_STATUS else status
        headers, body = head.dialect.refusal(status, reason, message, retry_after_s, form)
        await self.writer.answer(status, [*headers, *notice(self.ticket)], body)

    def _error_event(self, status: int, reason: str, message: str) -> bytes:
        head = self.call.head
        return head.dialect.stream_error(status, reason, message, head.client.try_again)

    def head(self, response: UpstreamResponse) -> Headers:
        """Return the upstream's headers for the client, and our notice."""
        headers = for_client(response.headers, self.call.head.links) + notice(self.ticket)
        return without(headers, b"content-length") if self.call.asks_usage else headers

    def linked(self, response: UpstreamResponse, body: bytes) -> tuple[Headers, bytes]:
        """Return headers and body of a whole answer for the client; only what may start work that is looked up later
        has links to it."""
        headers = self.head(response)
        begins = self.call.facts.unmetered or self.call.facts.begins is not None
        return with_links(self.call.head.links, headers, body) if begins else (headers, body)

    def arm_keepalive(self, response: UpstreamResponse | None = None) -> None:
        """Have a stream that waits too long begun before its grant, or before this response is passed on, so that the
        client doesn't give up. One that is held begins as late as one that wasn't granted, since it may still fail."""
        if self._keepalive is not None or (self.writer.started and not self.call.facts.stream):
            return
        head = self.call.head
        ping = head.dialect.keepalive(head.client.name) if self.call.facts.stream else b""
        if response is not None and not is_encoded(response.headers):
            headers = without(self.head(response), b"content-length")
        elif ping:
            headers = [*head.dialect.stream_headers(), *notice(self.ticket)]
        else:
            return
        patience_s = math.inf if head.client.patience_s is None else head.client.patience_s
        after_s, every_s = min(self._timing.after_s, patience_s), min(self._timing.every_s, patience_s)
        if self.writer.started:
            after_s = every_s
        elif response is None or self.call.holds:
            waited_s = asyncio.get_running_loop().time() - self.ticket.arrived_at
            after_s = max(0.0, max(after_s, head.client.silent_s) - waited_s)
        self._keepalive = KeepaliveSender(self.writer, headers, ping, after_s=after_s, every_s=every_s)

    def disarm_keepalive(self) -> None:
        """Cancel a keepalive that hasn't begun the response, so that the head will be the upstream's own."""
        if self._keepalive is not None and not self._keepalive.started:
            self._keepalive.cancel()
            self._keepalive = None

    async def stop_keepalive(self) -> None:
        """End a keepalive, once what it sends is sent."""
        if self._keepalive is not None:
            await self._keepalive.stop()
            self._keepalive = None


def _status(failure: Failure) -> int:
    """Return the status of our own error about an attempt without a whole answer."""
    return 504 if failure.kind is FailureKind.TIMEOUT else 502


def notice(ticket: Ticket) -> Headers:
    """Return the header that warns of a budget of the agent's that runs low or is used up."""
    agent = ticket.agent
    state = warning_of(agent) if agent.limits else None
    return [] if state is None else [(HEADER, field(state))]


def _waited(refusal: Refusal) -> str:
    """Return why a request isn't waited for any longer: what bounds it, what kept it, and when its turn would come."""
    text, waited = _TEXTS[refusal.reason], duration(refusal.waited_s)
    if refusal.reason == "deadline" and refusal.turn_in_s is not None:
        text = f"its deadline is in {waited}"
    elif refusal.bounds:
        names = " and ".join("its client's patience" if each == "patience" else each for each in refusal.bounds)
        text = f"the request waited {waited}, as long as {names} allow{'s' if len(refusal.bounds) == 1 else ''}"
    if refusal.gate in GATES:
        text += f"; {GATES[refusal.gate].meaning}"
    return text if refusal.turn_in_s is None else f"{text}; its turn is in about {duration(refusal.turn_in_s)}"


def text_of(refusal: Refusal) -> str:
    """Return why a request is refused and what would help, in a sentence."""
    if refusal.reason == "price_unknown":
        return f"the price of {refusal.detail or 'this model'} isn't known, and this agent has a budget in dollars"
    if refusal.budget is not None:
        return (
            f"{owner(refusal.budget)} is used up ({how_used(refusal.budget)}); raise it with"
            f" `{raise_command(refusal.budget)}`, or with B in the control room, then ask again"
        )
    if refusal.reason in ("wait_too_long", "deadline"):
        return _waited(refusal)
    return refusal.detail or _TEXTS.get(refusal.reason, refusal.reason.replace("_", " "))
