"""Answers that are cut off on purpose, and faults of our own: the log tells them apart, and neither leaves anything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from proxy.kit import Close, Hang, Play, Reset, Running, between, raw, request
from proxy.wire import ANSWER, BLOCK_START, HELLO, MESSAGE_START, PLAIN_BODY, SSE, STREAM_BODY, chunk, head, http

from hivemind.proxy import exchange
from hivemind.proxy.cycle import Cycle
from hivemind.proxy.exchange import Exchange
from hivemind.proxy.response_writer import ResponseWriter
from hivemind.scheduler.commands import StopAgent

MESSAGES = "/v1/messages"
CONTENT = head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO)
CYCLE = "hivemind.proxy.cycle"
NO_RETRY = {"retry": {"max_attempts": 1}}


@contextlib.asynccontextmanager
async def over(proxy: Running) -> AsyncIterator[None]:
    """Check that nothing is kept of the requests of the block once they have ended."""
    yield
    plane = proxy.proxy.app
    await plane.idle()
    await proxy.until(lambda world: not (world.slots or world.queued))
    assert (plane.answering, plane._direct, plane._body_budget.used) == (0, 0, 0)
    assert not proxy.proxy.engine.tickets


CUTS: dict[str, tuple[Play, bytes]] = {
    "a stream is reset": ([CONTENT, Reset()], STREAM_BODY),
    "a stream is closed": ([CONTENT, Close()], STREAM_BODY),
    "a stream ends without its end marker": ([CONTENT + b"0\r\n\r\n"], STREAM_BODY),
}


@pytest.mark.parametrize(("play", "body"), CUTS.values(), ids=list(CUTS))
async def test_a_cut_on_purpose_is_said_plainly(play: Play, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """The upstream ended in the middle of its answer, so the client's connection does: a line tells of which request
    and why, and it isn't an error of ours."""
    caplog.set_level(logging.INFO, CYCLE)
    async with between(play, **NO_RETRY, hangs_s=5) as (proxy, _), raw(proxy.port) as client, over(proxy):
        await client.send(request(MESSAGES, body))
        assert not (await client.rest()).endswith(b"0\r\n\r\n")
    (record,) = [each for each in caplog.records if each.name == CYCLE]
    assert record.levelno == logging.INFO
    assert record.getMessage().startswith("an answer was truncated: request 1 of ")
    assert len(record.getMessage().rpartition(": ")[2]) > 10, "why"


async def test_an_agent_that_is_stopped_is_cut_off_plainly(caplog: pytest.LogCaptureFixture) -> None:
    """The operator's decision ends its stream, and the line says so."""
    caplog.set_level(logging.INFO, CYCLE)
    async with between([CONTENT, Hang()], hangs_s=5) as (proxy, _), raw(proxy.port) as client, over(proxy):
        await client.send(request(MESSAGES, STREAM_BODY, "x-hivemind-agent: ann"))
        await proxy.until(lambda world: [slot.state for slot in world.slots] == ["streaming"])
        proxy.proxy.engine.apply(StopAgent("ann", True), "you")
        assert not (await client.rest()).endswith(b"0\r\n\r\n")
    (record,) = [each for each in caplog.records if each.name == CYCLE]
    assert (record.levelno, "request 1 of ann: the operator stopped" in record.getMessage()) == (logging.INFO, True)


async def test_a_free_answer_is_cut_off_plainly(caplog: pytest.LogCaptureFixture) -> None:
    """A list of models, which costs nothing and is passed on as it comes."""
    caplog.set_level(logging.INFO, CYCLE)
    play: Play = [b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"data":[', Reset()]
    async with between(play) as (proxy, _), raw(proxy.port) as client, over(proxy):
        await client.send(request("/v1/models", b"", method="GET"))
        assert (await client.rest()).endswith(b'{"data":[')
    (record,) = [each for each in caplog.records if each.name == CYCLE]
    assert record.levelno == logging.INFO


async def test_an_answer_that_is_left_incomplete_by_mistake_is_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing said that it was to be cut, so it is a fault of ours."""

    async def finish(_: ResponseWriter, __: bytes = b"") -> None:
        pass

    monkeypatch.setattr(ResponseWriter, "finish", finish)
    end = chunk(b'event: message_stop\ndata: {"type":"message_stop"}\n\n') + b"0\r\n\r\n"
    async with between([CONTENT + end]) as (proxy, _), raw(proxy.port) as client, over(proxy):
        await client.send(request(MESSAGES, STREAM_BODY))
        await client.rest()
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == [
        "an application returned without a complete response"
    ]


class Broken(Exception):
    """A fault of ours."""


def before(function: Callable[..., Any]) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise Broken

    return fails


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def fails(*args: Any, **named: Any) -> Any:
        function(*args, **named)
        raise Broken

    return fails


@pytest.mark.parametrize(
    ("place", "name", "when"),
    [(exchange, "usage_so_far", before), (Cycle, "answer", before), (Cycle, "answer", after)],
    ids=["before its end is noted", "before the answer", "after the answer"],
)
async def test_a_fault_while_a_request_is_served_without_a_task_leaves_nothing(
    place: Any, name: str, when: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot, its place among those that are answered and its body's bytes are free, and its connection ends."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    with monkeypatch.context() as patch:
        async with between([ANSWER], tpm=10_000, hangs_s=5) as (proxy, _), raw(proxy.port) as client, over(proxy):
            await client.send(request(MESSAGES, PLAIN_BODY))
            await client.body((await client.head())[1])  # from now on a connection upstream is open
            patch.setattr(place, name, when(getattr(place, name)))
            await client.send(request(MESSAGES, PLAIN_BODY))
            await client.rest()
            patch.undo()


async def test_a_fault_in_a_task_is_an_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It is answered 500, and leaves nothing."""

    async def broken(_: Exchange) -> None:
        raise Broken

    monkeypatch.setattr(Exchange, "_attempts", broken)
    async with between([http(500)]) as (proxy, _), raw(proxy.port) as client, over(proxy):
        assert (await client.ask(request(MESSAGES, STREAM_BODY, "x-hivemind-agent: ann")))[0] == 500
    assert "an application failed" in [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
