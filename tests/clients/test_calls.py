"""What the official SDKs of OpenAI, Anthropic and Google call beside chat, sent directly and through HiveMind.

`make test-clients` runs the SDKs that are in an environment among HIVEMIND_CLIENTS; `calls/calls.py` has the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients.installed import PATH, missing, python_with
from proxy.kit import proxying
from proxy.wire import JSON, SSE, chunked, event, http
from starlette.types import Receive, Scope, Send

from hivemind.proxy.asgi import read_body
from hivemind.scheduler.commands import SetBudget
from hivemind_mock.provider.serve import serving as serving_app

pytestmark = pytest.mark.clients
CALLS = Path(__file__).with_name("calls") / "calls.py"
SDKS = {"openai": "openai", "anthropic": "anthropic", "google": "google-genai"}
HOPS = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "via", "date", "server"}
RESPONSE = {"id": "resp_1", "object": "response", "status": "queued", "background": True, "output": []}
EVENTS = chunked(
    [
        event("response.created", sequence_number=0, response=RESPONSE),
        event("response.completed", sequence_number=1, response={**RESPONSE, "status": "completed"}),
    ],
    SSE,
)
BYTES = http(200, b"\0\1\2" * 500, "content-type: application/octet-stream")
LINES = http(200, b'{"custom_id": "1", "result": {"type": "expired"}}\n' * 3, "content-type: application/x-jsonl")
LOCATED = http(200, b"{}", JSON, "x-goog-upload-status: active", "x-goog-upload-url: BASE/upload/v1beta/files?id=9")
KEPT = http(200, b'{"file": {"name": "files/f", "uri": "BASE/v1beta/files/f"}}', JSON, "x-goog-upload-status: final")
ANSWERS = {
    r"POST .*[?&]id=9 upload(?!.*finalize)": http(200, b"", "x-goog-upload-status: active"),
    r"POST .*[?&]id=9": KEPT,
    r"POST /upload/": LOCATED,
    r"POST /v1/responses .*stream|GET /v1/responses/\S*stream=true|POST \S*/runs .*\"stream\"|POST /v1/images\S+ .*"
    r"\"stream\"|GET .*/events/stream": EVENTS,
    r"POST /v1/audio/speech|GET \S*/content|GET \S*:download|GET \S*alt=media": BYTES,
    r"GET \S*/results": LINES,
    r"GET /v1/models\?|GET /v1/files\?limit=1 ": http(200, {"data": [], "has_more": False}),
}
OBJECT = {
    "id": "id_1",
    "name": "batches/b",
    "object": "x",
    "status": "completed",
    "data": [{"id": "a"}],
    "has_more": False,
    "results_url": "BASE/v1/messages/batches/msgbatch_1/results",
    "text": "x",
    "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
}
OTHER = http(200, json.dumps(OBJECT).encode(), JSON, "x-request-id: 1")
LENGTH = re.compile(r"'content-length': '\d+'")
"""It differs where links were rewritten."""
FAULTS = {
    "429": http(429, {"error": {"type": "rate_limit_error", "message": "no"}}, "retry-after: 0"),
    "503": http(503, {"error": {"type": "api_error", "message": "no"}}),
    "cut": b"",
}
ONLY_COMPUTES = re.compile(
    r"/(?:count_tokens|input_tokens|embeddings|moderations|responses/compact)$|:(?:countTokens|batchEmbedContents|embedContent)$"
)
"""POSTs that may be run twice, as chat may: they keep nothing."""


@dataclass
class Recorder:
    """An upstream that notes what it was asked."""

    fault: bytes | None = None
    """What the first request for each target gets within a call."""
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answered(reader, writer):
                pass
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        method, target, _ = line.split(" ")
        pairs = [(name.lower(), value) for name, _, value in (each.partition(": ") for each in fields)]
        headers, body = dict(pairs), b""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        first = not any(each["method"] == method and each["target"] == target for each in self.asked)
        kept = sorted((name, value) for name, value in pairs if name not in HOPS)
        self.asked.append({"method": method, "target": target, "headers": kept, "body": body})
        if first and self.fault is not None:
            writer.write(self.fault)
            return bool(self.fault)
        command = headers.get("x-goog-upload-command", "")
        asked = f"{method} {target} {command}{body[:2000].decode('latin-1')}"
        answer = next((each for pattern, each in ANSWERS.items() if re.match(pattern, asked, re.S)), OTHER)
        writer.write(self._located(answer))
        await writer.drain()
        return True

    def _located(self, answer: bytes) -> bytes:
        head, _, body = answer.partition(b"\r\n\r\n")
        body = body.replace(b"BASE", self.url.encode())
        head = re.sub(rb"(content-length: )\d+", rb"\g<1>%d" % len(body), head.replace(b"BASE", self.url.encode()))
        return head + b"\r\n\r\n" + body


@contextlib.asynccontextmanager
async def recorder(fault: bytes | None = None) -> AsyncIterator[Recorder]:
    """An upstream on a port of its own."""
    made = Recorder(fault)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 24)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


async def called(sdk: str, url: str, upstream: Recorder) -> dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Make all calls of an SDK; of each, what the upstream was asked and what the SDK got."""
    program = python_with(SDKS[sdk])
    if why := missing(program):
        pytest.skip(why)
    pipe = asyncio.subprocess.PIPE
    environ = {"PATH": PATH, "HOME": "/nonexistent"}
    process = await asyncio.create_subprocess_exec(
        program, "-W", "ignore", str(CALLS), sdk, url, stdin=pipe, stdout=pipe, env=environ, limit=1 << 24
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {}
    while line := await process.stdout.readline():
        told = json.loads(line.replace(url.encode(), b"BASE").replace(upstream.url.encode(), b"UPSTREAM"))
        if "begins" in told:
            upstream.asked = []
            process.stdin.write(b"\n")
        else:
            found[told["name"]] = upstream.asked, told
    assert await process.wait() == 0
    return found


HANGS_S = 300.0
SOCKETS = {"responses.connect", "realtime.connect", "live.connect"}
"""Not served: they are told so, and nothing of them reaches the provider."""
DECLINED = re.compile("426|SSL")
"""Live of google-genai asks for TLS whatever the base URL says."""


@pytest.mark.parametrize("sdk", SDKS)
async def test_beside_chat(sdk: str) -> None:
    """Requests and answers are the same bytes as directly, nothing goes past the proxy, and a WebSocket is declined."""
    async with recorder() as upstream:
        direct = await called(sdk, upstream.url, upstream)
        async with proxying(f"{sdk}={upstream.url}", hangs_s=HANGS_S) as running:
            through = await called(sdk, f"{running.url}/agent/a", upstream)
    assert direct.keys() == through.keys()
    wrong = {}
    for name, (asked, got) in direct.items():
        asked_through, got_through = through[name]
        if name in SOCKETS:
            if asked_through or not DECLINED.search(got_through["got"]):
                wrong[name] = [asked_through, got_through]
            continue
        for each in got_through["replies"]:
            each[1] = [pair for pair in each[1] if not pair[0].startswith("x-hivemind-")]
        for each in (*got["replies"], *got_through["replies"]):
            each[1] = sorted(pair for pair in each[1] if pair[0] not in HOPS)
            each[1:] = each[1:] if "BASE" not in each[3] and "UPSTREAM" not in each[3] else [each[1], "", each[3]]
        asked_through, asked = ([{**e, "body": e["body"][:3000]} for e in one] for one in (asked_through, asked))
        told, told_through = (
            LENGTH.sub("", json.dumps(each).replace("UPSTREAM", "BASE")) for each in (got, got_through)
        )
        if asked != asked_through or told != told_through:
            wrong[name] = [asked, asked_through, told, told_through]
    assert not wrong, "\n\n".join(f"{name}:\n" + "\n".join(map(str, told)) for name, told in wrong.items())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("sdk", SDKS)
async def test_nothing_that_creates_is_run_twice(sdk: str, fault: str) -> None:
    """After an outage or a cut only what looks, removes or keeps nothing is asked again."""
    async with recorder(FAULTS[fault]) as upstream, proxying(f"{sdk}={upstream.url}", hangs_s=HANGS_S) as running:
        through = await called(sdk, f"{running.url}/agent/a", upstream)
    again = []
    for name, (asked, got) in through.items():
        seen = [(each["method"], each["target"].partition("?")[0]) for each in asked]
        by_sdk = len(got["replies"]) >= len(seen)  # Google's asks again by itself
        again += [(name, *each) for each in dict.fromkeys(seen) if seen.count(each) > 1 and not by_sdk]
    looks = [each for each in again if each[1] not in ("POST", "PATCH") or ONLY_COMPUTES.search(each[2])]
    assert looks
    assert fault == "429" or looks == again


class Paid:
    """A provider of work in the background, batches and advised answers, that counts what each used."""

    def __init__(self) -> None:
        self.used = 0
        self._draw = random.Random(33)
        self._ids: dict[str, dict[str, int]] = {}
        self._looks: set[str] = set()

    def _use(self) -> dict[str, int]:
        usage = {"input_tokens": self._draw.randrange(9_000), "output_tokens": self._draw.randrange(9_000)}
        self.used += sum(usage.values())
        return usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive) or b""
        host = dict(scope["headers"])[b"host"].decode()
        media, answer = self._answer(scope["path"].removeprefix("/v1/"), body, f"http://{host}")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]})
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, path: str, body: bytes, url: str) -> tuple[bytes, bytes]:
        name = f"id_{len(self._ids)}"
        if path in ("responses", "messages/batches"):
            self._ids[name] = self._use()
        if path == "messages":
            return b"application/json", json.dumps(self._advised()).encode()
        if path.startswith("messages/batches") and not path.endswith("/results"):
            name, state = (name, "in_progress") if path.endswith("batches") else (path.split("/")[2], "ended")
            batch = {"id": name, "type": "message_batch", "processing_status": state}
            batch["results_url"] = f"{url}/v1/messages/batches/{name}/results"
            return b"application/json", json.dumps(batch).encode()
        if path.startswith("messages/batches/"):
            message = {"type": "message", "model": "claude-sonnet-4-5", "usage": self._ids[path.split("/")[2]]}
            line = {"custom_id": "1", "result": {"type": "succeeded", "message": message}}
            return b"application/x-jsonl", json.dumps(line).encode() + b"\n"
        name = name if path == "responses" else path.split("/")[1]
        begun = {**RESPONSE, "id": name, "usage": None}
        done = {**begun, "status": "completed", "usage": self._ids.get(name)}
        if b'"stream"' in body:
            events = event("response.created", sequence_number=0, response=begun)
            return b"text/event-stream", events + event("response.completed", sequence_number=1, response=done)
        ended = path != "responses" and name in self._looks
        self._looks.add(name)
        return b"application/json", json.dumps(done if ended else begun).encode()

    def _advised(self) -> dict[str, Any]:
        own, advice = self._use(), {**self._use(), "type": "advisor_message", "model": "claude-opus-4-6"}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
        usage = {**own, "iterations": [{**own, "type": "message"}, advice]}
        return {**message, "stop_reason": "end_turn", "usage": usage}


async def test_an_agent_that_only_uses_what_is_paid_beside_chat() -> None:
    """It ends at its budget as the provider counts it, by work in the background, batches and advisors alone."""
    program = python_with("anthropic")
    if why := missing(program):
        pytest.skip(why)
    provider, budget = Paid(), 1_000_000
    async with serving_app(provider) as url, proxying(f"lab={url}", hangs_s=HANGS_S) as running:
        running.proxy.engine.apply(SetBudget("a", tokens=budget), "test")
        spend = str(CALLS.with_name("spend.py"))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, spend, f"{running.url}/agent/a", stdout=pipe)
        assert (await process.communicate())[0] == b"400\n"
        agent = running.proxy.engine.find("a")
        assert agent is not None
        assert agent.own.ever.tokens == provider.used
        assert budget <= provider.used < 1.02 * budget
