"""Official SDKs' uploads, polls and batches: none goes past the proxy, and none creates twice."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pytest
from proxy.kit import Seen, proxying
from proxy.sdk import sdk_http
from proxy.wire import JSON, http
from upstream.scripted import Scripted, serving

pytestmark = pytest.mark.slow
TIMES = {"created_at": 1, "expires_at": 2}
UPLOAD = {"id": "up", "object": "upload", "bytes": 1, "filename": "f", "purpose": "batch", "status": "pending", **TIMES}
BATCH = {"id": "b", "type": "message_batch", "processing_status": "ended", **TIMES}


async def provider(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers by path; the first GET gets a 429, the second is cut off."""
    while True:
        seen = Seen.of(await script.request(reader))
        path = seen.target.decode()
        gets = sum(each.startswith(b"GET") for each in script.requests)
        if seen.method == b"GET" and gets <= 2:
            if gets == 2:
                return
            writer.write(http(429, {"error": {"type": "rate_limit_error"}}, "retry-after-ms: 20"))
            continue
        answers: dict[str, dict[str, object]] = {
            "/v1/uploads": UPLOAD,
            "/v1/uploads/up/parts": {"id": "p", "object": "upload.part", "upload_id": "up", "created_at": 1},
            "/v1/uploads/up/complete": {**UPLOAD, "status": "completed"},
            "/v1/responses/r": {"id": "r", "object": "response", "status": "completed", "output": []},
            "/v1/messages/batches/b": {**BATCH, "results_url": f"{script.url}{path}/results"},
        }
        if path.endswith("/results"):
            line = {"custom_id": "one", "result": {"type": "canceled"}}
            writer.write(http(200, json.dumps(line).encode() + b"\n", "content-type: application/x-jsonl"))
        else:
            writer.write(http(200, json.dumps(answers[path]).encode(), JSON))
        await writer.drain()


def called(script: Scripted) -> list[str]:
    """What reached the provider, without its bodies."""
    return [f"{seen.method.decode()} {seen.target.decode()}" for seen in map(Seen.of, script.requests)]


async def test_openai_s_chunked_upload_and_polls() -> None:
    """Its parts of 64 MiB, which are larger than a scheduled request may be, and a poll that fails twice."""
    async with serving(provider) as script, proxying(f"lab={script.url}", hangs_s=120) as proxy, sdk_http() as web:
        own = openai.AsyncOpenAI(
            api_key="k", base_url=f"{proxy.url}/agent/ann/v1", http_client=web, max_retries=0, timeout=60
        )
        done = await own.uploads.upload_file_chunked(
            file=bytes(65 << 20), filename="f", bytes=65 << 20, mime_type="text/plain", purpose="batch"
        )
        assert (done.status, (await own.responses.retrieve("r")).id) == ("completed", "r")
        parts = ["POST /v1/uploads/up/parts"] * 2
        polls = ["GET /v1/responses/r"] * 3
        assert called(script) == ["POST /v1/uploads", *parts, "POST /v1/uploads/up/complete", *polls]
        assert sorted(len(Seen.of(each).body) >> 20 for each in script.requests if b"/parts" in each[:99]) == [1, 64]
        assert proxy.proxy.app.body_budget.used == 0


async def test_anthropic_s_batch_results() -> None:
    """The SDK takes their URL from the batch, which leads through the proxy with the agent's name and token."""
    async with serving(provider) as script, proxying(f"lab={script.url}", token="t-1") as proxy, sdk_http() as web:
        own = anthropic.AsyncAnthropic(
            api_key="k", base_url=f"{proxy.url}/token/t-1/agent/ann", http_client=web, max_retries=0
        )
        batch = await own.messages.batches.retrieve("b")
        assert batch.results_url == f"{proxy.url}/token/t-1/agent/ann/v1/messages/batches/b/results"
        async for line in await own.messages.batches.results("b"):
            assert line.custom_id == "one"
        polls = ["GET /v1/messages/batches/b"] * 4  # two calls, of which the first failed twice
        assert called(script) == [*polls, "GET /v1/messages/batches/b/results"]
