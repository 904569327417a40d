"""When requests go, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from lab.loadtest_kit import request

from hivemind.lab.loadtest.messages import OutgoingRequest
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, Sent
from hivemind.lab.loadtest.sender import Sender
from hivemind.lab.simulate.clock import run_virtual
from hivemind.providers.base import Facts
from hivemind.providers.paths import DIALECTS

ODD = "/odd"
SECOND = RequestResult(200, "", None, 1.0, None)


def message(each: RecordedRequest) -> OutgoingRequest | None:
    """Nothing much; there is none of an odd path."""
    if each.path == ODD:
        return None
    return OutgoingRequest(
        b"POST", each.path.encode(), [], str(each.ticket).encode(), DIALECTS["plain"], Facts(), False
    )


def sent(requests: Sequence[RecordedRequest], *, takes_s: float = 1.0, speed: float = 1.0) -> list[Sent]:
    """A run against something that takes so long for an answer."""

    async def send(_: OutgoingRequest) -> RequestResult:
        await asyncio.sleep(takes_s)
        return RequestResult(200, "", None, takes_s, None)

    async def run() -> list[Sent]:
        sender = Sender(send, message, speed=speed)
        await sender.run(requests)
        assert sender.in_flight == 0
        return sender.sent

    return run_virtual(run())


def moments(found: Sequence[Sent]) -> list[tuple[int, float, float]]:
    """Which, when, how late."""
    return [(each.request.ticket, round(each.at_s, 3), round(each.late_s, 3)) for each in found]


def test_requests_go_as_they_were_recorded() -> None:
    """Counted from the first, whatever the answers take; those of one moment go together."""
    requests = [request(1, 10.0), request(2, 10.0), request(3, 10.5), request(4, 14.0)]
    assert moments(sent(requests, takes_s=9.0)) == [(1, 0.0, 0.0), (2, 0.0, 0.0), (3, 0.5, 0.0), (4, 4.0, 0.0)]


@pytest.mark.parametrize(("speed", "at"), [(4.0, 1.0), (0.5, 8.0)])
def test_faster_or_slower(speed: float, at: float) -> None:
    """Times are divided."""
    assert moments(sent([request(1, 1.0), request(2, 5.0)], speed=speed)) == [(1, 0.0, 0.0), (2, at, 0.0)]


def test_it_can_be_stopped() -> None:
    """What was over is counted, what flies is given up, and nothing more goes."""

    async def send(each: OutgoingRequest) -> RequestResult:
        await asyncio.sleep(1.0 if each.body == b"1" else 100.0)
        return SECOND

    async def run() -> Sender:
        sender = Sender(send, message)
        going = asyncio.create_task(sender.run([request(1, 0.0), request(2, 0.0), request(3, 50.0)]))
        await asyncio.sleep(2.0)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        return sender

    sender = run_virtual(run())
    assert [each.request.ticket for each in sender.sent] == [1]
    assert sender.in_flight == 0
