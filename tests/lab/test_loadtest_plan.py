"""What is to be sent again: the requests of a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab.loadtest_kit import BEGAN, USED, arrived, body, failed, finished, journal, opened, request

from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, recorded_requests
from hivemind.lab.loadtest.result import make_plan
from hivemind.scheduler.events import Abandoned, AttemptFailed, Event, FirstContent, Granted, Refused
from hivemind.scheduler.types import FailureKind, Priority
from hivemind.world.state import Carried
from hivemind.world.world import World

GRANTED = Granted(BEGAN, 1, "ann", "lane", 1, 0.0)


def read(*events: Event) -> list[RecordedRequest]:
    """Return the requests of these events."""
    return recorded_requests(events, BEGAN)


def test_a_request_is_as_it_was_recorded() -> None:
    """Everything that tells what was asked, and how it went."""
    found = read(
        opened(),
        arrived(1, 2.0, asked=Priority.HIGH, stream=True),
        body(1, "{}"),
        Granted(BEGAN + 2.4, 1, "ann", "lane", 1, 0.4),
        FirstContent(BEGAN + 2.5, 1, "ann", "lane", 0.1),
        finished(1, 4.0),
    )
    assert found == [
        request(
            1, 2.0, priority=Priority.HIGH, stream=True, has_body=True, recorded=RequestResult(200, "", 0.5, 2.0, USED)
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "result"),
    [
        ([], RequestResult(None, "not over", None, None, None)),
        ([failed(1, 3, FailureKind.QUOTA, 402)], RequestResult(402, "quota", None, 3.0, None)),
        ([failed(1, 3, FailureKind.CONNECT, None)], RequestResult(502, "connect", None, 3.0, None)),
        ([failed(1, 3, FailureKind.TIMEOUT, None)], RequestResult(504, "timeout", None, 3.0, None)),
        ([Abandoned(BEGAN + 3, 1, "ann", "lane", True)], RequestResult(None, "left", None, 3.0, None)),
        ([Refused(BEGAN + 3, 1, "ann", "lane", "queue_full", 503)], RequestResult(503, "queue_full", None, 3.0, None)),
        (
            [GRANTED, FirstContent(BEGAN + 1, 1, "ann", "lane", 1.0), failed(1, 3, FailureKind.TRUNCATED, None)],
            RequestResult(200, "truncated", 1.0, 3.0, None),
        ),
        (
            [AttemptFailed(BEGAN + 1, 1, "ann", "lane", 1, FailureKind.OVERLOADED, 529, "", 0.5), finished(1, 2)],
            RequestResult(200, "", None, 2.0, USED),
        ),
    ],
)
def test_how_it_went_is_what_its_agent_saw(events: list[Event], result: RequestResult) -> None:
    """Attempts that were tried again don't show; what our own refusals were is known by their reason."""
    assert read(arrived(1, 0.0), *events)[0].recorded == result


def test_what_was_open_when_the_journal_begins_counts_from_there() -> None:
    """A journal that begins in the middle lists what is open."""
    world = World(at=BEGAN, wall=0.0, address="", upstreams=())
    for event in (opened(), arrived(1, -5.0)):
        world.apply(event)
    (found,) = read(Carried(BEGAN + 1, world.keep(BEGAN + 1)), finished(1, 3.0))
    assert (found.at_s, found.provider, found.recorded.status, found.recorded.took_s) == (1.0, "anthropic", 200, 2.0)


@pytest.mark.parametrize(
    ("chosen", "tickets"), [({}, [1, 2, 3, 4]), ({"from_s": 1.5, "to_s": 3.0}, [2, 3]), ({"most": 2}, [1, 2])]
)
def test_some_are_chosen(tmp_path: Path, chosen: dict[str, Any], tickets: list[int]) -> None:
    """By time since the journal began, and as many as are wanted."""
    file = journal(tmp_path / "run.jsonl", arrived(1, 1.0), arrived(2, 2.0, "bob"), arrived(3, 3.0), arrived(4, 4.0))
    assert [each.ticket for each in make_plan(open_journal(file), None, **chosen).requests] == tickets


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ((), "no request is in this journal"),
        ((arrived(1, 1.0),), "no request is chosen; the journal's come from 0 to 1 s after it began"),
    ],
)
def test_who_chooses_nothing_is_told(tmp_path: Path, events: tuple[Event, ...], text: str) -> None:
    """In one line that says what there is."""
    with pytest.raises(UsageError) as refused:
        make_plan(open_journal(journal(tmp_path / "run.jsonl", *events)), None, from_s=5.0)
    assert str(refused.value) == text


def test_a_body_that_was_not_kept_is_none() -> None:
    """Its request is made up."""
    found = read(arrived(1, 0.0), body(1, "{}"), arrived(2, 1.0), body(2, "", left_out="too long"))
    assert [each.has_body for each in found] == [True, False]
