"""Every call of the official SDKs through a proxy before several providers: no key reaches one that isn't its own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from proxy.kit import Seen, client, playing, proxying
from proxy.sdk import sdk_http
from proxy.wire import http
from upstream.scripted import Scripted, serving

NAMES = ("anthropic", "openai", "google", "ollama")
KEYS = {
    "anthropic": ("sk-ant-api03-of-anthropic", "opaque-of-anthropic"),
    "openai": ("sk-proj-of-openai", "sk-opaque-of-openai"),
    "google": ("AIzaSy-of-google", "opaque-of-google"),
}
"""By provider: a key whose form tells its owner, and one whose form doesn't."""
_OWNER = re.compile(rb"-of-(\w+)")
_ENDLESS = re.compile(r"poll|_and_|stream|parse|connect|tool_runner|worker|chunked|prepare|thread$|for_result")
"""Methods that make several requests of other methods, a WebSocket, or none."""

GOOGLE_CALLS = """
    POST /v1/models/g:generateContent
    POST /v1/models/g:streamGenerateContent?alt=sse
    POST /v1/models/g:countTokens
    POST /v1/models/g:batchEmbedContents
    POST /v1/models/g:batchGenerateContent
    GET /v1/models
    GET /v1/models/g
    POST /upload/v1/files
    GET /v1/files
    GET /v1/files/a
    DELETE /v1/files/a
    GET /v1/files/a:download?alt=media
    GET /v1/batches
    GET /v1/batches/a
    POST /v1/batches/a:cancel
    GET /v1/cachedContents
    POST /v1/cachedContents
    GET /v1/tunedModels/a
    GET /v1/fileSearchStores
    POST /v1/fileSearchStores
    POST /upload/v1/fileSearchStores/a:uploadToFileSearchStore
    POST /v1/auth_tokens
    POST /v1/interactions
    GET /v1/interactions/a?stream=false
    POST /v1beta/models/g:generateContent
    GET /v1beta/files
"""
"""What google-genai 3.6.1 sends, as recorded, and two calls of older versions."""
GOOGLE_HEADERS = {
    "user-agent": "google-genai-sdk/3.6.1 gl-python/3.11.7",
    "x-goog-api-client": "google-genai-sdk/3.6.1 gl-python/3.11.7",
}


@contextlib.asynccontextmanager
async def providers(*names: str) -> AsyncIterator[tuple[str, dict[str, Scripted]]]:
    """The URL of a proxy before an upstream of each provider, which says that there is no such thing."""
    async with contextlib.AsyncExitStack() as stack:
        missing = playing([http(404, {"error": {"message": "no such thing"}})])
        upstreams = {name: await stack.enter_async_context(serving(missing)) for name in names}
        named = [f"{name}={upstream.url}" for name, upstream in upstreams.items()]
        proxy = await stack.enter_async_context(proxying(*named, hangs_s=240, checked=False))
        yield proxy.url, upstreams


def astray(upstreams: dict[str, Scripted]) -> list[str]:
    """Every request that reached an upstream with the key of another provider, or without any."""
    return [
        f"{name}: {seen.method.decode()} {seen.target.decode()}"
        for name, upstream in upstreams.items()
        for seen in map(Seen.of, upstream.requests)
        if {owner.decode() for _, value in seen.headers for owner in _OWNER.findall(value)} != {name}
    ]


def calls_of(resource: Any, depth: int = 0) -> Iterator[Callable[[], Awaitable[object]]]:
    """Every method of an SDK's resources that makes one request, with the arguments that it needs."""
    library = type(resource).__module__.partition(".")[0]
    for name in dir(type(resource)):
        if name.startswith(("_", "with_")):
            continue
        member = inspect.getattr_static(type(resource), name)
        if inspect.isfunction(member):
            if depth and not _ENDLESS.search(name):
                method = getattr(resource, name)
                yield partial(method, **_arguments(method))
        elif not callable(member) and type(found := getattr(resource, name, None)).__module__.startswith(
            f"{library}.resources"
        ):
            yield from calls_of(found, depth + 1)


def _arguments(method: Callable[..., object]) -> dict[str, object]:
    """Something for each argument without a default; providers aren't asked whether it makes sense."""
    parameters = inspect.signature(method).parameters.values()
    return {each.name: _something(str(each.annotation)) for each in parameters if each.default is each.empty}


def _something(annotation: str) -> object:
    for words, value in (
        (("Iterable", "List", "Sequence", "list["), []),
        (("FileTypes",), b"x"),
        (("Dict", "Mapping", "dict["), {}),
        (("int", "float", "bool"), 1),
    ):
        if any(word in annotation for word in words):
            return value
    return "x"


async def drive(sdk: Any) -> int:
    """Make every call, and return how many could be made."""
    made = 0
    for call in calls_of(sdk):
        with contextlib.suppress(TypeError, ValueError, RuntimeError, anthropic.AnthropicError, openai.OpenAIError):
            made += 1
            result = call()
            if inspect.isawaitable(result):
                await result
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("order", "form"), [(NAMES, 0), (NAMES[::-1], 1)], ids=["known", "opaque"])
async def test_every_call_of_the_sdks(order: tuple[str, ...], form: int) -> None:
    """Of some 770 calls of the Anthropic and OpenAI SDKs, each with its body reaches its own provider."""
    warnings.simplefilter("ignore", DeprecationWarning)
    async with providers(*order) as (url, upstreams), sdk_http() as web:
        common: dict[str, Any] = {"max_retries": 0, "http_client": web}
        claude = anthropic.AsyncAnthropic(api_key=KEYS["anthropic"][form], base_url=url, **common)
        key = KEYS["openai"][form]
        gpt = openai.AsyncOpenAI(api_key=key, admin_api_key=key, base_url=f"{url}/v1", **common)
        made = {"anthropic": await drive(claude), "openai": await drive(gpt)}
        assert astray(upstreams) == []
        for name, calls in made.items():
            assert calls > 200
            assert len(upstreams[name].requests) > 0.9 * calls


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]], ids="-".join)
@pytest.mark.parametrize("form", [0, 1], ids=["known", "opaque"])
async def test_calls_of_google_s_sdk(order: tuple[str, ...], form: int) -> None:
    """What google-genai sends reaches Google, paths that it shares with others included."""
    calls = [line.split() for line in GOOGLE_CALLS.strip().splitlines()]
    headers = {**GOOGLE_HEADERS, "x-goog-api-key": KEYS["google"][form]}
    async with providers(*order) as (url, upstreams), client() as web:
        await asyncio.gather(*(web.request(method, url + target, headers=headers) for method, target in calls))
        assert astray(upstreams) == []
        assert sorted(upstreams["google"].requests)[0].startswith(b"DELETE /v1/files/a ")
        assert len(upstreams["google"].requests) == len(calls)
