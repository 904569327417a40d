"""The mock provider: order of checks, what is charged, limits, and every fault as a client sees it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from hivemind.lab.fit.limiter import FixedWindow, SlidingWindow, TokenBucket
from hivemind.providers.known import providers
from hivemind.providers.table import Meaning
from hivemind_mock.agents.agent import read_answer
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.faults import Dice, Fault, in_spell
from hivemind_mock.provider.limits import RateLimiter, Reading

MESSAGES = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "x" * 240}]}
QUICK = LatencyConfig(base_s=0.1, jitter_s=0.0)


async def ask(client: httpx.AsyncClient, **extra: object) -> httpx.Response:
    return await client.post("/v1/messages", json={**MESSAGES, **extra})


def read(body: bytes, stream: bool) -> tuple[int, str]:
    media = "text/event-stream" if stream else "application/json"
    return read_answer("/v1/messages", b'{"stream":true}' if stream else b"{}", media, body)


def test_a_window_refuses_without_charging(play: Any) -> None:
    """Refused requests take no place in the window, however many there are, and say when to come back."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        assert [(await ask(client)).status_code for _ in range(4)] == [200, 200, 429, 429]
        refused = await ask(client)
        assert refused.headers["retry-after"] == "60"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        await asyncio.sleep(60)
        assert (await ask(client)).status_code == 200
        assert (mock.stats.arrived, mock.stats.charged, mock.stats.rate_limited) == (6, 3, 3)

    play(MockConfig(limits=LimitConfig(rpm=2), latency=QUICK), scene)


def test_too_many_at_once_are_overloaded_and_not_charged(play: Any) -> None:
    """Above the concurrency limit the answer is 529, and the window stays as it was."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        replies = await asyncio.gather(*(ask(client) for _ in range(5)))
        assert sorted(reply.status_code for reply in replies) == [200, 200, 200, 529, 529]
        assert (mock.stats.charged, mock.stats.over_capacity, mock.stats.peak_active) == (3, 2, 3)
        assert mock.stats.active == 0

    play(MockConfig(limits=LimitConfig(rpm=100, concurrency=3), latency=QUICK), scene)


@pytest.mark.parametrize(("fault", "status"), [("bad_gateway", 502), ("reset", None)])
def test_injected_failures_are_charged(play: Any, fault: str, status: int | None) -> None:
    """502s and resets use up the window as answers do."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        if status is None:
            with pytest.raises(httpx.ReadError):
                await ask(client)
        else:
            assert (await ask(client)).status_code == status
        assert (await ask(client)).status_code == 429
        assert (mock.stats.charged, mock.stats.faults[Fault(fault)]) == (1, 1)

    play(MockConfig(limits=LimitConfig(rpm=1), latency=QUICK, faults=FaultConfig(**{fault: 1.0})), scene)


@pytest.mark.parametrize(("fault", "status"), [("overloaded", 529), ("rate_limited", 429), ("quota", 429)])
def test_injected_refusals_are_not_charged(play: Any, fault: str, status: int) -> None:
    """A provider that did no work charges nothing."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        reply = await ask(client)
        assert (reply.status_code, mock.stats.charged, mock.stats.faults[Fault(fault)]) == (status, 0, 1)
        return reply

    reply = play(MockConfig(faults=FaultConfig(**{fault: 1.0})), scene)
    assert ("retry-after" in reply.headers) == (fault == "rate_limited")


@pytest.mark.parametrize(
    ("fault", "meaning"), [("overloaded", "FULL"), ("rate_limited", "THROTTLED"), ("quota", "USED_UP")]
)
def test_refusals_in_a_providers_recorded_words(play: Any, fault: str, meaning: str) -> None:
    """The bytes and the status of its row, with no headers but its own."""
    (moonshot,) = (each for each in providers() if each.name == "moonshot")
    row = next(row for row in moonshot.refusals if row.meaning is Meaning[meaning])

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        reply = await ask(client)
        assert (reply.status_code, reply.text) == (row.status, row.example)
        assert "retry-after" not in reply.headers

    play(MockConfig(words="moonshot", faults=FaultConfig(**{fault: 1.0})), scene)


def test_quota_is_final_in_the_providers_words(play: Any) -> None:
    """Nothing in a quota refusal invites to try again."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        assert (await ask(client)).json()["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}
        chat = await client.post("/v1/chat/completions", json=MESSAGES)
        assert chat.json()["error"]["code"] == "insufficient_quota"
        google = await client.post("/v1beta/models/g:generateContent", json={})
        assert "PerDay" in google.json()["error"]["details"][0]["violations"][0]["quotaId"]

    play(MockConfig(faults=FaultConfig(quota=1.0)), scene)


async def stream_until_error(client: httpx.AsyncClient) -> tuple[bytes, Exception | None]:
    got = b""
    try:
        async with client.stream("POST", "/v1/messages", json={**MESSAGES, "stream": True}) as reply:
            assert reply.status_code == 200
            async for chunk in reply.aiter_bytes():
                got += chunk
    except httpx.TransportError as error:
        return got, error
    return got, None


@pytest.mark.parametrize(
    ("fault", "error", "content", "wrong"),
    [
        ("reset_early", httpx.ReadError, False, "truncated"),
        ("reset_mid", httpx.ReadError, True, "truncated"),
        ("truncated", type(None), True, "truncated"),
        ("error_early", type(None), False, "error event: 529 overloaded_error: Overloaded"),
        ("error_mid", type(None), True, "error event: 529 overloaded_error: Overloaded"),
    ],
)
def test_streams_break_where_they_should(play: Any, fault: str, error: type, content: bool, wrong: str) -> None:
    """Before or after the first content, by reset, by an error event or by just ending."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> tuple[bytes, Exception | None]:
        result = await stream_until_error(client)
        assert mock.stats.faults[Fault(fault)] == 1
        return result

    body, raised = play(MockConfig(seed=5, faults=FaultConfig(**{fault: 1.0})), scene)
    assert isinstance(raised, error)
    assert b"message_start" in body
    assert (b"content_block_delta" in body) == content
    assert b"message_stop" not in body
    assert read(body, True)[1] == wrong


@pytest.mark.parametrize(
    ("fault", "error"),
    [("reset_early", httpx.ReadError), ("reset_mid", httpx.ReadError), ("truncated", httpx.RemoteProtocolError)],
)
def test_whole_answers_break_half_way(play: Any, fault: str, error: type[Exception]) -> None:
    """A connection that ends inside a body with a stated length is noticed."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        with pytest.raises(error):
            await ask(client)

    play(MockConfig(faults=FaultConfig(**{fault: 1.0})), scene)


def test_a_client_that_leaves_frees_its_place(play: Any) -> None:
    """The concurrency limit counts only those who still wait."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        waiting = asyncio.ensure_future(ask(client))
        await asyncio.sleep(0.01)
        assert mock.stats.active == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await ask(client)).status_code == 200

    play(MockConfig(limits=LimitConfig(concurrency=1)), scene)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_answers_are_compressed_for_those_who_can_read_it(play: Any, encoding: str, stream: bool) -> None:
    """The encoding is used when the client accepts it, decodes to the plain answer, and streams piece by piece."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        headers = {"accept-encoding": f"identity, {encoding};q=0.5"}
        plain = await client.post("/v1/messages", json=MESSAGES, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        return await client.post("/v1/messages", json={**MESSAGES, "stream": stream}, headers=headers)

    reply = play(MockConfig(reply=ReplyConfig(encoding=encoding)), scene)  # type: ignore[arg-type]
    assert reply.headers["content-encoding"] == encoding
    tokens, wrong = read(reply.content, stream)
    assert (tokens >= 160, wrong) == (True, "")


def test_bad_requests_are_told_so(play: Any) -> None:
    """An unknown path is 404, a body that isn't JSON 400; neither counts as a request for tokens."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/nothing", json={})).status_code == 404
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.post("/v1/messages", content=b"{")).status_code == 400
        deep = b"[" * 9000 + b"]" * 9000
        assert (await client.post("/v1/messages", content=b'{"a": %b}' % deep)).status_code == 400
        gzipped = {"content-encoding": "gzip"}
        assert (await client.post("/v1/messages", content=b"plain", headers=gzipped)).status_code == 400
        assert mock.stats.arrived == 0

    play(MockConfig(), scene)


def test_only_the_chosen_formats_are_served(play: Any) -> None:
    """A provider that speaks one format doesn't know the paths of the others; only an Ollama states its version."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> list[int]:
        chat, version = await client.post("/v1/chat/completions", json=MESSAGES), await client.get("/api/version")
        return [(await ask(client)).status_code, chat.status_code, version.status_code]

    assert play(MockConfig(formats=("openai_chat",)), scene) == [404, 200, 404]
    assert play(MockConfig(formats=("ollama",)), scene) == [404, 404, 200]
    assert play(MockConfig(), scene) == [200, 200, 404]


def test_a_fixed_window_starts_at_its_first_request() -> None:
    """Sixty seconds count from the first request, not from the minute."""
    window = FixedWindow(limit=2, span_s=60)
    window.take(100, 1)
    window.take(130, 1)
    assert window.wait_s(130, 1) == 30
    assert window.wait_s(160, 1) == 0


def test_a_bucket_refills_steadily() -> None:
    """One request comes back every second at sixty a minute."""
    bucket = TokenBucket(limit=60, span_s=60)
    bucket.take(0, 60)
    assert bucket.wait_s(0, 1) == pytest.approx(1)
    assert bucket.wait_s(1, 1) == 0
    assert bucket.reading(30) == (30, 30.0)


def test_a_sliding_window_holds_no_more_than_its_limit() -> None:
    """What was used in the last sixty seconds counts, whenever they began, and comes back as it was used."""
    window = SlidingWindow(limit=3, span_s=60)
    for at in (0, 20, 50):
        window.take(at, 1)
    assert window.wait_s(59, 1) == 1
    assert window.wait_s(59, 2) == 21
    assert window.reading(59) == (0, 51)
    assert window.wait_s(60, 1) == 0
    window.take(60, 1)
    assert window.wait_s(60, 1) == 20
    assert window.wait_s(60, 9) == 60
    assert window.reading(120) == (3, 0.0)


def test_limits_that_are_not_stated() -> None:
    """They hold all the same."""
    limiter = RateLimiter(LimitConfig(rpm=1, window="sliding", stated=False))
    limiter.charge(0, 1, 1)
    assert (limiter.check(1, 1, 1), limiter.readings(1)) == (("requests", 59), [])


def test_every_allowance_must_fit() -> None:
    """The tightest allowance decides, and the refusal names it."""
    limiter = RateLimiter(LimitConfig(rpm=10, tpm=100))
    limiter.charge(0, input_tokens=90, max_tokens=0)
    refusal = limiter.check(20, input_tokens=20, max_tokens=0)
    assert refusal is not None
    assert refusal == ("tokens", 40)
    assert limiter.check(20, input_tokens=10, max_tokens=0) is None


def test_output_is_charged_when_it_is_known() -> None:
    """Produced tokens fill the token and output allowances at the end of a request."""
    limiter = RateLimiter(LimitConfig(tpm=1_000, otpm=500))
    limiter.charge(0, input_tokens=60, max_tokens=4_000)
    limiter.settle(1, output_tokens=150)
    assert limiter.readings(1) == [Reading("tokens", 1_000, 790, 59), Reading("output", 500, 350, 59)]


def test_max_tokens_can_be_reserved_for_good() -> None:
    """OpenAI's way: the larger of estimate and `max_tokens` is charged, and the real usage changes nothing."""
    limiter = RateLimiter(LimitConfig(tpm=1_000, reserve_max_tokens=True))
    limiter.charge(0, input_tokens=60, max_tokens=400)
    limiter.settle(1, output_tokens=10)
    assert limiter.readings(1) == [Reading("tokens", 1_000, 600, 59)]


def test_the_same_seed_repeats_every_fate() -> None:
    """Two dice of one seed agree throughout; another seed disagrees."""
    faults = FaultConfig(bad_gateway=0.2, reset=0.1)

    def fates(seed: int) -> list[object]:
        dice = Dice(MockConfig(seed=seed, faults=faults))
        return [dice.draw(stream=number % 2 == 0) for number in range(50)]

    assert fates(7) == fates(7)
    assert fates(7) != fates(8)


def test_rates_are_met() -> None:
    """Each fault comes about as often as it was asked for."""
    dice = Dice(MockConfig(seed=1, faults=FaultConfig(bad_gateway=0.10, reset=0.05)))
    seen = Counter(dice.draw(stream=False).fault for _ in range(4_000))
    assert 320 < seen[Fault.BAD_GATEWAY] < 480
    assert 140 < seen[Fault.RESET] < 260
    assert set(seen) == {None, Fault.BAD_GATEWAY, Fault.RESET}


def test_whole_answers_escape_event_faults() -> None:
    """An error event needs a stream to be in."""
    dice = Dice(MockConfig(faults=FaultConfig(error_mid=1.0)))
    assert dice.draw(stream=False).fault is None
    assert dice.draw(stream=True).fault is Fault.ERROR_MID


def test_spells_come_and_go() -> None:
    """The first spell begins after one interval and lasts as long as it should."""
    config = FaultConfig(spell_every_s=60, spell_s=5)
    assert [in_spell(config, age) for age in (0, 4, 59, 60, 64.9, 65, 121)] == [
        False, False, False, True, True, False, True,
    ]  # fmt: skip
    assert not in_spell(FaultConfig(), 100)
