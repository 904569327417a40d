"""The program that measures what clients do when they are refused."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest

from benchmarks.refusals.__main__ import Found
from benchmarks.refusals.figures import text_of
from benchmarks.refusals.provider import MARK, When, refusing

PATHS = ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"]
WITH_OUTPUT = b'{"stream":false,"messages":[{"role":"tool"},{"type":"tool_result"}]}'


def post(url: str, body: bytes) -> tuple[int, str]:
    asked = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", PATHS)
async def test_the_provider_refuses(path: str) -> None:
    """Whatever asks for a model, in each API's form; nothing else counts."""
    async with refusing(400, "at once", "bash") as provider:
        status, text = await asyncio.to_thread(post, provider.url + path, b"{}")
        assert (status, MARK in text) == (400, True)
        assert (await asyncio.to_thread(post, f"{provider.url}/v1/telemetry", b"{}"))[0] == 404
        assert provider.refused == [path]


@pytest.mark.parametrize(
    ("when", "bodies", "expected"),
    [
        ("in a session", [b"{}", WITH_OUTPUT], [(200, False), (400, True)]),
        ("in a stream", [b'{"stream":true}', b'{"stream":true}'], [(200, True), (400, True)]),
    ],
)
async def test_other_moments(when: When, bodies: list[bytes], expected: list[tuple[int, bool]]) -> None:
    """A session is answered until a tool's output comes; a stream has the refusal as an event, and then a status."""
    async with refusing(400, when, "bash") as provider:
        said = [await asyncio.to_thread(post, f"{provider.url}/v1/messages", body) for body in bodies]
        assert [(status, MARK in text) for status, text in said] == expected
        assert len(provider.refused) == sum(shown for _, shown in expected)


def test_the_table() -> None:
    """How often each asked, how long where that was often, and whether it told why."""
    found = [
        Found("Codex", 400, "at once", 1, True, 0.7, 1),
        Found("Codex", 403, "at once", 6, True, 6.6, 1),
        Found("Gemini CLI", 429, "at once", 5, False, 100.0, None),
    ]
    lines = text_of(found).splitlines()
    assert lines[2:4] == [
        "| Codex | 1 |  | 6 in 7 s |  |  |  |",
        "| Gemini CLI |  |  |  | 5 and more in 100 s, not shown |  |  |",
    ]
