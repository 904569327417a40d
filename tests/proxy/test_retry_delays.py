"""When a failed request goes out again, in virtual time: equation 4, or the provider's own word."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from hivemind.host.proxy import Proxy
from hivemind.lab.simulate.clock import run_virtual
from hivemind.proxy.asgi import read_body
from hivemind.settings.checks import checked
from hivemind_mock.provider.answer import DROP
from hivemind_mock.provider.inprocess import InProcessTransport

Answer = Callable[[Scope, Send], Awaitable[None]]
EPOCH = 1_800_000_000.0
BODY = b'{"model":"m","max_tokens":5,"messages":[]}'


def says(status: int, body: dict[str, object] | None = None, **headers: str) -> Answer:
    """A whole answer; underscores in header names stand for hyphens."""
    data = json.dumps(body or {}).encode()
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def answer(_: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": data})

    return answer


async def resets(scope: Scope, _: Send) -> None:
    """The connection is reset before the answer."""
    scope["extensions"][DROP](True)


OK = says(200, {"usage": {"input_tokens": 1, "output_tokens": 1}})


class Stage:
    """An upstream that gives one answer after another, the last again and again, and notes when it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.times: list[float] = []
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        self.times.append(asyncio.get_running_loop().time())
        await self._answers[min(len(self.times), len(self._answers)) - 1](scope, send)


Work = Callable[[httpx.AsyncClient, Proxy], Coroutine[Any, Any, None]]


def play(stage: Stage, work: Work, **values: Any) -> None:
    """Do the work with a client of a proxy before this upstream."""

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        free = {"rpm": 0, "tpm": 0, "max_concurrency": 10}
        settings = checked({"upstream": ("mock=http://mock.invalid",), **free, **values})
        upstream = InProcessTransport(stage)
        proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(3), wall=lambda: EPOCH + clock())
        await proxy.start()
        transport = InProcessTransport(proxy.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None) as web:
            await work(web, proxy)
        await upstream.aclose()
        await proxy.aclose()

    run_virtual(main())


async def _one(web: httpx.AsyncClient, _: Proxy) -> None:
    assert (await web.post("/v1/messages", content=BODY)).status_code == 200


def delays(*answers: Answer, **values: Any) -> list[float]:
    """Between the attempts of one request, in seconds."""
    stage = Stage(*answers, OK)
    play(stage, _one, **values)
    return [after - before for before, after in pairwise(stage.times)]


@pytest.mark.parametrize("failure", [says(502), says(529), says(500), says(429), says(503, retry_after="1"), resets])
def test_equation_4(failure: Answer) -> None:
    """Without a word from the provider, the n-th delay is d_base * 2^n plus jitter of at most d_base, up to d_max; so
    too where a server that fails says at each attempt to come in a second."""
    for exponent, delay in enumerate(delays(*[failure] * 8)):
        assert min(30.0, 2.0**exponent) <= delay <= min(30.0, 2.0**exponent + 1.0)


GOOGLE_BUSY = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
    }
}
WORDED = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Please retry in 12.5s."}}
ASKED: dict[str, tuple[Answer, float]] = {
    "Retry-After in seconds": (says(429, retry_after="17"), 17.0),
    "Retry-After as a date": (says(429, retry_after="Fri, 15 Jan 2027 08:00:21 GMT"), 21.0),
    "Retry-After of 529": (says(529, retry_after="3"), 3.0),
    "Retry-After of 503": (says(503, retry_after="45"), 45.0),
    "retry-after-ms": (says(429, retry_after="17", retry_after_ms="2500"), 2.5),
    "Google's RetryInfo": (says(429, dict(GOOGLE_BUSY)), 34.5),
    "in words": (says(429, dict(WORDED)), 12.5),
    "longer than d_max": (says(429, retry_after="120"), 120.0),
}


@pytest.mark.parametrize(("answer", "delay"), ASKED.values(), ids=list(ASKED))
def test_the_provider_s_word(answer: Answer, delay: float) -> None:
    """A delay that the provider names overrides equation 4."""
    (waited,) = delays(answer)
    assert waited == pytest.approx(delay, abs=0.2)


def test_patience_of_the_client() -> None:
    """A client that is known to give up is refused before it does, with a delay that it accepts."""

    async def work(web: httpx.AsyncClient, proxy: Proxy) -> None:
        headers = {"user-agent": "claude-cli/2.1 (external, sdk-cli)"}
        answer = await web.post("/v1/messages", content=BODY, headers=headers)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert asyncio.get_running_loop().time() < 300

    async def never(_: Scope, __: Send) -> None:
        await asyncio.sleep(1e6)

    async def main(web: httpx.AsyncClient, proxy: Proxy) -> None:
        holding = asyncio.create_task(web.post("/v1/messages", content=BODY))
        await asyncio.sleep(1)
        await work(web, proxy)
        holding.cancel()
        await asyncio.wait([holding])

    play(Stage(never), main, max_concurrency=1)


@pytest.mark.parametrize(("cooldown_s", "told"), [(20, "26"), (90, "90"), (600, "120")])
def test_open_circuit_refuses_where_it_is_told_to(cooldown_s: float, told: str) -> None:
    """With `circuit.when_open = "refuse"`, an open circuit answers at once, in the provider's shape, and with the time
    until it is tried again, but no more than the client obeys, and no less than makes its tries last."""
    stage = Stage(says(502))

    async def work(web: httpx.AsyncClient, _: Proxy) -> None:
        answers = [await web.post("/v1/messages", content=BODY, headers={"user-agent": "codex"}) for _ in range(8)]
        refused = [a for a in answers if a.status_code == 503]
        assert len(refused) >= 3
        assert {(a.headers["x-should-retry"], a.headers["retry-after"]) for a in refused} == {("true", told)}
        assert refused[0].json()["error"]["type"] == "api_error"

    play(stage, work, retry={"max_attempts": 1}, circuit={"window": 4, "when_open": "refuse", "cooldown_s": cooldown_s})


YEAR_9999 = "9999-12-31T23:59:59Z"
SPENT: dict[str, dict[str, str]] = {
    "in the year 9999": {"anthropic_ratelimit_requests_reset": YEAR_9999},
    "in a day": {"anthropic_ratelimit_requests_reset": "2027-01-16T08:00:00Z"},
    "in seconds, far too many": {"anthropic_ratelimit_requests_reset": "1e15"},
    "by a clock five minutes ahead of ours": {"anthropic_ratelimit_requests_reset": "2027-01-15T08:05:30Z"},
    "by a clock five minutes behind ours": {"anthropic_ratelimit_requests_reset": "2027-01-15T07:55:30Z"},
    "and a Date of the year 9999": {
        "anthropic_ratelimit_requests_reset": "2027-01-15T08:00:30Z",
        "date": "Fri, 31 Dec 9999 23:59:59 GMT",
    },
    "and a Date of 1970": {
        "anthropic_ratelimit_requests_reset": "2027-01-15T08:00:30Z",
        "date": "Thu, 01 Jan 1970 00:00:00 GMT",
    },
    "as 100000h": {"x_ratelimit_reset_requests": "100000h"},
}


@pytest.mark.parametrize("stated", SPENT.values(), ids=list(SPENT))
def test_no_reset_holds_the_next_request_for_more_than_a_minute(stated: dict[str, str]) -> None:
    """With nothing left until then by the reply's headers, the next request is answered within a minute."""
    prefix = "x_ratelimit_{}_requests" if "x_ratelimit_reset_requests" in stated else "anthropic_ratelimit_requests_{}"
    nothing_left = {prefix.format("limit"): "100", prefix.format("remaining"): "0"}
    stage = Stage(says(200, {"usage": {"input_tokens": 1, "output_tokens": 1}}, **nothing_left, **stated))

    async def work(web: httpx.AsyncClient, proxy: Proxy) -> None:
        for _ in range(3):
            await _one(web, proxy)

    play(stage, work)
    assert all(after - before <= 60 for before, after in pairwise(stage.times))


@pytest.mark.parametrize(
    "delay", ["1e15", "99999999", "9" * 64, "1e400", "inf", "nan", "-1", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
def test_no_retry_after_freezes_the_lane(delay: str) -> None:
    """What is longer than a rate limit's pause goes to the agent, what is no number isn't one; the lane goes on."""
    stage = Stage(says(429, retry_after=delay), OK)

    async def work(web: httpx.AsyncClient, proxy: Proxy) -> None:
        assert (await web.post("/v1/messages", content=BODY)).status_code in (200, 429)
        await _one(web, proxy)
        assert asyncio.get_running_loop().time() - stage.times[0] < 5
        assert [lane.state.rate_limited_for_s for lane in proxy.snapshot().lanes] == [0.0]

    play(stage, work)
