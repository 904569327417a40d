"""Requests that always get a 500, beside good ones, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from proxy.kit import Running, client, proxying
from proxy.wire import (
    CHAT,
    GEMINI,
    MESSAGE,
    MESSAGE_START,
    NDJSON,
    OLLAMA,
    RESPONSE,
    SSE,
    chunked,
    data,
    event,
    head,
    http,
    line,
)
from upstream.scripted import Handler, Scripted, serving
from upstream.scripted import answering as replying

from hivemind.scheduler.config import RetryConfig

ATTEMPTS = RetryConfig().max_attempts
WORDS = "The model produced output that does not match the expected peg-native format"
LOST = "error sending request for url (http://127.0.0.1:8000/)"
ANEW = "[address=127.0.0.1:22904, pid=12664] Model tiny-rep0 is in stopping state"
RPC = "could not load model: rpc error: code = Unavailable desc = error reading from server: EOF"
BARE = "Internal server error"
CODES = "Error code: 500", "Error from provider(p,m: 500): Internal Server Error", "terminatedTypeError: terminated"
ERROR: dict[str, object] = {"code": 500, "message": WORDS, "type": "server_error"}
CHAT_PATH = "/v1/chat/completions"
DIALECTS = {
    CHAT_PATH: (chunked(CHAT, SSE), chunked([CHAT[0], data(error=ERROR)], SSE)),
    "/v1/messages": (
        chunked(MESSAGE, SSE),
        chunked([MESSAGE_START, event("error", error={"type": "api_error", "message": WORDS})], SSE),
    ),
    "/v1/responses": (chunked(RESPONSE, SSE), chunked([RESPONSE[0], event("error", error=ERROR)], SSE)),
    "/v1beta/models/m:streamGenerateContent?alt=sse": (chunked(GEMINI, SSE), chunked([data(error=ERROR)], SSE)),
    "/api/chat": (chunked(OLLAMA, NDJSON), chunked([line(error=WORDS)], NDJSON)),
}
"""By path: a good stream, and one that fails before its content."""
BEGUN = head(SSE)  # of a stream that is cut off before its first byte


def answering(path: str, *, streamed: bool = True, failing: bytes = b"") -> Handler:
    """Answer requests with `bad` in them by a 500, or as `failing`, and all others well."""
    good, event_first = DIALECTS[path]
    failing = failing or (event_first if streamed else http(500, {"error": ERROR}))

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            bad = b"bad" in await script.request(reader)
            writer.write(failing if bad else good)
            await writer.drain()
            if bad and failing == BEGUN:
                return

    return handle


def body(text: str) -> bytes:
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    return json.dumps(asked).encode()


@contextlib.asynccontextmanager
async def before(path: str, name: str = "lab", **how: Any) -> AsyncIterator[tuple[Running, Scripted]]:
    settings: dict[str, Any] = {"max_concurrency": 8, "retry": {"base_s": 0.02, "max_s": 1.0}}
    async with serving(answering(path, **how)) as upstream, proxying(f"{name}={upstream.url}", **settings) as proxy:
        yield proxy, upstream


async def asked(answers: Sequence[bytes], times: int) -> tuple[list[int], int]:
    """Ask a server at home that answers so. Return the statuses, and how many requests it got."""
    async with (
        serving(replying(*answers)) as upstream,
        proxying(f"local={upstream.url}", retry={"base_s": 0.001, "max_s": 0.002}, circuit={"window": 100}) as proxy,
        client() as web,
    ):
        statuses = [(await web.post(proxy.url + CHAT_PATH, content=body("x"))).status_code for _ in range(times)]
        return statuses, len(upstream.requests)


async def beside_good_ones(asking: Sequence[asyncio.Task[Any]], web: httpx.AsyncClient, url: str) -> None:
    """Send one good request after another until these have ended."""
    while not all(task.done() for task in asking):
        assert (await web.post(url, content=body("good"))).status_code == 200


@pytest.mark.parametrize("streamed", [False, True], ids=["status", "event"])
@pytest.mark.parametrize("path", DIALECTS)
async def test_told_at_the_third_attempt(path: str, streamed: bool) -> None:
    """In every dialect, as a status or as the first event of a stream: six that always fail are told in the provider's
    words after three attempts, while good ones never wait, and the circuit never opens."""
    async with before(path, streamed=streamed) as (proxy, upstream), client() as web:
        url = proxy.url + path
        asking = [asyncio.create_task(web.post(url, content=body(f"bad {number}"))) for number in range(6)]
        await beside_good_ones(asking, web, url)
        answers = [await task for task in asking]
        assert all(WORDS in answer.text for answer in answers)
        assert {answer.headers.get("retry-after") for answer in answers} == {None}
        if path != "/api/chat" or not streamed:  # Ollama's SDK reads the error of a stream, whose status is 200
            told = {(answer.status_code, answer.headers["x-should-retry"]) for answer in answers}
            assert told == {(500, "false")}
        sent = sum(b"bad" in each for each in upstream.requests)
        # Each one more for every time that no good one was answered between its attempts, as on a busy machine.
        assert 18 <= sent < 6 * ATTEMPTS
        lane = proxy.snapshot().lanes[0].state
        assert (lane.circuit, lane.circuit_errors, lane.level) == ("closed", 0, 8)
        again = await web.post(url, content=body("bad 1"))
        assert WORDS in again.text
        assert sum(b"bad" in each for each in upstream.requests) == sent + 1, (
            "sent again by its client, it is asked once"
        )


async def test_a_gateways_500_for_a_400() -> None:
    """Its client is told at once that no further attempt helps, which it would make after a 500."""
    wrong = http(500, {"error": {"message": "Error code: 400 - This model's maximum context length is 9 tokens."}})
    async with before(CHAT_PATH, failing=wrong) as (proxy, upstream), client() as web:
        answer = await web.post(proxy.url + CHAT_PATH, content=body("bad"))
        assert (answer.status_code, answer.headers.get("x-should-retry"), len(upstream.requests)) == (500, "false", 1)


@pytest.mark.parametrize("failing", [BEGUN, chunked([], SSE)], ids=["cut", "empty"])
async def test_an_answer_without_a_byte(failing: bytes) -> None:
    """A stream that begins with 200 and holds nothing says as little as a 500: beside good ones it is the request's
    own fault, and the level that it lowered is regained."""
    async with before(CHAT_PATH, "local", failing=failing) as (proxy, upstream), client() as web:
        asking = asyncio.create_task(web.post(proxy.url + CHAT_PATH, content=body("bad")))
        await beside_good_ones([asking], web, proxy.url + CHAT_PATH)
        assert (asking.result().status_code, "the answer was empty" in asking.result().text) == (502, True)
        assert sum(b"bad" in each for each in upstream.requests) < ATTEMPTS
        lane = proxy.snapshot().lanes[0].state
        assert (lane.circuit, lane.circuit_errors, lane.level) == ("closed", 0, 8)


@pytest.mark.parametrize("streamed", [False, True], ids=["status", "event"])
@pytest.mark.parametrize("path", DIALECTS)
async def test_alone_at_a_server_at_home(path: str, streamed: bool) -> None:
    """Six without any good one beside them are told as soon, and the circuit never opens."""
    async with before(path, streamed=streamed, name="llamacpp") as (proxy, upstream), client() as web:
        asking = [web.post(proxy.url + path, content=body(f"bad {number}")) for number in range(6)]
        answers = await asyncio.gather(*asking)
        assert all(WORDS in answer.text for answer in answers)
        assert len(upstream.requests) == 18
        lane = proxy.snapshot().lanes[0].state
        assert (lane.circuit, lane.circuit_errors) == ("closed", 0)


@pytest.mark.parametrize(
    ("words", "sent"),
    [*((each, 10) for each in ("litellm.InternalServerError", LOST, ANEW, RPC, BARE, *CODES)), (WORDS, 3)],
)
async def test_a_gateway_at_home_tells_of_its_provider(words: str, sent: int) -> None:
    """What a gateway on this machine passes on may be an outage, so it is tried as long as anywhere."""
    assert await asked([http(500, {"error": {"message": words}})], 1) == ([500], sent)


@pytest.mark.parametrize(("status", "kind"), [(424, "generation"), (424, "Backend"), (507, "out_of_memory")])
async def test_a_computation_that_failed(status: int, kind: str) -> None:
    """TGI, TEI and KoboldAI say so in place of 500: it is tried again, and told if it is the request's own fault."""
    failing = http(status, {"error": "CUDA error", "error_type": kind})
    assert (await asked([failing, GOOD], 1), await asked([failing], 1)) == (([200], 2), ([status], 3))


@pytest.mark.parametrize("bare", [http(500, b"Internal Server Error"), chunked([], SSE)], ids=["500", "stream"])
async def test_an_outage_without_words(bare: bytes) -> None:
    """MLflow's gateway says nothing else while its server is down."""
    assert await asked([bare] * (ATTEMPTS - 1) + [GOOD], 1) == ([200], ATTEMPTS)


GOOD, GONE, TEXT = chunked(CHAT, SSE), http(404), http(404, b"404 page not found", "content-type: text/plain")
UNKNOWN = http(404, {"error": {"message": "no such model"}})
NONE = http(404, {"error": {"code": 404, "message": "Model not found or no running instances available"}})


@pytest.mark.parametrize(
    ("answers", "statuses"),
    [([GOOD, GONE, TEXT, NONE, GOOD], [200, 200]), ([NONE, GOOD], [404, 200]), ([GOOD, UNKNOWN, GOOD], [200, 404])],
)
async def test_a_path_that_answered_before(answers: list[bytes], statuses: list[int]) -> None:
    """A gateway says 404 without an API's words, or that no server runs (GPUStack 2.2.3): the path is back soon."""
    assert (await asked(answers, 2))[0] == statuses


@pytest.mark.parametrize(("agent", "status"), [("OpenAI/Python 3.52.0", 500), ("opencode/1.18.33", 400)])
async def test_clients_end_there(agent: str, status: int) -> None:
    """A client that obeys no hint gets the one status at which it ends."""
    async with before(CHAT_PATH, streamed=True) as (proxy, _), client() as web:
        url = proxy.url + CHAT_PATH
        asking = asyncio.create_task(web.post(url, content=body("bad"), headers={"user-agent": agent}))
        await beside_good_ones([asking], web, url)
        assert (asking.result().status_code, asking.result().json()) == (status, {"error": ERROR})
