"""What a request and its answer began with, found in a journal with bodies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from journal.played import BEGAN, indexed, journal, opened, some

from hivemind.journal.index.player import Player
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.world.snapshot import RequestDetail

_ENDS = (ev.Finished, ev.AttemptFailed)


def with_bodies(events: Sequence[ev.Event]) -> list[ev.Event]:
    """Each request tells its number in its path and a header, each answer its attempt's."""
    told: list[ev.Event] = []
    attempts: dict[int, int] = {}
    for event in events:
        told.append(event)
        if isinstance(event, ev.Arrived):
            sent = (("x-sent", str(event.ticket)),)
            told.append(RequestBody(event.at, event.ticket, "POST", f"/v1/{event.ticket}", sent, "{}" * 4000))
        if isinstance(event, ev.Granted):
            attempts[event.ticket] = event.attempt
        if isinstance(event, _ENDS) and event.ticket in attempts:
            number = attempts[event.ticket]
            told.append(ResponseBody(event.at, event.ticket, number, 200, (("x-attempt", str(number)),), "x" * 6000))
    return told


@pytest.fixture(params=[1, 3], name="recorded")
def _recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = journal(tmp_path, with_bodies(some(count=800)), request.param)
    first, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(first.replace(b'"bodies":false', b'"bodies":true') + b"\n" + rest)
    return indexed(path)


def heads(player: Player, ticket: int) -> tuple[RequestDetail, RequestDetail]:
    """What the world tells of it, and the same with its heads."""
    detail = player.world.detail(ticket, player.at)
    assert detail is not None
    return detail, player.with_heads(detail)


def test_every_request_has_its_own(recorded: Path) -> None:
    """In one part or several, and of several attempts the answer of the last that is over."""
    with closing(opened(recorded)) as player:
        assert player.bodies
        player.seek(player.ends_at)
        requests = player.world.requests(0, player.at).changed
        assert len(requests) > 50
        for request in requests:
            detail, found = heads(player, request.ticket)
            assert (found.method, found.path) == ("POST", f"/v1/{request.ticket}")
            assert found.request_headers == (("x-sent", str(request.ticket)),)
            over = [attempt for attempt in request.attempts if attempt.ended_at is not None]
            if over and over[-1].outcome != "left":
                assert found.response_headers == (("x-attempt", str(over[-1].number)),)
            assert replace(found, method="", path="", request_headers=(), response_headers=()) == detail


def test_what_was_not_recorded_stays_empty(tmp_path: Path) -> None:
    """Without bodies nothing is found, and where the file is gone nothing fails."""
    path = journal(tmp_path, some(count=300))
    with closing(opened(path)) as player:
        assert player.bodies is BEGAN.bodies is False
        player.seek(player.ends_at)
        ticket = player.world.requests(0, player.at).changed[0].ticket
        detail, found = heads(player, ticket)
        assert found == detail
        path.unlink()
        assert player.with_heads(detail) == detail
