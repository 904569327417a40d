"""The official SDKs in some cells of the matrix: they return the whole answer, or raise an error of their own that says
what happened. Their own retries are off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import anthropic
import httpx2
import openai
import pytest
from faults.cells import (
    ERROR_EVENT,
    PASSED_ON,
    PROVIDERS_EVENT,
    PROVIDERS_STATUS,
    RETRIED,
    WHOLE,
    Cell,
    Mode,
    cells,
    expected,
    settings_of,
    upstream_of,
)
from faults.upstream import Broken, Ending
from proxy.kit import proxying
from proxy.sdk import sdk_http

pytestmark = pytest.mark.slow

TEXT = "one two three four "


@dataclass(slots=True)
class Call:
    """A call of an SDK."""

    stream: bool
    http: httpx2.AsyncClient
    url: str
    parts: list[str] = field(default_factory=list)
    """What it brought."""


async def _anthropic(call: Call) -> None:
    sdk = anthropic.AsyncAnthropic(api_key="k", base_url=call.url, max_retries=0, http_client=call.http)
    prompt: anthropic.types.MessageParam = {"role": "user", "content": "hi"}
    if not call.stream:
        message = await sdk.messages.create(model="mock-1", max_tokens=100, messages=[prompt])
        call.parts += [block.text for block in message.content if block.type == "text"]
        return
    async with sdk.messages.stream(model="mock-1", max_tokens=100, messages=[prompt]) as stream:
        async for part in stream.text_stream:
            call.parts.append(part)
        assert (await stream.get_final_message()).stop_reason == "end_turn"


async def _chat(call: Call) -> None:
    sdk = openai.AsyncOpenAI(api_key="k", base_url=f"{call.url}/v1", max_retries=0, http_client=call.http)
    prompt: openai.types.chat.ChatCompletionUserMessageParam = {"role": "user", "content": "hi"}
    if not call.stream:
        answer = await sdk.chat.completions.create(model="mock-1", messages=[prompt])
        call.parts.append(answer.choices[0].message.content or "")
        return
    reason = None
    async for chunk in await sdk.chat.completions.create(model="mock-1", messages=[prompt], stream=True):
        call.parts.append(chunk.choices[0].delta.content or "")
        reason = chunk.choices[0].finish_reason
    assert reason == "stop"


async def _responses(call: Call) -> None:
    sdk = openai.AsyncOpenAI(api_key="k", base_url=f"{call.url}/v1", max_retries=0, http_client=call.http)
    if not call.stream:
        call.parts.append((await sdk.responses.create(model="mock-1", input="hi")).output_text)
        return
    kind = ""
    async for event in await sdk.responses.create(model="mock-1", input="hi", stream=True):
        kind = event.type
        if event.type == "response.output_text.delta":
            call.parts.append(event.delta)
        elif event.type == "error":  # OpenAI's own is handed out like any event
            raise openai.APIError(event.message, httpx2.Request("POST", call.url), body=None)
    assert kind == "response.completed"


SDKS: dict[str, Callable[[Call], Awaitable[None]]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}


def _is_own(raised: Exception | None) -> bool:
    return isinstance(raised, anthropic.APIError | openai.APIError)


async def _wrong(cell: Cell) -> str:
    """What an SDK makes of a cell that it shouldn't; empty: nothing."""
    raised: Exception | None = None
    async with upstream_of(cell) as url, proxying(f"lab={url}", **settings_of(cell)) as proxy, sdk_http() as http:
        call = Call(cell.stream, http, proxy.url)
        try:
            await SDKS[cell.api.name](call)
        except Exception as error:
            raised = error
    problem = _problem(expected(cell).seen, "".join(call.parts), raised)
    return f"{cell}: {problem}: {raised!r} after {call.parts}" if problem else ""


def _problem(seen: str, text: str, raised: Exception | None) -> str:
    if seen in (WHOLE.seen, RETRIED.seen):
        return "" if raised is None and text == TEXT else "no success"
    if raised is None:
        return "no error"
    if seen in (ERROR_EVENT.seen, PROVIDERS_EVENT.seen):
        told = "HiveMind: the answer broke off: " if seen == ERROR_EVENT.seen else "Overloaded"
        return "" if _is_own(raised) and told in str(raised) and TEXT.startswith(text) else "no error event"
    if seen in (PASSED_ON.seen, PROVIDERS_STATUS.seen):
        return "" if isinstance(raised, anthropic.APIStatusError | openai.APIStatusError) else "no status"
    fits = getattr(raised, "status_code", None) == int(seen) and _is_own(raised) and "HiveMind: " in str(raised)
    return "" if fits and not text else "another status"


def _chosen() -> Iterator[Cell]:
    """Every way and moment for attempts to end; of other answers the errors."""
    for cell in cells():
        if cell.api.name not in SDKS or (cell.ending is Ending.REFUSED and not cell.lasting):
            continue
        if cell.mode is not Mode.USUAL:
            continue
        if isinstance(cell.fault, Broken) or (cell.lasting and cell.fault.name[0] in "45"):
            yield cell


async def test_every_ending() -> None:
    """Every way and moment for an attempt to end, and every error."""
    free = asyncio.Semaphore(24)

    async def one(cell: Cell) -> str:
        async with free:
            return await _wrong(cell)

    wrong = [found for found in await asyncio.gather(*map(one, _chosen())) if found]
    assert not wrong, "\n".join(wrong)
