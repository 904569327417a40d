"""The proxy between clients and an upstream that do as they like, in any order, on real sockets.

Each request carries a token of its own, and so does each answer, so that no byte can go astray unseen. What must come
of a request follows from what its client and the upstream did: see :meth:`Traffic.judge`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from examples import examples, of_histories
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from proxy.kit import Running, proxying
from proxy.wire import data, http, line
from upstream.scripted import Scripted, reset, serving
from waiting import until

from hivemind.proxy.data_plane import DataPlane
from hivemind.proxy.exchange import Exchange
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, Drain, PauseAdmissions, Rejected, SetCircuit, StopAgent, Tune
from hivemind.scheduler.invariants import violations
from hivemind.upstream.outbox import OutboxTransport

HANGS_S = 60.0
"""Whatever is awaited comes sooner, on any machine, or never."""
TOKEN = re.compile(rb"token-\d+-")
PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "ollama": "/api/chat"}
FAILURES = {
    "429": http(429, b'{"type":"error","error":{"type":"rate_limit_error","message":"%t"}}', "retry-after: 0"),
    "529": http(529, b'{"type":"error","error":{"type":"overloaded_error","message":"%t"}}'),
    "500": http(500, b'{"type":"error","error":{"type":"api_error","message":"%t"}}'),
    "400": http(400, b'{"type":"error","error":{"type":"invalid_request_error","message":"%t"}}'),
}
reached: Counter[str] = Counter()
"""How often the examples took the ways that they must take."""


def whole(form: str, token: str) -> bytes:
    """An answer in one piece."""
    if form == "anthropic":
        usage = {"input_tokens": 3, "output_tokens": 2}
        content = [{"type": "text", "text": token}]
        reply: dict[str, Any] = {"id": token, "type": "message", "role": "assistant", "content": content}
        reply |= {"model": "m", "stop_reason": "end_turn", "usage": usage}
    elif form == "openai":
        message = {"role": "assistant", "content": token}
        reply = {"id": token, "object": "chat.completion", "model": "m"}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        reply["usage"] = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    else:
        reply = {"model": "m", "message": {"role": "assistant", "content": token}, "done": True}
        reply |= {"prompt_eval_count": 3, "eval_count": 2}
    return json.dumps(reply).encode()


def pieces(form: str, token: str) -> tuple[bytes, bytes, bytes]:
    """A stream: what comes before its content, one event of content, and its end."""
    if form == "ollama":
        content: dict[str, Any] = {"model": "m", "message": {"role": "assistant", "content": token}, "done": False}
        return b"", line(**content), line(**json.loads(whole(form, token)))
    if form == "openai":
        about: dict[str, Any] = {"id": token, "object": "chat.completion.chunk", "model": "m"}
        said = about | {"choices": [{"index": 0, "delta": {"content": token}, "finish_reason": None}]}
        last = about | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return b"", data(**said), data(**last) + b"data: [DONE]\n\n"
    message: dict[str, Any] = {"id": token, "type": "message", "role": "assistant", "content": [], "model": "m"}
    message["usage"] = {"input_tokens": 3, "output_tokens": 1}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    said = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": token}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}

    def named(what: dict[str, Any]) -> bytes:
        return f"event: {what['type']}\n".encode() + data(**what)

    before = named({"type": "message_start", "message": message}) + named(start)
    return (
        before,
        named(said),
        named({"type": "content_block_stop", "index": 0}) + named(end) + named({"type": "message_stop"}),
    )


@dataclass(eq=False)
class Attempt:
    """A request as it reached the upstream, and what the upstream makes of it."""

    raw: bytes
    writer: asyncio.StreamWriter
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """The upstream has nothing more to say."""
    keeps: bool = True  # it keeps the connection
    left: bool = False  # the proxy has closed it
    fate: str = ""
    """How it ended: `answered`, `cut` after content, or a failure before any."""
    began: bool = False  # the head of a stream was sent
    content: bool = False
    body: bytes = b""  # what was sent of the body

    @property
    def open(self) -> bool:
        return not (self.over.is_set() or self.left)


@dataclass(eq=False)
class Asked:
    """A request of a client."""

    token: str
    form: str
    stream: bool
    raw: bytes
    sent: int = 0  # so many bytes of it
    status: int = 0
    body: bytes = b""
    outcome: str = ""  # `whole`, or `cut`
    last: bool = False  # its answer says that the connection ends with it
    forgiven: bool = False
    """The operator or its client interfered, so that it may also fail."""

    @property
    def complete(self) -> bool:
        return self.sent == len(self.raw)


class Client:
    """A connection that reads its answers as they come, unless it is told not to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, agent: str) -> None:
        self.reader, self.writer, self.agent = reader, writer, agent
        self.asked: list[Asked] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = False  # it left, or the proxy ended the connection
        self.task = asyncio.create_task(self._read_all())

    @property
    def due(self) -> Asked | None:
        """The request whose answer is next."""
        return next((each for each in self.asked if not each.outcome), None)

    @property
    def takes_more(self) -> bool:
        """Whether another request may be sent on it."""
        ends = any(each.last or b"HTTP/1.0" in each.raw for each in self.asked)
        return not (ends or self.writer.is_closing()) and self.sending is None

    @property
    def sending(self) -> Asked | None:
        """The request that was begun and isn't complete."""
        return self.asked[-1] if self.asked and not self.asked[-1].complete else None

    def closed_before(self, asked: Asked) -> bool:
        """Whether the connection ends with an earlier request."""
        earlier = self.asked[: self.asked.index(asked)]
        return any(each.last or each.outcome == "cut" or b"HTTP/1.0" in each.raw for each in earlier)

    async def _read_all(self) -> None:
        try:
            while True:
                await self._read_one()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            if (due := self.due) is not None and due.status:
                due.outcome = "cut"
            self.gone = True
            self.writer.close()

    async def _read_one(self) -> None:
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reads.wait()
        due = self.due
        assert due is not None, f"an answer to nothing: {head!r}"
        due.status = int(head.split(b" ", 2)[1])
        headers = dict(field.lower().split(b": ", 1) for field in head[:-4].split(b"\r\n")[1:])
        due.last = headers.get(b"connection") == b"close"
        if (length := headers.get(b"content-length")) is not None:
            due.body = await self.reader.readexactly(int(length))
        elif b"transfer-encoding" in headers:
            while size := int(await self.reader.readline(), 16):
                due.body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        else:
            while some := await self.reader.read(65536):
                due.body += some
        due.outcome = "whole"


class Traffic(RuleBasedStateMachine):
    """Clients ask, leave and stop reading; the upstream answers, fails and falls silent; an operator steers."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stop = asyncio.Event()
        self.clients: list[Client] = []
        self.attempts: list[Attempt] = []
        self.log: list[ev.Event] = []
        self.numbers = 0
        self.stopped: set[str] = set()
        self.steered = False
        """The operator keeps requests waiting, or refuses them."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, and then wait until all that follows from it has happened."""

        async def both() -> None:
            await work
            await self.settle()

        self.runner.run(both())

    # --- The stage ------------------------------------------------------------------------------------------------

    @initialize(slots=st.sampled_from([0, 0, 1, 3]))
    def begin(self, slots: int) -> None:
        async def start() -> None:
            ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
            self.serving = asyncio.create_task(self._serve(ready, slots))
            waited: list[asyncio.Future[Any]] = [ready, self.serving]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            self.running = ready.result()

        self.runner.run(start())

    async def _serve(self, ready: asyncio.Future[Running], slots: int) -> None:
        knobs: dict[str, Any] = {"max_concurrency": slots, "retry": {"max_attempts": 3}}
        knobs["keepalive_after_s"] = 600  # else streams that wait long begin with pings
        async with (
            serving(self._upstream) as self.upstream,
            proxying(f"lab={self.upstream.url}", hangs_s=600.0, **knobs) as running,
        ):
            running.proxy.engine.hooks.record = self.log.extend
            ready.set_result(running)
            await self.stop.wait()

    async def _upstream(self, script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            attempt = Attempt(await script.request(reader), writer)
            self.attempts.append(attempt)
            leaves = asyncio.create_task(reader.read(1))
            over = asyncio.create_task(attempt.over.wait())
            await asyncio.wait({leaves, over}, return_when=asyncio.FIRST_COMPLETED)
            attempt.left = not attempt.over.is_set()
            over.cancel()
            leaves.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await leaves
            if attempt.left or not attempt.keeps:
                return

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until it is so."""
        try:
            await until(true, HANGS_S)
        except TimeoutError:
            raise AssertionError(f"never: {what}") from None

    @property
    def scheduler(self) -> Any:
        return self.running.proxy.engine._scheduler

    def in_flight(self) -> int:
        return sum(lane.gate.active for lane in self.scheduler.lanes.values())

    def open_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.open]

    async def settle(self) -> None:
        """Every attempt that was granted is with the upstream, and every complete request is known to the proxy."""
        await self.until(lambda: self.in_flight() == len(self.open_attempts()), "granted is sent, ended is released")
        await self.until(lambda: len(self.unknown()) <= self.waiting(), "a request has a ticket or an answer")
        assert not (broken := violations(self.scheduler, self.running.proxy.engine.now())), broken

    def unknown(self) -> list[Asked]:
        """Requests whose turn it is, and that neither an answer nor the upstream has seen."""
        sent = [attempt.raw for attempt in self.open_attempts()]
        found = []
        for client in self.clients:
            due = client.due
            if due is None or not due.complete or client.gone or not client.reads.is_set():
                continue
            if not (client.closed_before(due) or any(due.token.encode() in raw for raw in sent)):
                found.append(due)
        return found

    def waiting(self) -> int:
        agents = self.scheduler.agents.values()
        return sum(len(agent.waiting) for agent in agents)

    # --- Clients --------------------------------------------------------------------------------------------------

    def some(self, which: int, true: Callable[[Client], bool]) -> Client | None:
        found = [client for client in self.clients if not client.gone and true(client)]
        return found[which % len(found)] if found else None

    def compose(self, form: str, stream: bool, old: bool, agent: str, large: bool) -> Asked:
        self.numbers += 1
        token = f"token-{self.numbers}-"
        about = {"model": "m", "stream": stream, "max_tokens": 10}
        content = token + ("x" * 300_000 if large else "")
        body = json.dumps(about | {"messages": [{"role": "user", "content": content}]}).encode()
        lines = [f"POST {PATHS[form]} HTTP/1.{0 if old else 1}", "host: x", f"x-hivemind-agent: {agent}"]
        head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()
        return Asked(token, form, stream, head + body)

    @rule(
        which=st.integers(0, 9),
        fresh=st.booleans(),
        form=st.sampled_from(sorted(PATHS)),
        stream=st.booleans(),
        old=st.sampled_from([False, False, False, True]),
        large=st.sampled_from([False, False, False, False, True]),
        agent=st.sampled_from(["ann", "ben"]),
        share=st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.3, 0.9]),
        count=st.sampled_from([1, 1, 2, 6]),
    )
    def ask(
        self,
        which: int,
        fresh: bool,
        form: str,
        stream: bool,
        old: bool,
        large: bool,
        agent: str,
        share: float,
        count: int,
    ) -> None:
        """So many requests on a connection, perhaps while it waits for an answer; of the last perhaps only a part."""

        async def act() -> None:
            client = None if fresh else self.some(which, lambda each: each.takes_more)
            if client is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.running.port)
                client = Client(reader, writer, agent)
                self.clients.append(client)
            if len([each for each in client.asked if not each.outcome]) + count > 8:
                return
            alone = count == 1 and client.due is None  # little may be sent ahead of an answer
            for left in reversed(range(count)):
                asked = self.compose(form, stream, old and count == 1, client.agent, large and alone)
                asked.sent = len(asked.raw) if left else round(share * len(asked.raw))
                client.asked.append(asked)
                client.writer.write(asked.raw[: asked.sent])

        self.run(act())

    @rule(forms=st.lists(st.sampled_from(sorted(PATHS)), min_size=5, max_size=8))
    def ask_all_at_once(self, forms: list[str]) -> None:
        """Several connections in one turn of the event loop, twice; the upstream answers the first time."""

        async def act() -> None:
            made = []
            for _ in forms:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.running.port)
                made.append(Client(reader, writer, "ann"))
            self.clients += made
            for answers in (True, False):
                for client, form in zip(made, forms, strict=True):
                    if client.takes_more:
                        asked = self.compose(form, False, False, "ann", False)
                        asked.sent = len(asked.raw)
                        client.asked.append(asked)
                        client.writer.write(asked.raw)
                await self.settle()
                for attempt in self.open_attempts() if answers else ():
                    self.finish(attempt)
                await self.settle()

        self.run(act())

    @rule(which=st.integers(0, 9), share=st.sampled_from([1.0, 1.0, 0.5]))
    def send_more(self, which: int, share: float) -> None:
        client = self.some(which, lambda each: each.sending is not None)
        if client is None or (asked := client.sending) is None:
            return

        async def act() -> None:
            more = max(1, round(share * (len(asked.raw) - asked.sent)))
            client.writer.write(asked.raw[asked.sent : asked.sent + more])
            asked.sent += more

        self.run(act())

    @rule(which=st.integers(0, 9), how=st.sampled_from(["FIN", "RST", "half"]))
    def leave(self, which: int, how: str) -> None:
        client = self.some(which, lambda each: not each.writer.is_closing())
        if client is None:
            return

        async def act() -> None:
            for asked in client.asked:
                asked.forgiven = asked.forgiven or not asked.outcome
            tokens = [asked.token.encode() for asked in client.asked if not asked.outcome]
            if how == "RST":
                reset(client.writer)
            elif how == "FIN":
                client.writer.close()
            else:
                client.writer.write_eof()
            client.reads.set()
            await self.until(
                lambda: not any(any(t in each.raw for t in tokens) for each in self.open_attempts()),
                "the client's disconnect ends its attempt",
            )
            client.writer.close()
            await self.until(lambda: client.gone or how != "half", "the connection ends")

        self.run(act())

    @rule(which=st.integers(0, 9), reads=st.booleans())
    def read(self, which: int, reads: bool) -> None:
        client = self.some(which, lambda each: each.reads.is_set() is not reads)
        if client is not None:
            (client.reads.set if reads else client.reads.clear)()
            if reads:
                self.run(asyncio.sleep(0))

    # --- The upstream ---------------------------------------------------------------------------------------------

    def asked_in(self, attempt: Attempt) -> Asked:
        found = TOKEN.search(attempt.raw)
        assert found is not None
        return next(a for c in self.clients for a in c.asked if a.token.encode() == found[0])

    def one_of_them(self, which: int) -> Attempt | None:
        found = self.open_attempts()
        return found[which % len(found)] if found else None

    def end(self, attempt: Attempt, fate: str, *, keeps: bool = True) -> None:
        attempt.fate, attempt.keeps = fate, keeps
        attempt.over.set()

    @rule(which=st.integers(0, 9), all_=st.booleans())
    def answer(self, which: int, all_: bool) -> None:
        """Whole, or the rest of a stream."""

        async def act() -> None:
            found = self.open_attempts()
            for attempt in found if all_ or not found else [found[which % len(found)]]:
                self.finish(attempt)

        self.run(act())

    def finish(self, attempt: Attempt) -> None:
        asked = self.asked_in(attempt)
        if asked.stream:
            if not attempt.began:
                self.stream_on(attempt, 0)
            if not attempt.content:
                self.stream_on(attempt, 1)
            self.stream_on(attempt, 2)
            attempt.writer.write(b"0\r\n\r\n")
        else:
            attempt.body = whole(asked.form, asked.token)
            attempt.writer.write(http(200, attempt.body))
        self.end(attempt, "answered")

    def stream_on(self, attempt: Attempt, part: int) -> None:
        asked = self.asked_in(attempt)
        if not attempt.began:
            kind = "application/x-ndjson" if asked.form == "ollama" else "text/event-stream"
            attempt.writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
            )
            attempt.began = True
        some = pieces(asked.form, asked.token)[part]
        attempt.body += some
        attempt.content = attempt.content or part > 0
        if some:
            attempt.writer.write(b"%x\r\n%b\r\n" % (len(some), some))

    @rule(which=st.integers(0, 9), parts=st.sampled_from([(0,), (0, 1), (1,), (1, 1, 1)]))
    def stream(self, which: int, parts: tuple[int, ...]) -> None:
        """A stream begins, or goes on."""
        attempt = self.one_of_them(which)
        if attempt is None or not self.asked_in(attempt).stream:
            return

        async def act() -> None:
            for part in parts:
                if part or not attempt.began:
                    self.stream_on(attempt, part)

        self.run(act())

    @rule(which=st.integers(0, 9), how=st.sampled_from([*FAILURES, "reset", "closed", "garbage", "truncated"]))
    def fail(self, which: int, how: str) -> None:
        attempt = self.one_of_them(which)
        if attempt is None:
            return
        asked = self.asked_in(attempt)

        async def act() -> None:
            if attempt.began:
                self.end(attempt, "cut" if attempt.content else "reset", keeps=False)
                if how == "reset":
                    reset(attempt.writer)
            elif how in FAILURES:
                raw = FAILURES[how]
                head, _, body = raw.partition(b"\r\n\r\n")
                attempt.body = body.replace(b"%t", asked.token.encode())
                head = re.sub(rb"content-length: \d+", b"content-length: %d" % len(attempt.body), head)
                attempt.writer.write(head + b"\r\n\r\n" + attempt.body)
                self.end(attempt, how)
            else:
                if how == "garbage":
                    attempt.writer.write(b"SSH-2.0-OpenSSH\r\n")
                elif how == "truncated":
                    attempt.writer.write(http(200, whole(asked.form, asked.token))[:-5])
                elif how == "reset":
                    reset(attempt.writer)
                self.end(attempt, how, keeps=False)

        self.run(act())

    @rule()
    def close_idle(self) -> None:
        """The upstream closes its idle connections."""

        async def act() -> None:
            busy = {attempt.writer for attempt in self.open_attempts()}
            for writer in self.upstream.open - busy:
                writer.close()

        self.run(act())

    # --- The operator ---------------------------------------------------------------------------------------------

    @rule(
        command=st.one_of(
            st.builds(PauseAdmissions, st.booleans()),
            st.builds(StopAgent, st.sampled_from(["ann", "ben"]), st.booleans()),
            st.builds(Tune, st.just("max_concurrency"), st.sampled_from([0, 1, 2, 8])),
            st.builds(SetCircuit, st.sampled_from(["auto", "open", "closed", "probe"])),
            st.builds(Drain, st.booleans()),
        )
    )
    def steer(self, command: Command) -> None:
        async def act() -> None:
            if not isinstance(command, Tune | PauseAdmissions):
                self.forgive()
            self.steered = self.steered or isinstance(command, StopAgent | Drain | SetCircuit)
            with contextlib.suppress(Rejected):
                self.running.proxy.engine.apply(command, "you")

        self.run(act())

    def forgive(self) -> None:
        for client in self.clients:
            for asked in client.asked:
                asked.forgiven = asked.forgiven or not asked.outcome

    # --- What came of it ------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Each complete request has one outcome, which is its own and follows from what the upstream did."""
        for client in self.clients:
            for asked in client.asked:
                asked.forgiven = asked.forgiven or client.closed_before(asked)
                mine = [each for each in self.attempts if asked.token.encode() in each.raw]
                assert set(TOKEN.findall(asked.body)) <= {asked.token.encode()}, "another request's bytes"
                assert all(each.raw.endswith(asked.raw.partition(b"\r\n\r\n")[2]) for each in mine)
                resent = sum(self.was_stale(each) for each in mine)
                assert len(mine) <= 3 + resent, "more attempts than allowed"
                assert asked.complete or not mine, "sent before it was complete"
                for each in mine[:-1]:
                    assert each.fate not in ("answered", "cut", "400", ""), f"sent again after {each.fate}"
                if asked.forgiven or not asked.complete:
                    continue
                self.judge_one(asked, mine)

    def was_stale(self, attempt: Attempt) -> bool:
        """Whether it may have met a connection that was about to close: it is sent again on another, within the same
        attempt of the scheduler's, if nothing had come back."""
        return attempt.fate in ("reset", "closed") and not attempt.began

    def judge_one(self, asked: Asked, mine: list[Attempt]) -> None:
        told = f"{asked.token} {asked.form} {asked.status} {asked.outcome} {[each.fate for each in mine]}"
        assert asked.outcome, f"no outcome: {told}"
        if not mine:
            assert self.steered, told
            assert asked.status in (400, 503), told
            return
        last = mine[-1]
        if last.fate == "answered":
            assert (asked.status, asked.outcome, asked.body) == (200, "whole", last.body), told
        elif last.fate == "cut":
            # A client of HTTP/1.0 reads until the end of the connection, and may not tell a cut from it.
            assert asked.outcome == "cut" or b"HTTP/1.0" in asked.raw, told
            assert self.breaks_off(asked, last), told
        elif last.fate in FAILURES:
            assert (str(asked.status), asked.outcome, asked.body) == (last.fate, "whole", last.body), told
        elif last.began and asked.status == 200:
            assert self.breaks_off(asked, last), told
        else:
            assert asked.status in (502, 503), told
            json.loads(asked.body)

    def breaks_off(self, asked: Asked, last: Attempt) -> bool:
        """Whether the client got a part of what the upstream sent, or all of it and then an event that tells why there
        is no more."""
        if last.body.startswith(asked.body):
            return True
        event = asked.body.removeprefix(last.body)
        return event != asked.body and event.endswith(b"\n") and event.count(b"HiveMind: the answer broke off") == 1

    def teardown(self) -> None:
        try:
            if hasattr(self, "running"):
                self.run(self.end_everything())
                self.judge()
                self.runner.run(self.check_that_nothing_is_left())
        finally:
            self.runner.close()

    async def end_everything(self) -> None:
        """Nobody holds anything back any more, and the upstream answers all."""
        engine = self.running.proxy.engine
        names = [name for name in ("ann", "ben") if engine.agents.get(name) is not None]
        commands: list[Command] = [Drain(False), *(StopAgent(name, False) for name in names), SetCircuit("closed")]
        for command in commands:
            with contextlib.suppress(Rejected):
                engine.apply(command, "you")
        engine.apply(PauseAdmissions(False), "you")
        for client in self.clients:
            client.reads.set()
            if client.sending is not None and not client.gone:
                client.writer.write(client.sending.raw[client.sending.sent :])
                client.sending.sent = len(client.sending.raw)

        def all_done() -> bool:
            for attempt in self.open_attempts():
                self.finish(attempt)
            return all(client.gone or client.due is None for client in self.clients)

        await self.until(all_done, "every request has an outcome")

    async def check_that_nothing_is_left(self) -> None:
        """No ticket, slot, exchange, task or open socket."""
        for client in self.clients:
            client.writer.close()
        await self.until(lambda: all(client.task.done() for client in self.clients), "every client leaves")
        for client in self.clients:
            client.task.result()
        plane = self.running.proxy.app
        await self.until(lambda: not plane._active, "every exchange ends")
        assert (plane._direct, plane._retries.waiting, self.in_flight()) == (0, {}, 0)
        assert not any(agent.tickets for agent in self.scheduler.agents.values())
        assert plane._body_budget.used == 0
        granted = sum(isinstance(each, ev.Granted | ev.GrantedOnArrival) for each in self.log)
        resent = sum(map(self.was_stale, self.attempts))
        assert len(self.attempts) <= granted + resent
        if not any(asked.forgiven for client in self.clients for asked in client.asked):
            assert len(self.attempts) >= granted
        self.stop.set()
        await asyncio.wait_for(self.serving, HANGS_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left


class Counted(Traffic):
    """The same, noting which ways were taken."""

    def __init__(self) -> None:
        super().__init__()
        answer, serve, flush = Exchange._answer_at_once, DataPlane.serve_whole, OutboxTransport.flush

        def answered(exchange: Exchange, *rest: Any) -> bool:
            done = answer(exchange, *rest)
            self.note("answered directly" if done else "begun directly, answered in a task")
            return done

        def served(plane: DataPlane, cycle: Any) -> bool:
            known = cycle.remembered is not None
            done = serve(plane, cycle)
            if done and known:
                self.note("head known")
            return done

        def flushed(transport: OutboxTransport) -> None:
            if transport._held:
                self.note("written from the outbox")
            flush(transport)

        self.patches: list[Any] = [
            mock.patch.object(Exchange, "_answer_at_once", answered),
            mock.patch.object(DataPlane, "serve_whole", served),
            mock.patch.object(OutboxTransport, "flush", flushed),
        ]
        for patch in self.patches:
            patch.start()

    def note(self, way: str) -> None:
        reached[way] += 1

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            for patch in self.patches:
                patch.stop()


class TestTraffic(Counted.TestCase):  # type: ignore[misc, valid-type]
    """Whatever is done in whatever order."""

    settings = of_histories(200, few=10, steps=30)

    def runTest(self) -> None:
        super().runTest()
        ways = {"answered directly", "begun directly, answered in a task", "head known", "written from the outbox"}
        assert examples(200) < 200 or set(reached) >= ways, "which only a run of few examples may miss"
