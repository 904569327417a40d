"""Streams: the same bytes as without the proxy, as they come, and an end that means what it meant."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from itertools import pairwise
from unittest.mock import MagicMock

import brotli
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy.kit import Close, Hang, Play, Reset, between, client, raw, request
from proxy.wire import (
    ANSWER,
    BLOCK_START,
    CHAT,
    END,
    GEMINI,
    HELLO,
    JSON,
    MESSAGE,
    MESSAGE_START,
    NDJSON,
    OLLAMA,
    OVERLOADED,
    PLAIN_BODY,
    RESPONSE,
    SSE,
    STREAM_BODY,
    chunk,
    chunked,
    head,
)
from waiting import until

from hivemind.host.proxy import Proxy
from hivemind.lab.simulate.clock import run_virtual
from hivemind.providers.base import TapState
from hivemind.proxy.streaming import DECIDED_S, MOST_HELD, StreamProgress
from hivemind.scheduler.events import FirstContent
from hivemind.scheduler.types import Failure, FailureKind
from hivemind.settings import Settings
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import InProcessTransport

MESSAGES = "/v1/messages"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STREAMS: dict[str, tuple[str, bytes, str, bytes, tuple[int, int]]] = {
    "anthropic": (MESSAGES, STREAM_BODY, SSE, b"".join(MESSAGE), (11, 7)),
    "chat": ("/v1/chat/completions", STREAM_BODY, SSE, b"".join(CHAT), (12, 8)),
    "responses": ("/v1/responses", STREAM_BODY, SSE, b"".join(RESPONSE), (13, 9)),
    "google": ("/v1beta/models/m:streamGenerateContent?alt=sse", b'{"contents":[]}', SSE, b"".join(GEMINI), (14, 10)),
    "ollama": ("/api/chat", b'{"model":"m"}', NDJSON, b"".join(OLLAMA), (15, 11)),
}
ENCODINGS = {
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at these places."""
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(places) if a < b]


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(cuts=st.lists(st.integers(0, 4000), max_size=40), encoding=st.sampled_from(sorted(ENCODINGS)))
def test_bytes_are_the_upstream_s(name: str, cuts: list[int], encoding: str) -> None:
    """However a stream is cut into chunks and encoded, the client gets the upstream's headers and bytes, and the usage
    inside is counted."""
    path, body, kind, plain, usage = STREAMS[name]
    wire = ENCODINGS[encoding](plain)
    said = [] if encoding == "identity" else [f"content-encoding: {encoding}"]

    async def main() -> None:
        play = [chunked(pieces(wire, cuts), kind, *said)]
        async with between(play) as (proxy, _), raw(proxy.port) as direct:
            status, headers = await direct.ask(request(path, body))
            assert status == 200
            assert headers[:-1] == [tuple(h.encode().split(b": ")) for h in (kind, *said)]
            assert await direct.body(headers) == wire
            total = proxy.snapshot().totals.usage
            assert (total.total_input, total.output_tokens) == usage

    asyncio.run(main())


async def test_a_stream_that_breaks_off_is_charged_for_what_came() -> None:
    """By the length of its content, since its beginning states one token, and only its end all of them."""
    events = b"".join((*MESSAGE[:3], HELLO.replace(b"hello", b"x" * 4000)))
    play: Play = [head(SSE) + chunk(events), Close()]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, STREAM_BODY))
        await direct.rest()
        usage = (await proxy.until(lambda world: world.totals.failed == 1)).totals.wasted
        assert usage.total_input == 11
        assert 1000 <= usage.output_tokens <= 1010


async def test_each_event_goes_on_before_the_next_one_comes() -> None:
    """The upstream sends an event only once the client has the one before."""
    gates = [asyncio.Event() for _ in MESSAGE[3:]]
    opening = b"".join(MESSAGE[:3])
    play: list[bytes | asyncio.Event] = [head(SSE) + chunk(opening)]
    for gate, event in zip(gates, MESSAGE[3:], strict=True):
        play += [gate, chunk(event)]
    async with between([*play, END]) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.chunks(len(opening)) == opening
        for gate, event in zip(gates, MESSAGE[3:], strict=True):
            gate.set()
            assert await direct.chunk() == event
        assert await direct.chunk() == b""


async def test_prelude_is_held_until_the_first_content() -> None:
    """Nothing goes out before the first content; then what was held comes first, in order."""
    gate = asyncio.Event()
    play: Play = [head(SSE) + chunk(MESSAGE_START), gate, chunk(b"".join(MESSAGE[1:])), END]
    async with between(play) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, STREAM_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await proxy.until(lambda world: world.slots[0].state == "waiting")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(direct.reader.read(1), 0.02)
        gate.set()
        _, headers = await direct.head()
        assert await direct.body(headers) == b"".join(MESSAGE)


async def test_slot_is_held_to_the_end() -> None:
    """With one slot, the next request reaches the upstream only when the stream before it has ended."""
    gate = asyncio.Event()
    first: Play = [head(SSE) + chunk(b"".join(MESSAGE[:3])), gate, chunk(b"".join(MESSAGE[3:])), END]
    async with between(first, [ANSWER], max_concurrency=1) as (proxy, upstream), raw(proxy.port) as one:
        _, headers = await one.ask(request(MESSAGES, STREAM_BODY))
        assert await one.chunk() == b"".join(MESSAGE[:3])
        async with raw(proxy.port) as two:
            await two.send(request(MESSAGES, PLAIN_BODY))
            await proxy.until(lambda world: world.queued == 1)
            assert len(upstream.requests) == 1
            gate.set()
            assert await one.body(headers) == b"".join(MESSAGE[3:])
            assert (await two.head())[0] == 200


async def test_error_in_the_middle_is_passed_on() -> None:
    """An error event after content reaches the client as the provider sent it, and counts as a failure."""
    async with between([chunked([*MESSAGE[:3], OVERLOADED], SSE)]) as (proxy, _), client() as http:
        answer = await http.post(proxy.url + MESSAGES, content=STREAM_BODY)
        assert answer.content == b"".join(MESSAGE[:3]) + OVERLOADED
        world = proxy.snapshot()
        assert (world.totals.failed, world.totals.wasted.total) == (1, 11 + 1)


MIDDLE = b"".join(MESSAGE[:4])
CUTS: dict[str, Play] = {
    "reset": [head(SSE) + chunk(MIDDLE), Reset()],
    "closed inside its chunks": [head(SSE) + chunk(MIDDLE), Close()],
    "a clean end without the end marker": [chunked([MIDDLE], SSE)],
    "closed, without other framing": [b"HTTP/1.1 200 -\r\n" + SSE.encode() + b"\r\n\r\n" + MIDDLE, Close()],
}


@pytest.mark.parametrize("play", CUTS.values(), ids=list(CUTS))
async def test_truncation_cuts_the_client_off(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """A stream that breaks off is broken off for the client too: everything that came, an event that tells why, and no
    final chunk."""
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY))
        received = await direct.rest()
        assert not received.endswith(END)
        assert received.startswith(chunk(MIDDLE))
        told = received.removeprefix(chunk(MIDDLE))
        assert told.partition(b"\r\n")[2].startswith(b'event: error\ndata: {"type":"error",')
        assert b"HiveMind: the answer broke off: " in told
        world = await proxy.until(lambda world: world.totals.failed == 1)
        assert (world.slots, world.totals.retries) == ((), 0)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(("chunks", "failed"), [(2, 1), (3, 0)], ids=["without", "with"])
async def test_an_end_without_a_reason(chunks: int, failed: int) -> None:
    """A chat that broke off after `[DONE]` is whole only if it has said why it ended (see llama-cpp-python)."""
    play: Play = [head(SSE) + chunk(b"".join([*CHAT[:chunks], CHAT[-1]])), Close()]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request("/v1/chat/completions", STREAM_BODY, "connection: close"))
        assert (await direct.rest()).endswith(END) != failed
        assert (await proxy.until(lambda world: not world.slots)).totals.failed == failed


BEGUN = b"".join(MESSAGE[:3])
WITHOUT_EVENT: dict[str, Play] = {
    "inside a long event": [head(SSE) + chunk(BEGUN + b"data: " + b"x" * MOST_HELD), Close()],
    "encoded": [head(SSE, "content-encoding: gzip") + chunk(gzip.compress(BEGUN)), Close()],
    "of a stated length": [b"HTTP/1.1 200 -\r\n%b\r\ncontent-length: 9999\r\n\r\n" % SSE.encode() + BEGUN, Close()],
    "after the provider's own error": [head(SSE) + chunk(BEGUN + OVERLOADED), Reset()],
}


@pytest.mark.parametrize("play", WITHOUT_EVENT.values(), ids=list(WITHOUT_EVENT))
async def test_streams_that_take_no_event_are_just_cut(play: Play) -> None:
    """Where an event of our own would be read as a part of something else, or as a second error, there is none."""
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY, "accept-encoding: gzip"))
        received = await direct.rest()
        assert received in play[0]  # type: ignore[operator]
        assert received
        assert b"HiveMind" not in received


async def test_a_part_of_an_event_waits_for_its_end() -> None:
    """It is passed on whole, and not at all where the stream breaks off before: then an error event follows."""
    gates = [asyncio.Event() for _ in range(2)]
    begun, cut = b"".join(MESSAGE[:3]), len(MESSAGE[3]) // 2
    play: Play = [head(SSE) + chunk(begun + MESSAGE[3][:cut]), gates[0], chunk(MESSAGE[3][cut:] + MESSAGE[4][:cut])]
    async with between([*play, gates[1], Close()]) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.chunk() == begun
        gates[0].set()
        assert await direct.chunk() == MESSAGE[3]
        gates[1].set()
        assert (await direct.chunk()).startswith(b'event: error\ndata: {"type":"error",')
        assert await direct.rest() == b""


@pytest.mark.parametrize("failing", [chunk(OVERLOADED) + END, Reset(), END], ids=["error", "reset", "end"])
async def test_a_failure_after_a_long_prelude(failing: bytes | Reset) -> None:
    """A stream that has no content for long is kept alive by the proxy, so that its failure is made good all the same;
    nothing of it has reached the client."""
    gate = asyncio.Event()
    play: Play = [head(SSE) + chunk(b": x\n\n" + MESSAGE_START), gate, failing]
    plays = between(play, [chunked(MESSAGE, SSE)], keepalive_after_s=0.01)
    async with plays as (proxy, upstream), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert (b"content-type", b"text/event-stream") in headers
        assert await direct.chunk() == PING
        gate.set()
        assert (await direct.body(headers)).replace(PING, b"") == b"".join(MESSAGE)
        assert len(upstream.requests) == 2


async def test_a_prelude_that_is_kept_alive_goes_on() -> None:
    """What was held comes before the content, as it was."""
    gate = asyncio.Event()
    play: Play = [head(SSE) + chunk(MESSAGE_START), gate, chunk(b"".join(MESSAGE[1:])), END]
    async with between(play, keepalive_after_s=0.01) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.chunk() == PING
        gate.set()
        assert (await direct.body(headers)).replace(PING, b"") == b"".join(MESSAGE)


DECIDED = {
    "anthropic": (MESSAGES, MESSAGE[:-1]),
    "chat": ("/v1/chat/completions", CHAT[:-1]),
    "marker": (MESSAGES, MESSAGE),
}


@pytest.mark.parametrize(("path", "events"), DECIDED.values(), ids=list(DECIDED))
@pytest.mark.parametrize("rest", ["end", "pings", "silence"])
async def test_a_decided_answer(
    path: str, events: tuple[bytes, ...], rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that says why it ended is whole without its last marker, also where its upstream doesn't end it."""
    monkeypatch.setattr("hivemind.proxy.streaming.DECIDED_S", 0.05)
    ending: dict[str, Play] = {"end": [END], "pings": [chunk(PING)] * 3 + [Hang()], "silence": [Hang()]}
    play: Play = [head(SSE) + chunk(b"".join(events)), *ending[rest]]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(path, STREAM_BODY))
        assert (await direct.body(headers)).replace(PING, b"") == b"".join(events)
        totals = (await proxy.until(lambda world: world.totals.finished == 1)).totals
        assert (totals.failed, totals.usage.output_tokens) == (0, 8 if path != MESSAGES else 7)


def test_what_ends_a_decided_stream() -> None:
    """Only time without output, while the upstream is waited for: another choice may go on, or the client may be
    slow."""
    state, patience = TapState(decided=True), MagicMock()
    stream = StreamProgress(MagicMock(), state, unmetered=False, reads=True, patience=patience)
    stream.look_at_end(1.0)
    stream.look_at_end(DECIDED_S)
    state.output_chars += 1
    stream.look_at_end(2 * DECIDED_S)
    stream.look_at_end(3 * DECIDED_S)
    stream.reads = False
    stream.look_at_end(4 * DECIDED_S)
    stream.reads, state.decided = True, False
    stream.look_at_end(4 * DECIDED_S)
    patience.reschedule.assert_not_called()
    state.error = Failure(FailureKind.SERVER_ERROR, True)
    stream.look_at_end(4 * DECIDED_S)
    patience.reschedule.assert_called_once()


@pytest.mark.parametrize("label", ["application/json", "application/json; charset=utf-8", "text/html"])
@pytest.mark.parametrize("first", [b"", b": hello\n\n"])
async def test_an_event_stream_under_another_label(label: str, first: bytes) -> None:
    """It flows, and is read as the stream that was asked for."""
    gate = asyncio.Event()
    begun = first + b"".join(CHAT[:2])
    play: Play = [head(f"content-type: {label}") + chunk(begun), gate, chunk(b"".join(CHAT[2:])), END]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request("/v1/chat/completions", STREAM_BODY))
        assert (b"content-type", label.encode()) in headers
        assert await direct.chunk() == begun
        gate.set()
        assert await direct.body(headers) == b"".join(CHAT[2:])
        usage = (await proxy.until(lambda world: world.totals.finished == 1)).totals.usage
        assert (usage.input_tokens, usage.output_tokens, usage.estimated_tokens) == (12, 8, 0)


async def test_a_failing_stream_under_a_label_of_json() -> None:
    """It is made good like any other."""
    play: Play = [chunked([CHAT[0], b'data: {"error":{"code":502}}\n\n'], JSON)]
    async with between(play, [chunked(CHAT, SSE)]) as (proxy, upstream), client() as http:
        answer = await http.post(proxy.url + "/v1/chat/completions", content=STREAM_BODY)
        assert (answer.content, len(upstream.requests)) == (b"".join(CHAT), 2)


BODY = ANSWER.partition(b"\r\n\r\n")[2]


async def test_blank_lines_before_a_whole_answer() -> None:
    """They are passed on as they come, because the client would give up without them."""
    gates = [asyncio.Event(), asyncio.Event()]
    play: Play = [head(JSON) + chunk(b"\n"), gates[0], chunk(b"\r\n \n"), gates[1], chunk(b"\n" + BODY), END]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert await direct.chunk() == b"\n"
        gates[0].set()
        assert await direct.chunk() == b"\r\n \n"
        gates[1].set()
        assert await direct.body(headers) == b"\n" + BODY
        totals = (await proxy.until(lambda world: world.totals.finished == 1)).totals
        assert (totals.usage.input_tokens, totals.usage.output_tokens) == (3, 4)


@pytest.mark.parametrize(
    "failing", [END, Reset(), chunk(b'{"error":{"code":503}}') + END], ids=["end", "reset", "error"]
)
async def test_a_failure_after_blank_lines(failing: bytes | Reset) -> None:
    """It is made good: another attempt's answer follows the blank lines."""
    gate = asyncio.Event()
    play: Play = [head(JSON) + chunk(b"\n"), gate, failing]
    async with between(play, [ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert await direct.chunk() == b"\n"
        gate.set()
        assert await direct.body(headers) == BODY
        assert len(upstream.requests) == 2


async def test_the_last_failure_after_blank_lines() -> None:
    """Its client was promised an answer, so it is cut off."""
    gate = asyncio.Event()
    play: Play = [head(JSON) + chunk(b"\n"), gate, chunk(b'{"error":{"code":503}}') + END]
    async with between(play, retry={"max_attempts": 1}) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert await direct.chunk() == b"\n"
        gate.set()
        assert await direct.rest() == b""
        assert (await proxy.until(lambda world: world.totals.failed == 1)).totals.finished == 0


async def test_a_whole_stream_that_is_shorter_than_its_length(caplog: pytest.LogCaptureFixture) -> None:
    """Its head promised the client more, so it can't be ended as a whole one."""
    promised = b"HTTP/1.1 200 -\r\n%b\r\ncontent-length: 9999\r\n\r\n" % SSE.encode()
    async with between([promised + b"".join(MESSAGE), Close()]) as (proxy, _), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.rest() == b"".join(MESSAGE)
        await proxy.until(lambda world: world.totals.failed == 1)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("ending", [Reset(), Close()])
async def test_a_stream_without_the_end_of_its_framing(ending: Reset | Close) -> None:
    """All of it came, to its own end marker: it is a whole answer, and ends as one."""
    async with between([head(SSE) + chunk(b"".join(MESSAGE)), ending]) as (proxy, _), client() as http:
        answer = await http.post(proxy.url + MESSAGES, content=STREAM_BODY)
        assert answer.content == b"".join(MESSAGE)
        assert (await proxy.until(lambda world: world.totals.finished == 1)).totals.failed == 0


async def test_a_long_whole_answer_is_cut_off_too() -> None:
    """A whole answer too long to be held goes out as it comes, and is cut off where the upstream's was."""
    body = b"x" * (3 << 20)
    play: Play = [
        b"HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n" + body,
        Close(),
    ]
    async with between(play) as (proxy, upstream), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert dict(headers)[b"content-length"] == b"4000000"
        assert await direct.rest() == body
        assert len(upstream.requests) == 1


async def test_slow_reader_holds_only_its_own_upstream_back() -> None:
    """When a client stops reading, the proxy stops reading for it; others aren't held up, and nothing is lost."""
    many = HELLO * 2000
    long: Play = [head(SSE) + chunk(MESSAGE_START + BLOCK_START), *[chunk(many)] * 60, chunk(MESSAGE[-1]), END]
    async with between(long, [ANSWER]) as (proxy, upstream), raw(proxy.port, limit=4096) as slow, client() as http:
        await slow.ask(request(MESSAGES, STREAM_BODY))
        (writer,) = upstream.open
        await until(writer.transport.get_write_buffer_size)
        answers = [await http.post(proxy.url + MESSAGES, content=PLAIN_BODY) for _ in range(20)]
        assert [answer.status_code for answer in answers] == [200] * 20
        assert writer.transport.get_write_buffer_size() > 0
        size = 0
        while data := await slow.chunk():
            size, last = size + len(data), data
        assert size == len(MESSAGE_START + BLOCK_START + MESSAGE[-1]) + 60 * len(many)
        assert last.endswith(MESSAGE[-1])


def test_a_long_stream_begins_once() -> None:
    """However long a stream goes on after its first content, that content is told of once, when it came."""
    told: list[FirstContent] = []

    async def scene() -> None:
        clock = asyncio.get_running_loop().time
        config = MockConfig(latency=LatencyConfig(1.0, 0.0, token_s=0.5), reply=ReplyConfig(tokens=80, spread=0))
        upstream = InProcessTransport(MockProvider(config, clock=clock, wall=clock, sleep=asyncio.sleep))
        proxy = Proxy(Settings(upstream=("mock=http://mock.invalid",)), transports={"mock": upstream}, wall=clock)
        await proxy.start()
        proxy.engine.hooks.watched[FirstContent] = told.append
        transport = InProcessTransport(proxy.app)
        agent = Agent(AgentConfig("alice", 1, stream=True), transport, "http://hivemind.localhost/agent/alice")
        assert (await agent.run()).alive
        assert clock() > 30
        for closing in (transport, proxy, upstream):
            await closing.aclose()

    run_virtual(scene())
    assert [event.ttft_s for event in told] == [pytest.approx(1.0, abs=0.1)]
