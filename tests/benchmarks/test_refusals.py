"""The program that measures what clients do when they are refused."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.refusals.__main__ import Case, Found
from benchmarks.refusals.figures import final_text, forms_text, passing_text
from benchmarks.refusals.provider import BUSY, MARK, Refusing, When, refusing

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


async def test_temporary_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while the provider says how long it still refuses, in a head or in a stream; then it answers."""
    async with refusing(Refusing(529, "for a while", 240, "api_error")) as provider:
        status, text = await asyncio.to_thread(post, f"{provider.url}/v1/messages", b"{}")
        assert (status, BUSY in text, "api_error" in text) == (529, True, True)
        monkeypatch.setattr(provider, "retry_after_s", 0)
        assert (await asyncio.to_thread(post, f"{provider.url}/v1/messages", b"{}"))[0] == 200
        assert (len(provider.refused), provider.answered) == (1, 1)
    async with refusing(Refusing(503, "for a while in a stream")) as provider:
        for _ in range(2):
            status, text = await asyncio.to_thread(post, f"{provider.url}/v1/messages", b'{"stream":true}')
            assert (status, BUSY in text) == (200, True)


def found(client: str, case: Case, refused: list[float], **values: Any) -> Found:
    return Found(client, case, refused, values.get("answered", 0), True, 6.6, values.get("exit_code", 1), [])


def test_the_table() -> None:
    """How often each asked, how long where that was often, and whether it told why."""
    measured = [
        found("Codex", Case(400, "at once"), [0.0]),
        found("Codex", Case(403, "at once"), [0.0, 1.0, 2.0]),
        found("Gemini CLI", Case(429, "at once"), [0.0] * 5, exit_code=None),
        found("Claude Code", Case(529, "for a while"), [0.0, 0.7, 1.8]),
        found("Claude Code", Case(503, "for a while", 30), [0.0], exit_code=0, answered=1),
        found("Claude Code", Case(200, "silent"), [], exit_code=0, answered=1),
    ]
    lines = final_text(measured).splitlines()
    assert lines[3:5] == [
        "| Codex | 1 |  | 3 in 7 s |  |  |  |  |  |",
        "| Gemini CLI |  |  |  | 5 and more in 7 s |  |  |  |  |",
    ]
    claude = passing_text(measured).splitlines()[2]
    assert claude == "| Claude Code |  |  | ends, 3 in 2 s | lives, 1 in 0 s |  |  |  |  | lives |"


def test_the_manual_has_the_forms() -> None:
    """The manual's table of what each client is told is the one that the proxy goes by."""
    assert (Path(__file__).parents[2] / "docs/figures/refusals-forms.md").read_text("utf-8") == forms_text()
