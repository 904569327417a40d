"""What a client meant, strictly read, is what the upstream sees: one request is never two, nor a part of the next."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re

import pytest
from door.payloads import ALL, FAMILIES, FEW, Maker, Payload, payloads
from door.strict import Meant, Origin, origin, requests_in
from proxy.kit import Raw, Running, proxying, raw

AT_ONCE = 16
SILENT_S = 0.02
"""Where nothing is to come, nothing is waited for so long."""
PASSED = {200, 204, 405}
"""What the upstream answers."""
REFUSED = {400, 405, 408, 414, 417, 421, 426, 431, 501, 505}
_NUMBER = re.compile(rb"/([0-9]{6})(?![0-9])")


def last(number: int) -> bytes:
    """A request behind the payload, which shows by its answer whether both sides agree where the payload ended."""
    return b"GET /last/%06d HTTP/1.1\r\nhost: localhost\r\n\r\n" % number


async def statuses(direct: Raw, requests: list[Meant]) -> list[int]:
    """Read an answer for each request, and return their statuses; fewer where the connection ends before."""
    found: list[int] = []
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        for request in requests:
            status, headers = await direct.head()
            while status == 100:
                status, headers = await direct.head()
            found.append(status)
            if request.method != b"HEAD" and status not in (204, 304):
                await direct.body(headers)
    return found


async def send(proxy: Running, number: int, payload: Payload, pieces: random.Random | None) -> list[int]:
    """Send one payload, and return the statuses of its answers."""
    async with raw(proxy.port) as direct:
        if payload.first:
            await direct.send(payload.first)
            assert await statuses(direct, requests_in(payload.first)[0]) == [200]
        data = payload.data + last(number)
        meant, rest = requests_in(data)
        with contextlib.suppress(ConnectionError):
            while data and pieces is not None:
                size = pieces.randint(1, 12)
                await direct.send(data[:size])
                data = data[size:]
                await asyncio.sleep(0)
            await direct.send(data)
        found = await statuses(direct, meant)
        if rest == "malformed" and len(found) == len(meant):
            found += await statuses(direct, [Meant(b"", b"", b"")])  # the refusal
        elif rest == "incomplete" and len(found) == len(meant):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(direct.rest(), SILENT_S)
        return found


def differences(number: int, payload: Payload, found: list[int], upstream: list[Meant]) -> list[str]:
    """Compare what was meant by a payload with what the upstream saw and the client got."""
    meant, rest = requests_in(payload.data + last(number))
    before = requests_in(payload.first)[0]
    answered = list(zip(before + meant, [200] * len(before) + found, strict=False))
    passed = [request.what for request, status in answered if status in PASSED and not answered_here(request)]
    seen = [request.what for request in upstream]
    wrong = []
    if seen != passed:
        wrong.append(f"{seen} was seen of {passed}")
    if any(status in PASSED and not request.has_host for request, status in answered):
        wrong.append("a request without a host was served")
    if any(status not in PASSED | REFUSED for status in found):
        wrong.append(f"not an answer to this: {found}")
    if rest == "malformed" and len(found) > len(meant) and found[-1] not in REFUSED:
        wrong.append(f"what is malformed was answered {found[-1]}")
    return [f"{payload}: {text}" for text in wrong]


def answered_here(request: Meant) -> bool:
    """Return whether the proxy answers a request itself."""
    return request.target == b"*" or request.method in (b"TRACE", b"CONNECT")


async def compare(family: Maker, some: tuple[int, ...], *, every: int = 1, pieces: random.Random | None = None) -> int:
    """Send a family's payloads through one proxy, or one of `every` so many; return how many requests were served."""
    made = {number: each for number, each in enumerate(payloads(family, some)) if not number % every}
    if pieces is not None:
        made = {number: each for number, each in made.items() if not ends_connection(each)}
    async with origin() as upstream, proxying(f"lab={upstream.url}", hangs_s=60) as proxy:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, payload: Payload) -> list[int]:
            async with turns:
                return await send(proxy, number, payload, pieces)

        answers = await asyncio.gather(*(one(*each) for each in made.items()))
        seen = by_number(upstream)
    wrong = [
        text
        for (number, payload), found in zip(made.items(), answers, strict=True)
        for text in differences(number, payload, found, seen.pop(number, []))
    ]
    assert not wrong, f"{len(wrong)} of {len(made)}: " + "\n".join(wrong[:10])
    assert not seen
    assert not upstream.broken
    return len(upstream.seen)


def ends_connection(payload: Payload) -> bool:
    """Return whether a client that sends on may lose its answer."""
    return any(request.closes for request in requests_in(payload.data)[0])


def by_number(upstream: Origin) -> dict[int, list[Meant]]:
    """What was seen, by the number of the payload that it came from; -1 where it has none."""
    found: dict[int, list[Meant]] = {}
    for request in upstream.seen:
        number = _NUMBER.search(request.target)
        found.setdefault(int(number[1]) if number else -1, []).append(request)
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=[family.__name__ for family in FAMILIES])
async def test_few_bytes(family: Maker) -> None:
    """Some, with the bytes that parsers differ about; all of them are among those with every byte."""
    assert await compare(family, FEW, every=8)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=[family.__name__ for family in FAMILIES])
async def test_all_bytes(family: Maker) -> None:
    """With every byte, one payload of eleven."""
    assert await compare(family, tuple(ALL), every=11)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=[family.__name__ for family in FAMILIES])
async def test_in_pieces(family: Maker) -> None:
    """However it comes."""
    assert await compare(family, FEW, every=3, pieces=random.Random(7))
