"""Which upstream a request is for: by path, by key, by headers, by what it was before."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from hivemind.providers.profiles import PROFILES
from hivemind.providers.signs import NOT_SERVED, PROVIDERS, UNCLEAR, choose, provider_for_path, provider_of, told_by

Pairs = list[tuple[bytes, bytes]]
MANUAL = Path(__file__).parents[2] / "docs/upstreams.md"

ROUTES = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/messages": "anthropic",
    "/anthropic/messages": "anthropic",
    "/v1/skills": None,
    "/v1/agents/a": None,
    "/v1/evals": "openai",
    "/v1/containers/c/files": "openai",
    "/api/hello": "anthropic",
    "/v1/chat/completions": "openai",
    "/v1/responses": "openai",
    "/responses": "openai",
    "/v1/responses/resp_1": "openai",
    "/v1/embeddings": "openai",
    "/v1/completions": "openai",
    "/openai/deployments/d/chat/completions": "azure",
    "/openai/v1/responses": "azure",
    "/openai/v1/chat/completions": "azure",
    "/v1beta/models/gemini-2.5-flash:generateContent": "google",
    "/v1/models/gemini-2.5-flash:streamGenerateContent": "google",
    "/v1beta/models": "google",
    "/v1beta/interactions": "google",
    "/v1beta/openai/chat/completions": "google",
    "/api/chat": "ollama",
    "/api/generate": "ollama",
    "/api/embed": "ollama",
    "/api/tags": "ollama",
    "/api/blobs/sha256:0": "ollama",
    "/openai/files": "azure",
    "/upload/v1/files": "google",
    "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict": "google",
    "/model/anthropic.claude/converse-stream": "bedrock",
    "/v1/batches": None,
    "/v1/models": None,
    "/v1/models/gpt-5": None,
    "/v1/files": None,
    "/": None,
    "": None,
}


@pytest.mark.parametrize(("path", "provider"), ROUTES.items())
def test_routes(path: str, provider: str | None) -> None:
    """A path goes to the provider whose API it is; one that several share is left open."""
    assert provider_for_path(path) == provider
    assert provider is None or provider in {each.name for each in PROVIDERS}


# --- Of several upstreams ---------------------------------------------------------------------------------------------

ANTHROPIC: Pairs = [(b"anthropic-version", b"2026-10-21"), (b"user-agent", b"AsyncAnthropic/Python 2.14.0")]
OPENAI: Pairs = [(b"user-agent", b"OpenAI/Python 3.57.0"), (b"x-stainless-lang", b"python")]
GOOGLE: Pairs = [
    (b"user-agent", b"google-genai-sdk/3.6.1 gl-python/3.11.7"),
    (b"x-goog-api-client", b"google-genai-sdk/3.6.1 gl-python/3.11.7"),
]
MISTRAL: Pairs = [(b"user-agent", b"mistral-client-python/2.6.0"), (b"authorization", b"Bearer k")]
SHARED = ("/v1/models", "/v1/files", "/v1/batches", "/v1/skills", "/v1/agents", "/v1/vaults/v", "/v1/unheard/of", "/")


def bearer(key: str) -> tuple[bytes, bytes]:
    """A key as most clients show it."""
    return b"authorization", b"Bearer " + key.encode()


def sent_to(path: str, headers: Pairs, *upstreams: str, query: bytes = b"", before: str = "") -> str:
    """The upstream that a request goes to; `?` where it is unclear, `-` where there is none."""
    place = choose(told_by(path, query, headers), upstreams, upstreams.index(before) if before else None)
    return {NOT_SERVED: "-", UNCLEAR: "?"}.get(place) or upstreams[place]


@pytest.mark.parametrize("order", list(permutations(("anthropic", "openai", "google"))), ids="-".join)
def test_official_clients(order: tuple[str, ...]) -> None:
    """A path that providers share goes where its client and its key belong, whatever the key and the order."""
    for path in SHARED:
        for key in ("sk-1", "eyJ.a.b", ""):
            shown = [bearer(key)] if key else []
            assert sent_to(path, [*ANTHROPIC, *shown], *order) == "anthropic"
            assert sent_to(path, [*OPENAI, *shown], *order) == "openai"
            assert sent_to(path, [*GOOGLE, *shown], *order) == "google"
        for key, name in (("sk-ant-api03-x", "anthropic"), ("sk-proj-x", "openai"), ("AIzaSyX", "google")):
            assert sent_to(path, [bearer(key)], *order) == name
        assert sent_to(path, [(b"x-api-key", b"k")], *order) == "anthropic"
        assert sent_to(path, [(b"x-goog-api-key", b"k")], *order) == "google"
        assert sent_to(path, [], *order, query=b"key=k&alt=sse") == "google"
        assert sent_to(path, [(b"openai-organization", b"org")], *order) == "openai"
        assert sent_to(path, [bearer("sk-1"), (b"user-agent", b"curl/8")], *order) == "?"
        assert sent_to(path, [], *order) == "?"


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        # The key decides where it may go.
        ("/v1/models", [(b"anthropic-version", b"1"), bearer("sk-proj-x")], "openai"),
        ("/v1/models", [*OPENAI, (b"openai-organization", b"o"), bearer("sk-ant-x")], "anthropic"),
        ("/v1/chat/completions", [*OPENAI, bearer("sk-ant-x")], "anthropic"),
        ("/v1/chat/completions", [(b"x-api-key", b"k")], "anthropic"),
        ("/v1/chat/completions", [*OPENAI, bearer("gsk_x")], ""),
        ("/v1/models", [*OPENAI, bearer("sk-or-v1-x")], ""),
        # A path that its provider doesn't serve isn't where it goes either: the prompt is for somebody else.
        ("/v1/messages", [*ANTHROPIC, bearer("sk-proj-x")], "?"),
        ("/api/chat", [bearer("sk-proj-x")], "?"),
        ("/api/chat", [(b"x-api-key", b"k")], "?"),
        # Several keys, several providers.
        ("/v1/models", [bearer("sk-proj-x"), (b"x-api-key", b"sk-ant-x")], "?"),
        ("/v1/chat/completions", [bearer("sk-proj-x"), (b"x-api-key", b"k")], "?"),
        ("/v1/chat/completions", [bearer("k"), (b"x-goog-api-key", b"k")], "?"),
        # Contradicting headers.
        ("/v1/files", [(b"anthropic-beta", b"1"), (b"openai-beta", b"1"), bearer("k")], "?"),
        ("/v1/chat/completions", [(b"anthropic-version", b"1"), bearer("k")], "?"),
        ("/v1/files", [ANTHROPIC[1], (b"openai-organization", b"o"), bearer("k")], "?"),
        ("/v1/models", [*OPENAI, (b"anthropic-version", b"1"), bearer("k")], "anthropic"),
        # What was always clear stays so.
        ("/v1/chat/completions", [bearer("sk-1")], "openai"),
        ("/v1/messages", [bearer("sk-1")], "anthropic"),
        ("/v1/messages", [(b"x-api-key", b"k"), *ANTHROPIC], "anthropic"),
        ("/api/tags", [], "ollama"),
        ("/v1beta/models/g:generateContent", [(b"x-goog-api-key", b"k")], ""),
    ],
)
def test_signs_against_each_other(path: str, headers: Pairs, name: str) -> None:
    """Where signs differ the key decides, or nobody gets the request, in whichever order upstreams and headers are."""
    for order in permutations(("anthropic", "openai", "ollama", "")):
        for each in (headers, headers[::-1]):
            assert sent_to(path, each, *order) == name


@pytest.mark.parametrize(
    ("upstreams", "path", "headers", "name"),
    [
        (("anthropic", "ollama"), "/v1/chat/completions", [bearer("k")], "-"),
        (("anthropic", "ollama"), "/v1/models", [*OPENAI, bearer("k")], "-"),
        (("anthropic", "ollama"), "/v1/models", [bearer("sk-proj-x")], "?"),
        (("anthropic", "openrouter"), "/v1/chat/completions", [bearer("k")], "openrouter"),
        (("anthropic", "openrouter"), "/v1/messages", [*ANTHROPIC, bearer("sk-or-x")], "openrouter"),
        (("openrouter", "openai"), "/v1/chat/completions", [bearer("sk-or-x")], "openrouter"),
        (("openrouter", "groq"), "/v1/chat/completions", [bearer("gsk_x")], "groq"),
        (("openrouter", "groq"), "/v1/chat/completions", [bearer("k")], "?"),
        (("openrouter", "openai"), "/v1/models", [bearer("gsk_x")], "?"),
        (("azure", "openai"), "/openai/files", [(b"api-key", b"k")], "azure"),
        (("openai", "azure"), "/v1/chat/completions", [(b"api-key", b"k")], "azure"),
        (("anthropic", "azure"), "/anthropic/v1/messages", [(b"api-key", b"k")], "azure"),
        (("openai", "google"), "/v1beta/openai/models", [*OPENAI, (b"openai-project", b"p"), bearer("k")], "google"),
        (("openai", "google"), "/v1/projects/p/locations/l/models/m:rawPredict", [bearer("ya29.x")], "google"),
        (("anthropic", "openai"), "/v1/chat/completions", MISTRAL, "-"),
        (("openai", "bedrock"), "/model/m/converse", [bearer("ABSKx")], "bedrock"),
        (("openai", "bedrock"), "/model/m/invoke", [(b"authorization", b"AWS4-HMAC-SHA256 Credential=x")], "bedrock"),
    ],
)
def test_providers_that_are_missing(upstreams: tuple[str, ...], path: str, headers: Pairs, name: str) -> None:
    """A gateway takes what no other upstream is for, but never a key that is known to be of somebody else."""
    known = tuple(provider_of(each, "http://x", each if each in PROFILES else "generic") for each in upstreams)
    assert known == upstreams
    assert sent_to(path, headers, *upstreams) == name


def test_what_it_was_before() -> None:
    """What nothing else tells is what it was before; no sign is overruled by that."""
    order = ("anthropic", "openai", "google")
    assert sent_to("/v1/files", [bearer("k")], *order, before="openai") == "openai"
    assert sent_to("/v1/files", [*ANTHROPIC, bearer("k")], *order, before="openai") == "anthropic"
    assert sent_to("/v1/files", [bearer("sk-ant-k")], *order, before="openai") == "anthropic"
    assert sent_to("/v1/files", [(b"anthropic-beta", b"1"), (b"openai-beta", b"1")], *order, before="openai") == "?"


@pytest.mark.parametrize(
    ("name", "url", "provider"),
    [
        ("lab", "https://openrouter.ai/api", "openrouter"),
        ("groq", "http://127.0.0.1:1", "groq"),
        ("lab", "https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"),
        ("lab", "https://notopenrouter.air", ""),
        ("lab", "https://api.openai.com", "openai"),
        ("anthropic", "http://127.0.0.1:1", "anthropic"),
        ("lab", "http://127.0.0.1:8000", ""),
    ],
)
def test_gateways_by_url_and_name(name: str, url: str, provider: str) -> None:
    """An upstream without a profile of its own may yet be of a provider whose keys are known by their form."""
    assert provider_of(name, url, "generic") == provider


def test_manual() -> None:
    """The manual names every provider with its headers."""
    text = MANUAL.read_text("utf-8")
    assert [each.name for each in PROVIDERS if each.name not in text.lower().replace(" ", "")] == []
    assert [name for each in PROVIDERS for name in each.headers if f"`{name}" not in text] == []
