"""The official SDKs with nothing set but what is printed, in front of a real proxy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from proxy.kit import Running, proxying

from hivemind.setup.clients import CLIENTS, instructions
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.serve import serving as serving_mock

AGENT = "alice & bob"
TOKEN = "t0k-en"


@contextlib.asynccontextmanager
async def running(token: bool) -> AsyncIterator[Running]:
    """A proxy before the mock provider, which asks for a token or doesn't."""
    asked: dict[str, Any] = {"token": TOKEN} if token else {}
    async with serving_mock(MockProvider(MockConfig(seed=1))) as url, proxying(f"mock={url}", **asked) as proxy:
        yield proxy


def pasted(language: str, proxy: Running, token: bool) -> list[str]:
    """What is to be pasted for anything that isn't known by name."""
    found = instructions(CLIENTS["generic"], proxy.url, AGENT, token)
    return [snippet.text for snippet in found.steps.snippets if snippet.language == language]


def set_by(lines: str, name: str) -> str:
    """The variable's value in a child of a real bash that these lines were pasted into."""
    environ = {"PATH": os.environ["PATH"], "HIVEMIND_TOKEN": TOKEN}
    done = subprocess.run(
        ["bash", "-c", 'eval "$1"; printenv "$2"', "bash", lines, name],
        env=environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout.removesuffix("\n")


def ask_claude(sdk: anthropic.Anthropic) -> str:
    """One answer."""
    with sdk:
        answer = sdk.messages.create(model="claude-x", max_tokens=50, messages=[{"role": "user", "content": "hi"}])
        return str(answer.content[0].text)


def ask_gpt(sdk: openai.OpenAI) -> str:
    """One answer."""
    with sdk:
        answer = sdk.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "hi"}])
        return str(answer.choices[0].message.content)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are where they were before; nothing else is set."""
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.slow
@pytest.mark.parametrize("token", [False, True])
async def test_variables(token: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both SDKs, configured by the exported lines alone, are answered, and shown under the name that was given."""
    async with running(token) as proxy:
        lines = pasted("shell", proxy, token)[0]
        for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, set_by(lines, name))
        assert await asyncio.to_thread(lambda: ask_claude(anthropic.Anthropic(max_retries=0)))
        assert await asyncio.to_thread(lambda: ask_gpt(openai.OpenAI(max_retries=0)))
        snapshot = proxy.snapshot()
        assert [agent.name for agent in snapshot.agents] == [AGENT]
        assert (snapshot.totals.finished, snapshot.totals.failed) == (2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("token", [False, True])
async def test_code(token: bool) -> None:
    """So are clients made by the code, once the token is in its place."""
    async with running(token) as proxy:
        claude, gpt = (_made_by(code.replace("YOUR-TOKEN", TOKEN)) for code in pasted("python", proxy, token))
        assert await asyncio.to_thread(ask_claude, claude)
        assert await asyncio.to_thread(ask_gpt, gpt)
        assert [agent.name for agent in proxy.snapshot().agents] == [AGENT]


def _made_by(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["client"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't installed")
@pytest.mark.parametrize("token", [False, True])
async def test_check(token: bool) -> None:
    """The line to check with shows that the proxy is up, whether it asks for a token or not."""
    async with running(token) as proxy:
        line = instructions(CLIENTS["generic"], proxy.url, AGENT, token).check.text
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", line, stdout=asyncio.subprocess.PIPE, env={"PATH": os.environ["PATH"]}
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert b'"status":"serving"' in out
