"""Http11Probe's cases on real sockets, through a proxy to an upstream that reads strictly: none fails, and the upstream
sees what the client meant, or nothing."""

from __future__ import annotations

import asyncio

import pytest
from door.http11probe import CASES, Case
from door.strict import origin, requests_in
from proxy.kit import Pairs, Raw, proxying, raw

SILENT_S = 0.05
"""Where nothing is to come, nothing is waited for so long."""
CLOSED, WAITS = "closed", "waits"


async def answers_to(direct: Raw, step: bytes, silent: bool) -> tuple[str, Pairs, bytes]:
    """Send a step, and return the status of its answer, or what came instead, and the answer's headers and body."""
    await direct.send(step)
    try:
        async with asyncio.timeout(SILENT_S if silent else None):
            status, headers = await direct.head()
    except TimeoutError:
        return WAITS, [], b""
    except (asyncio.IncompleteReadError, ConnectionError):
        return CLOSED, [], b""
    bodiless = step.lstrip().startswith(b"HEAD") or status in (204, 304)
    return str(status), headers, b"" if bodiless else await direct.body(headers)


def matches(status: str, patterns: str) -> bool:
    """Return whether a status is one of these: as it is, `2xx`, or any but `!101`."""
    return any(
        not matches(status, pattern[1:])
        if pattern.startswith("!")
        else status == pattern or status[0] + "xx" == pattern
        for pattern in patterns.split()
    )


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=pytest.mark.slow if n % 4 else ()) for n, case in enumerate(CASES)]
)
async def test_http11probe(case: Case) -> None:
    """What it calls a pass; a warning only where the table says why that is right."""
    async with (
        origin() as upstream,
        proxying(f"lab={upstream.url}", max_body_mb=1000) as proxy,
        raw(proxy.port) as direct,
    ):
        sent, status, body = b"", CLOSED, b""
        headers: Pairs = []
        for step in case.steps:
            sent += step
            status, headers, body = await answers_to(direct, step, WAITS in case.good)
            closing = dict(headers).get(b"connection") == b"close"
            if status in (CLOSED, WAITS) or closing:
                break
        good = matches(status, case.good)
        assert good or matches(status, case.fair), f"{status}: {body!r}"
        assert good or case.why
        if case.body is not None and status == "200":
            assert body == case.body
        if good and case.has:
            assert case.has in dict(headers)
        if case.closes or closing:
            assert await direct.rest() == b""
        refused = b"HiveMind: " in body
        if status == "400" and len(case.steps) == 1:
            assert refused
        meant, rest = requests_in(sent)
        seen = [each.what for each in upstream.seen]
        assert seen == [each.what for each in meant[: len(seen)]]
        answered_here = refused or status in ("204", "426") or b"HEAD /" in sent  # no upstream is asked
        assert len(seen) == len(meant) or rest == "malformed" or answered_here
    assert not upstream.broken


def test_all_cases() -> None:
    """Each has a name of its own."""
    assert len({case.name for case in CASES}) == len(CASES)
