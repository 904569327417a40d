"""One request in detail: its heads and its story, without any credential."""

from __future__ import annotations

import pytest
from proxy.kit import Play, between, client, raw, request
from proxy.wire import ANSWER, PLAIN_BODY, anthropic_error, http

from hivemind.host.proxy import Proxy
from hivemind.world.snapshot import RequestDetail

KEY = "sk-ant-api03-THISISSECRET0123456789"
PLAIN = "nothing-that-looks-like-a-key-SECRET"
"""A credential of a gateway that has its own idea of what one looks like."""
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2lnbmF0dXJlLVNFQ1JFVA"
TOKEN = "hm-token-ALSOSECRET"
WAYS = (
    f"authorization: Bearer {PLAIN}",
    f"authorization: Basic {PLAIN}",
    f"Authorization: {PLAIN}",
    f"proxy-authorization: Bearer {PLAIN}",
    f"x-api-key: {PLAIN}",
    f"X-Api-Key: {KEY}",
    f"api-key: {PLAIN}",
    f"x-goog-api-key: {PLAIN}",
    f"cookie: theme=dark; session={PLAIN}",
    f"x-hivemind-token: {PLAIN}",
    f"x-amz-security-token: {PLAIN}",
    f"cf-access-client-secret: {PLAIN}",
    f"cf-access-jwt-assertion: {PLAIN}",
    f"authentication: {PLAIN}",
    f"x-passphrase: {PLAIN}",
    f"x-jwt: {PLAIN}",
    f"x-forwarded-pat: {PLAIN}",
    f"x-note: my key is {KEY}",
    f"x-note: bearer {PLAIN}",
)
TARGETS = (
    f"/v1/messages?key={PLAIN}",
    f"/v1/messages?a=1&k%65y={PLAIN}&b=2",
    f"/v1/messages?access_token={PLAIN}",
    f"/v1/messages?q={KEY}",
    f"/v1/messages?client_assertion={PLAIN}&jwt={PLAIN}",
    f"/token/{PLAIN}/v1/messages",
    f"/agent/ann/token/{PLAIN}/v1/messages?beta=true",
)


def newest(proxy: Proxy) -> RequestDetail:
    """Of the request that came last."""
    detail = proxy.detail(proxy.engine.requests(0).changed[-1].ticket)
    assert detail is not None
    return detail


async def test_the_heads_of_a_request_and_of_its_answer() -> None:
    """As they came, in their order; the path with all that stood in it."""
    answer = http(200, ANSWER.partition(b"\r\n\r\n")[2], "content-type: application/json", "x-up: 1", "x-up: 2")
    async with between([answer]) as (proxy, _), raw(proxy.port) as web:
        await web.send(request("/agent/ann/v1/messages?beta=true", PLAIN_BODY, "x-one: 1", "user-agent: me"))
        status, headers = await web.head()
        await web.body(headers)
        detail = newest(proxy.proxy)
        assert status == 200
        assert (detail.method, detail.path) == ("POST", "/agent/ann/v1/messages?beta=true")
        assert detail.request_headers[:3] == (("host", "localhost"), ("x-one", "1"), ("user-agent", "me"))
        assert [value for name, value in detail.response_headers if name == "x-up"] == ["1", "2"]
        assert (detail.view.agent, detail.view.state) == ("ann", "answered")
        assert [decision.text for decision in detail.decisions][1:2] == ["granted at once, attempt 1"]


@pytest.mark.parametrize("way", WAYS)
async def test_no_credential_in_a_header_is_shown(way: str) -> None:
    """Whatever the header is called and wherever else the same value stands; what isn't one stays."""
    name = way.partition(":")[0].lower()
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as web:
        secret = KEY if KEY in way else PLAIN
        await web.send(request("/v1/messages", PLAIN_BODY, way, f"x-echo: {secret}", "x-plain: stays"))
        await web.body((await web.head())[1])
        detail = newest(proxy.proxy)
        shown = dict(detail.request_headers)
        assert secret not in repr(detail)
        assert "***" in shown[name]
        assert shown["x-plain"] == "stays"
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("value", [f"https://x/y?a=1&access_token={PLAIN}", f"/v1?sig={PLAIN}", f"x {JWT} y", KEY])
async def test_no_credential_in_any_other_header_is_shown(value: str) -> None:
    """An address that a gateway passes on, a token that tells what it is by its form."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as web:
        await web.body((await web.ask(request("/v1/messages", PLAIN_BODY, f"x-original-uri: {value}")))[1])
        detail = newest(proxy.proxy)
        assert "***" in dict(detail.request_headers)["x-original-uri"]
        assert not [secret for secret in (PLAIN, JWT, KEY) if secret in repr(detail)]


@pytest.mark.parametrize("target", TARGETS)
async def test_no_credential_in_the_address_is_shown(target: str) -> None:
    """In the query, or as the proxy's own token in the path."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as web:
        await web.body((await web.ask(request(target, PLAIN_BODY)))[1])
        detail = newest(proxy.proxy)
        assert (KEY in repr(detail), PLAIN in repr(detail)) == (False, False)
        masked = target.replace(KEY, "***").replace(PLAIN, "***")
        assert detail.path == masked


@pytest.mark.parametrize(
    "play",
    [
        [http(401, anthropic_error("authentication_error", f"no such key: {PLAIN}"), f"x-echo: {PLAIN}")],
        [http(400, anthropic_error(PLAIN, PLAIN), f"set-cookie: session={PLAIN}; path=/v1/messages")],
        [http(529, anthropic_error("overloaded_error", PLAIN)), ANSWER],
    ],
)
async def test_an_upstream_that_quotes_what_it_was_sent_gives_nothing_away(play: Play) -> None:
    """Neither in its head nor in the words of its error, here and in everything else that is shown."""
    plays: list[Play] = [[step] for step in play]
    async with between(*plays) as (proxy, _), client() as web:
        await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY, headers={"x-api-key": PLAIN})
        detail = newest(proxy.proxy)
        assert detail.response_headers
        assert detail.path == "/v1/messages"
        assert PLAIN not in f"{detail!r}{proxy.snapshot()!r}{proxy.proxy.engine.requests(0)!r}"


async def test_the_token_of_the_proxy_is_not_shown() -> None:
    """Wherever a client put it."""
    async with between([ANSWER], token=TOKEN) as (proxy, _), client() as web:
        headers = {"x-hivemind-token": TOKEN, "x-other": f"<{TOKEN}>"}
        await web.post(f"{proxy.url}/token/{TOKEN}/v1/messages?x={TOKEN}", content=PLAIN_BODY, headers=headers)
        assert TOKEN not in repr(newest(proxy.proxy))


async def test_the_last_answer_is_the_one_that_is_shown() -> None:
    """Of several attempts; one that never got an answer has none to show."""
    failure = http(529, anthropic_error("overloaded_error"), "x-which: first")
    async with between([failure], [http(200, PLAIN_BODY, "x-which: second")]) as (proxy, _), client() as web:
        await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY)
        assert dict(newest(proxy.proxy).response_headers)["x-which"] == "second"


async def test_a_request_that_nobody_knows_has_no_detail() -> None:
    """A number that was never given."""
    async with between([ANSWER]) as (proxy, _):
        assert proxy.proxy.detail(7) is None
        assert proxy.proxy.engine.requests(0).changed == ()
