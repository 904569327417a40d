"""The program that measures what clients do when they are refused."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from benchmarks.refusals.figures import forms_text
from benchmarks.refusals.provider import MARK, Refusing, When, refusing

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
    async with refusing(Refusing(400)) as provider:
        status, text = await asyncio.to_thread(post, provider.url + path, b"{}")
        assert (status, MARK in text) == (400, True)
        assert (await asyncio.to_thread(post, f"{provider.url}/v1/telemetry", b"{}"))[0] == 404
        assert (provider.refused, provider.answered) == ([0.0], 0)


@pytest.mark.parametrize(
    ("when", "bodies", "expected"),
    [
        ("in a session", [b"{}", WITH_OUTPUT], [(200, False), (400, True)]),
        ("in a stream", [b'{"stream":true}', b'{"stream":true}'], [(200, True), (400, True)]),
    ],
)
async def test_other_moments(when: When, bodies: list[bytes], expected: list[tuple[int, bool]]) -> None:
    """A session is answered until a tool's output comes; a stream has the refusal as an event, and then a status."""
    async with refusing(Refusing(400, when)) as provider:
        said = [await asyncio.to_thread(post, f"{provider.url}/v1/messages", body) for body in bodies]
        assert [(status, MARK in text) for status, text in said] == expected
        assert len(provider.refused) == sum(shown for _, shown in expected)


def test_the_manual_has_the_forms() -> None:
    """The manual's table of what each client is told is the one that the proxy goes by."""
    assert (Path(__file__).parents[2] / "docs/figures/refusals-forms.md").read_text("utf-8") == forms_text()
