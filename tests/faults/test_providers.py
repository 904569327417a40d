"""What each provider was recorded to say, on real sockets: its refusals, and its 200s that are failures."""

from __future__ import annotations

import asyncio

import pytest
from faults.answers import Answer, Kind
from faults.cells import Cell, expected, run
from faults.formats import APIS, Api
from proxy.kit import Play
from proxy.wire import END, JSON, chunk, head

from hivemind.providers.errors import classify
from hivemind.providers.failing import failure_in
from hivemind.providers.known import providers
from hivemind.providers.table import Failing, Refusal

LONGEST_S = 2.0
"""Rows that ask for a longer wait are left to tests without sockets."""
NATIVE = {"anthropic": "anthropic", "google": "google"}


def _refusal(name: str, row: Refusal) -> Answer | None:
    body = row.example.encode()
    failure = classify(row.status, (), body, 0.0)
    assert failure is not None
    if failure.retryable and (failure.delay_s or 0.0) > LONGEST_S:
        return None
    lines = [f"HTTP/1.1 {row.status} -", JSON, f"content-length: {len(body)}", "", ""]
    play: Play = ["\r\n".join(lines).encode() + body]
    kind = Kind.TEMPORARY if failure.retryable else Kind.FINAL
    return Answer(name, kind, kind, lambda api, stream: play)


def _failing(name: str, row: Failing, *, reads: int) -> Answer:
    """The failure in so few reads, or with what is before and behind it in one; then a good end, as some send."""
    block = row.example.encode() + (b"\n\n" if row.stream else b"")

    def make(api: Api, stream: bool) -> Play:
        if not row.stream:
            return [b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n" % (JSON.encode(), len(block)), block]
        first = head(api.stream_type)
        if reads == 1:
            return [first + chunk(api.opening + block + b"data: [DONE]\n\n") + END]
        third = len(block) // 3
        pieces = [block[:third], block[third:-1], block[-1:]]
        wire = [first + chunk(api.opening), *map(chunk, pieces), chunk(b"data: [DONE]\n\n") + END]
        return [step for piece in wire for step in (piece, _read())]

    return Answer(f"{name}, {reads} reads", Kind.UNFIT, Kind.UNFIT, make)


def _is_retried(row: Failing) -> bool:
    """Whether it is retried; blank lines are passed on before the answer that follows."""
    failure = failure_in(row.example.encode().removeprefix(b"data: "))
    return bool(row.example.strip()) and (failure is None or failure.retryable)


def _read() -> asyncio.Event:
    """Something to wait for, in which what was written is read."""
    read = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, read.set)
    return read


def _cells() -> list[Cell]:
    cells = []
    for provider in providers():
        api = APIS[NATIVE.get(provider.name, "openai_chat")]
        for number, row in enumerate(provider.refusals):
            if answer := _refusal(f"{provider.name} {number}", row):
                cells.append(Cell(api, bool(number % 2), answer, lasting=False))
        for number, failing in enumerate(filter(_is_retried, provider.failing)):
            answers = [_failing(f"{provider.name} {number}", failing, reads=reads) for reads in (1, 3)]
            cells += [Cell(APIS["openai_chat"], failing.stream, answer, lasting=False) for answer in answers]
    return cells


@pytest.mark.slow
async def test_every_row() -> None:
    """A used-up plan is passed on as it came, a throttle and a failure are retried unseen."""
    found = await run(_cells())
    assert len(found) > 60
    wrong = [
        f"{cell}: {outcome!r}, not {expected(cell)!r}" for cell, outcome in found.items() if outcome != expected(cell)
    ]
    assert not wrong, "\n".join(wrong)
