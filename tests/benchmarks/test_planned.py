"""A plan's steps, one for each turn of a conversation, in every format that has tools; and the tally of what was
announced meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import pytest

from benchmarks.planned.plan import Plan, Step
from benchmarks.planned.provider import PlannedProvider
from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.provider.config import MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import InProcessTransport

PLAN = Plan((Step(run="echo hi"), Step(agent="count files", kind="general"), Step(say="All done.")))
CONFIG = MockConfig(reply=ReplyConfig(tokens=9, spread=0, cache_read=0.5, cache_write=0.25, cache_1h=0.5))
SHELL = {"type": "object", "properties": {"command": {}, "description": {}}, "required": ["command", "description"]}
AGENT = {"type": "object", "properties": {"prompt": {}, "subagent_type": {}}, "required": ["prompt"]}
SCHEMAS = {"wait": {"type": "object", "properties": {"command": {}}}, "bash": SHELL, "task": AGENT}
CALLS: list[tuple[str, object]] = [
    ("bash", {"command": "echo hi", "description": "as planned"}),
    ("task", {"prompt": "count files", "subagent_type": "general"}),
]
T = TypeVar("T")
Talk = Callable[[list[tuple[str, object]], bool], tuple[str, dict[str, Any]]]
"""Makes path and body of a request, from the calls so far and whether to stream."""


def played(
    config: MockConfig, scene: Callable[[PlannedProvider, httpx.AsyncClient], Awaitable[T]], plan: Plan | None = None
) -> T:
    """Play a scene with a provider and a client of it, in virtual time."""

    async def main() -> T:
        mock = PlannedProvider(config, plan, clock=asyncio.get_running_loop().time)
        async with httpx.AsyncClient(
            transport=InProcessTransport(mock), base_url="http://mock", timeout=None
        ) as client:
            return await scene(mock, client)

    return run_virtual(main())


def anthropic(calls: list[tuple[str, object]], stream: bool) -> tuple[str, dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "please"}]}]
    for number, (name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
        messages.append({"role": "assistant", "content": [block]})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        messages.append({"role": "user", "content": [result]})
    tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": messages, "tools": tools, "stream": stream}
    return "/v1/messages", body


def chat(calls: list[tuple[str, object]], stream: bool) -> tuple[str, dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "please"}]
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
    tools = [{"type": "function", "function": {"name": name, "parameters": each}} for name, each in SCHEMAS.items()]
    options = {"stream_options": {"include_usage": True}} if stream else {}
    body = {"model": "gpt-5.5", "messages": messages, "tools": tools, "stream": stream, **options}
    return "/v1/chat/completions", body


def responses(calls: list[tuple[str, object]], stream: bool) -> tuple[str, dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": "please"}]}]
    for number, (name, arguments) in enumerate(calls):
        call = {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": json.dumps(arguments)}
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "ok"}]
    spaced = {"type": "function", "name": "task", "parameters": AGENT}
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": name, "parameters": SCHEMAS[name]} for name in ("wait", "bash")
    ]
    tools.append({"type": "namespace", "name": "agents", "tools": [spaced]})
    return "/v1/responses", {"model": "gpt-5.5", "input": items, "tools": tools, "stream": stream}


def google(calls: list[tuple[str, object]], stream: bool) -> tuple[str, dict[str, Any]]:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "please"}]}]
    for name, arguments in calls:
        contents.append({"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]})
        response = {"functionResponse": {"name": name, "response": {"output": "ok"}}}
        contents.append({"role": "user", "parts": [response]})
    declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in SCHEMAS.items()]
    operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
    path = f"/v1beta/models/gemini-2.5-pro:{operation}"
    return path, {"contents": contents, "tools": [{"functionDeclarations": declared}]}


def objects(reply: httpx.Response) -> list[Any]:
    """The JSON objects of a whole answer or of a stream."""
    if "event-stream" not in reply.headers["content-type"]:
        return [reply.json()]
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def found(value: Any, *names: str) -> list[Any]:
    """All values under members of these names, in the order in which they stand there."""
    if isinstance(value, list):
        return [each for one in value for each in found(one, *names)]
    if not isinstance(value, dict):
        return []
    here = [inner for name, inner in value.items() if name in names]
    return here + [each for inner in value.values() for each in found(inner, *names)]


def read_anthropic(said: list[Any]) -> tuple[str, object]:
    blocks = [*found(said, "content_block"), *(each for content in found(said, "content") for each in content)]
    partial = "".join(found(said, "partial_json"))
    return blocks[0]["name"], json.loads(partial) if partial else blocks[0]["input"]


def read_chat(said: list[Any]) -> tuple[str, object]:
    functions = found(said, "function")
    return functions[0]["name"], json.loads("".join(each["arguments"] for each in functions))


def read_responses(said: list[Any]) -> tuple[str, object]:
    calls = [each for each in said[-1].get("response", said[-1])["output"] if each["type"] == "function_call"]
    deltas = "".join(each["delta"] for each in said if each.get("type") == "response.function_call_arguments.delta")
    assert calls[0].get("namespace") == {"task": "agents"}.get(calls[0]["name"])
    assert not deltas or deltas == calls[0]["arguments"]
    return calls[0]["name"], json.loads(calls[0]["arguments"])


def read_google(said: list[Any]) -> tuple[str, object]:
    (call,) = found(said, "functionCall")
    return call["name"], call["args"]


FORMATS: dict[str, tuple[Talk, Callable[[list[Any]], tuple[str, object]]]] = {
    "anthropic": (anthropic, read_anthropic),
    "openai_chat": (chat, read_chat),
    "openai_responses": (responses, read_responses),
    "google": (google, read_google),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_a_client_goes_through_the_plan(name: str, stream: bool) -> None:
    """Its shell tool, then its tool for sub-agents, then text; and the tally has what was announced each time."""
    make, read = FORMATS[name]

    async def scene(mock: PlannedProvider, client: httpx.AsyncClient) -> tuple[list[httpx.Response], Any]:
        asked = [make(CALLS[:turn], stream) for turn in range(3)]
        replies = [await client.post(path, json=body) for path, body in asked]
        return replies, mock.tally.views()

    replies, tally = played(CONFIG, scene, PLAN)
    assert [read(objects(reply)) for reply in replies[:2]] == CALLS
    assert "All done." in replies[2].text
    assert [entry["tool"] for entry in tally] == ["bash", "task", None]
    for reply, entry in zip(replies, tally, strict=True):
        stated = found(objects(reply), "usage", "usageMetadata")[-1]
        assert entry["announced"][("usage", "usageMetadata")[name == "google"]] == stated
        assert entry["cache_read_tokens"] == entry["input_tokens"] // 2
        assert entry["cache_write_tokens"] == (0 if name == "google" else entry["input_tokens"] // 4)
        assert entry["cache_write_1h_tokens"] == (entry["cache_write_tokens"] // 2 if name == "anthropic" else 0)
        assert (entry["output_tokens"], entry["dollars"] > 0) == (9, True)


def test_a_sub_agent_starts_no_other() -> None:
    """A conversation that was begun by a step of the plan ends with text, though it offers the same tools."""

    async def scene(mock: PlannedProvider, client: httpx.AsyncClient) -> str:
        path, body = anthropic([], False)
        body["messages"][0]["content"] = "You are to count files."
        return (await client.post(path, json=body)).text

    assert "All done." in played(CONFIG, scene, PLAN)


def test_what_nobody_announced_is_not_tallied() -> None:
    """A stream without usage, which the client didn't ask for, and a count of tokens."""

    async def scene(mock: PlannedProvider, client: httpx.AsyncClient) -> list[object]:
        path, body = chat([], True)
        await client.post(path, json={**body, "stream_options": None})
        path, body = anthropic([], False)
        await client.post(f"{path}/count_tokens", json=body)
        return [entry["announced"] for entry in mock.tally.views()]

    assert played(CONFIG, scene) == [None, None]


def test_its_account_tells_what_was_lost() -> None:
    """By agent and by key, in dollars: what expired, and what another model had."""
    text, more = "a" * 16_000, "b" * 8_000  # 4,000 and 2,000 tokens

    async def scene(mock: PlannedProvider, client: httpx.AsyncClient) -> dict[str, dict[str, float]]:
        async def ask(*texts: str, path: str = "/v1/messages", model: str = "claude-sonnet-5-5", **fields: Any) -> None:
            content: list[dict[str, Any]] = [{"type": "text", "text": each} for each in texts]
            content[-1]["cache_control"] = {"type": "ephemeral", "ttl": "5m"}
            body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": content}], **fields}
            await client.post(path, json=body, headers={"x-api-key": "k"})

        await ask(text, path="/agent/ann/v1/messages")
        await asyncio.sleep(301)
        await ask(text, path="/agent/ann/v1/messages")
        await ask(text, more, metadata={"user_id": "bob"})
        await ask(text, more, metadata={"user_id": "bob"}, model="claude-opus-5-5")
        return mock.tally.account()

    account = played(MockConfig(reply=ReplyConfig(cache=True, tokens=10, spread=0)), scene)
    sums = {who: (each["lost"], each["switched"]) for who, each in account.items()}
    assert sums["ann"] == pytest.approx((4_000 * (2.5 - 0.1) / 1e6, 0.0))
    assert sums["bob"] == pytest.approx((0.0, 6_000 * (5.0 - 0.2) / 1e6))
    (key,) = account.keys() - {"ann", "bob"}
    assert account[key]["dollars"] == pytest.approx(account["ann"]["dollars"] + account["bob"]["dollars"])
