"""Several upstreams at once: by path, by name, or one gateway for all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from proxy.kit import Running, Seen, between, client, playing, proxying
from proxy.wire import CHAT, GEMINI, MESSAGE, NDJSON, OLLAMA, RESPONSE, SSE, STREAM_BODY, chunked, http
from upstream.scripted import Scripted, serving

from hivemind.providers.base import Profile
from hivemind.providers.profiles import PROFILES
from hivemind.wire.request_head import parse_path

BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com"
NAMES = ("anthropic", "openai", "azure", "google", "ollama")


@contextlib.asynccontextmanager
async def several(monkeypatch: pytest.MonkeyPatch, *names: str) -> AsyncIterator[tuple[Running, dict[str, Scripted]]]:
    """A proxy before several upstreams, each taken for the provider that it is named after."""
    async with contextlib.AsyncExitStack() as stack:
        upstreams = {
            name: await stack.enter_async_context(serving(playing([http(200, {"from": name, "done": True})])))
            for name in names
        }
        by_port = {upstream.port: name for name, upstream in upstreams.items()}

        def by_port_of(url: str) -> Profile:
            return PROFILES[by_port[int(url.rpartition(":")[2])]]

        monkeypatch.setattr("hivemind.settings.origin.profile_for", by_port_of)
        proxy = await stack.enter_async_context(proxying(*(f"{name}={u.url}" for name, u in upstreams.items())))
        yield proxy, upstreams


PATHS = [
    ("/v1/messages", "anthropic"),
    ("/v1/messages/count_tokens", "anthropic"),
    ("/v1/chat/completions", "openai"),
    ("/v1/responses", "openai"),
    ("/v1/embeddings", "openai"),
    ("/openai/deployments/gpt/chat/completions?api-version=1", "azure"),
    ("/openai/v1/responses", "azure"),
    ("/v1beta/models/g:generateContent", "google"),
    ("/v1/models/g:streamGenerateContent?alt=sse", "google"),
    ("/api/chat", "ollama"),
    ("/api/generate", "ollama"),
]


async def test_paths_find_their_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each path goes to the upstream whose provider serves it, with or without an agent's prefix."""
    async with several(monkeypatch, *NAMES) as (proxy, _), client() as web:
        for prefix in ("", "/agent/alice"):
            answers = [await web.post(proxy.url + prefix + path, content=b"{}") for path, _ in PATHS]
            assert [a.json()["from"] for a in answers] == [name for _, name in PATHS]


async def test_paths_without_anthropic_s_version() -> None:
    """Vercel's AI SDK leaves it to the base URL. Anthropic's API has no such paths, so it is added; a gateway may."""
    paths = ("/messages", "/agent/ann/messages/count_tokens?beta=true", "/v1/messages", "/messagesx")
    versioned = ["/v1/messages", "/v1/messages/count_tokens?beta=true", "/v1/messages", "/messagesx"]
    unchanged = ["/messages", "/messages/count_tokens?beta=true", "/v1/messages", "/messagesx"]
    for name, base, expected in (
        ("anthropic", "", versioned),
        ("gateway", "", unchanged),
        ("anthropic", "/x/v1", [f"/x/v1{path}" for path in unchanged]),
    ):
        async with serving(playing([http(200, {})])) as upstream, client() as web:
            async with proxying(f"{name}={upstream.url}{base}") as proxy:
                for path in paths:
                    assert (await web.post(proxy.url + path, content=b"{}")).status_code == 200
            assert [Seen.of(each).target.decode() for each in upstream.requests] == expected


async def test_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/upstream/<name>/`, or `/to/<name>/`, leads there whatever the path, before or after the agent's name."""
    async with several(monkeypatch, *NAMES) as (proxy, upstreams), client() as web:
        for name in NAMES:
            for prefix in (f"/upstream/{name}", f"/to/{name}/agent/alice", f"/agent/alice/upstream/{name}"):
                answer = await web.post(f"{proxy.url}{prefix}/v1/messages?beta=true", content=b"{}")
                assert answer.json()["from"] == name
            assert {raw.split(b" ")[1] for raw in upstreams[name].requests} == {b"/v1/messages?beta=true"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/messages", {"type": "error"}), ("/v1/chat/completions", {}), ("/v1beta/models/g:generateContent", {})],
)
async def test_unknown_name(path: str, kind: dict[str, str]) -> None:
    """A name that isn't there is a 404 in the provider's shape, which names those that are and isn't worth retrying."""
    async with between([http(200)]) as (proxy, upstream), client() as web:
        answer = await web.post(f"{proxy.url}/to/nowhere{path}", content=b"{}")
        assert (answer.status_code, answer.headers["x-should-retry"]) == (404, "false")
        body = answer.json()
        assert kind.items() <= body.items()
        assert "/upstream/lab/" in body["error"]["message"]
        assert not upstream.requests


async def test_path_that_nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several upstreams, a path that is none of theirs is a 404 too; a generic one takes what is left."""
    async with several(monkeypatch, "anthropic", "ollama") as (proxy, upstreams), client() as web:
        answer = await web.post(f"{proxy.url}/v1/chat/completions", content=b"{}")
        assert answer.status_code == 404
        assert "/upstream/anthropic/, /upstream/ollama/" in answer.json()["error"]["message"]
        assert not any(upstream.requests for upstream in upstreams.values())
    async with several(monkeypatch, "anthropic", "generic") as (proxy, _), client() as web:
        answer = await web.post(f"{proxy.url}/v1/chat/completions", content=b"{}")
        assert answer.json()["from"] == "generic"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE"])
async def test_paths_that_all_share(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A list of models is asked of the provider that the client's headers are meant for, of nobody if none tells."""
    async with several(monkeypatch, "openai", "anthropic", "google") as (proxy, upstreams), client() as web:
        for header, name in (
            ("anthropic-version", "anthropic"),
            ("x-goog-api-key", "google"),
            ("openai-beta", "openai"),
        ):
            answer = await web.request(method, f"{proxy.url}/v1/models", headers={header: "x"})
            assert answer.status_code == 200
            assert upstreams[name].requests.pop().startswith(f"{method} /v1/models ".encode())
        for headers in ({}, {"authorization": "Bearer opaque"}, {"x-goog-api-key": "k", "anthropic-version": "1"}):
            answer = await web.request(method, f"{proxy.url}/v1/models", headers=headers)
            assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
            if method != "HEAD":
                assert "/upstream/openai/, /upstream/anthropic/" in answer.json()["error"]["message"]
        assert not any(upstream.requests for upstream in upstreams.values())


async def test_what_was_routed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only one upstream has had goes there again, and an agent without a key to the only one it used."""
    async with several(monkeypatch, "anthropic", "openai") as (proxy, upstreams), client() as web:

        async def asked(path: str, key: str = "", prefix: str = "") -> int:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            return (await web.post(f"{proxy.url}{prefix}{path}", content=b"{}", headers=headers)).status_code

        assert await asked("/v1/files", "one") == 400
        assert await asked("/v1/chat/completions", "one", "/agent/ann") == 200
        assert await asked("/v1/files", "one") == 200
        assert await asked("/v1/files", "", "/agent/ann") == 200
        # A name says nothing of another key.
        assert await asked("/v1/files", "two", "/agent/ann") == 400
        assert [raw.split(b" ")[1] for raw in upstreams["openai"].requests] == [
            b"/v1/chat/completions",
            *[b"/v1/files"] * 2,
        ]
        # What two upstreams had tells nothing any more.
        assert await asked("/v1/messages", "one", "/agent/ann") == 200
        assert await asked("/v1/skills", "one") == 400
        assert await asked("/v1/skills", "", "/agent/ann") == 400
        assert await asked("/v1/models", "three", "/upstream/anthropic") == 200
        assert await asked("/v1/files", "three") == 200
        assert len(upstreams["anthropic"].requests) == 3


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest keys and names are forgotten."""
    monkeypatch.setattr("hivemind.proxy.routing.MOST_REMEMBERED", 4)
    async with several(monkeypatch, "anthropic", "openai") as (proxy, _), client() as web:
        for number in range(9):
            headers = {"authorization": f"Bearer key{number}"}
            await web.post(f"{proxy.url}/v1/chat/completions", content=b"{}", headers=headers)
        asked = [
            (await web.get(f"{proxy.url}/v1/files", headers={"authorization": f"Bearer key{number}"})).status_code
            for number in (0, 8)
        ]
        assert asked == [400, 200]


async def test_one_gateway_of_several_dialects() -> None:
    """A single upstream gets every path, and each stream is understood in its own dialect."""
    asked = [
        ("/v1/messages", STREAM_BODY, chunked(MESSAGE, SSE), (11, 7)),
        ("/v1/chat/completions", STREAM_BODY, chunked(CHAT, SSE), (12, 8)),
        ("/v1/responses", STREAM_BODY, chunked(RESPONSE, SSE), (13, 9)),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", b"{}", chunked(GEMINI, SSE), (14, 10)),
        ("/api/chat", b"{}", chunked(OLLAMA, NDJSON), (15, 11)),
    ]
    async with between(*([answer] for _, _, answer, _ in asked)) as (proxy, upstream), client() as web:
        for number, (path, body, _, _) in enumerate(asked):
            assert (await web.post(f"{proxy.url}/agent/a{number}{path}", content=body)).status_code == 200
        used = [(agent.usage.total_input, agent.usage.output_tokens) for agent in proxy.snapshot().agents]
        assert used == [usage for _, _, _, usage in asked]
        assert [raw.split(b" ")[1].decode() for raw in upstream.requests] == [path for path, _, _, _ in asked]


@pytest.mark.parametrize(
    ("called", "credential", "told"),
    [
        ("127.0.0.1:8765", "AWS4-HMAC-SHA256 Credential=A/b", 1),
        ("127.0.0.1:8765", "Bearer A", 0),
        (BEDROCK, "AWS4-", 0),
    ],
)
async def test_a_signature_for_this_proxy_is_told_of(called: str, credential: str, told: int) -> None:
    """AWS's covers the host that the client called: Bedrock refuses any but its own."""
    place, headers = parse_path(b"/model/m/converse"), {b"host": called.encode(), b"authorization": credential.encode()}
    scope = {"method": "POST", "headers": list(headers.items()), "query_string": b"", "raw_path": place.raw_path}
    async with proxying(f"https://{BEDROCK}") as proxy:
        proxy.proxy.app._calls.head(scope, headers, place)
        assert ["SigV4" in text for text in proxy.snapshot().notices] == [True] * told
