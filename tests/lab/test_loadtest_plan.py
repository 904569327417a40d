"""What is to be sent again: the requests of a journal."""

from __future__ import annotations

import pytest
from lab.loadtest_kit import BEGAN, USED, arrived, body, failed, finished, opened, request

from hivemind.errors import UsageError
from hivemind.lab.loadtest.requests import JournalRequests, RequestResult, Selection, predecessors
from hivemind.scheduler.events import Abandoned, AttemptFailed, Event, FirstContent, Granted, Refused
from hivemind.scheduler.types import FailureKind, Priority
from hivemind.world.state import Carried
from hivemind.world.world import World

GRANTED = Granted(BEGAN, 1, "ann", "lane", 1, 0.0)


def read(*events: Event) -> JournalRequests:
    """Return the requests of these events."""
    reading = JournalRequests(BEGAN)
    for event in events:
        reading.apply(event)
    return reading


def test_a_request_is_as_it_was_recorded() -> None:
    """Everything that tells what was asked, and how it went."""
    reading = read(
        opened(),
        arrived(1, 2.0, asked=Priority.HIGH, stream=True),
        body(1, "{}"),
        Granted(BEGAN + 2.4, 1, "ann", "lane", 1, 0.4),
        FirstContent(BEGAN + 2.5, 1, "ann", "lane", 0.1),
        finished(1, 4.0),
    )
    assert reading.requests(Selection()) == (
        request(
            1, 2.0, priority=Priority.HIGH, stream=True, has_body=True, recorded=RequestResult(200, "", 0.5, 2.0, USED)
        ),
    )  # fmt: skip


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
    assert read(arrived(1, 0.0), *events).requests(Selection())[0].recorded == result


def test_what_was_open_when_the_journal_begins_counts_from_there() -> None:
    """A journal that begins in the middle lists what is open."""
    world = World(at=BEGAN, wall=0.0, address="", upstreams=())
    for event in (opened(), arrived(1, -5.0)):
        world.apply(event)
    (found,) = read(Carried(BEGAN + 1, world.keep(BEGAN + 1)), finished(1, 3.0)).requests(Selection())
    assert (found.at_s, found.provider, found.recorded.status, found.recorded.took_s) == (1.0, "anthropic", 200, 2.0)


def test_some_are_chosen() -> None:
    """By agent, by time since the journal began, and as many as are wanted; in the order of their coming."""
    reading = read(arrived(3, 3.0), arrived(1, 1.0), arrived(2, 2.0, "bob"), arrived(4, 4.0))

    def tickets(selection: Selection) -> list[int]:
        return [each.ticket for each in reading.requests(selection)]

    assert tickets(Selection()) == [1, 2, 3, 4]
    assert tickets(Selection(("ann",))) == [1, 3, 4]
    assert tickets(Selection(("ann", "bob"), 1.5, 3.0)) == [2, 3]
    assert tickets(Selection(most=2)) == [1, 2]


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        (Selection(("anne",)), "--agents: 'anne' sent nothing in this journal; did you mean ann?"),
        (Selection(("zzz",)), "--agents: 'zzz' sent nothing in this journal; there are ann"),
        (Selection(from_s=5.0), "no request is chosen; the journal's come from 0 to 1 s after it began"),
    ],
)
def test_who_chooses_nothing_is_told(selection: Selection, text: str) -> None:
    """In one line that says what there is."""
    with pytest.raises(UsageError) as refused:
        read(arrived(1, 1.0)).requests(selection)
    assert str(refused.value) == text


def test_bodies_may_be_left_alone() -> None:
    """Somebody's conversations needn't be sent to somebody else; neither are those that weren't kept."""
    events = (arrived(1, 0.0), body(1, "{}"), arrived(2, 1.0), body(2, "", left_out="too long"))
    assert [each.has_body for each in read(*events).requests(Selection())] == [True, False]
    assert [each.has_body for each in read(*events).requests(Selection(), bodies=False)] == [False, False]


def test_a_request_follows_what_ended_last_before_it() -> None:
    """Of its own agent; one that came while all before it were still open follows none."""
    recorded = RequestResult(200, "", None, 1.0, None)
    requests = [
        request(1, 0.0, recorded=recorded),
        request(2, 0.5, recorded=recorded),
        request(3, 0.7, agent="bob", recorded=recorded),
        request(4, 1.2, recorded=recorded),
        request(5, 5.0, recorded=RequestResult(None, "not over", None, None, None)),
        request(6, 6.0),
    ]
    found = predecessors(requests)
    rounded = [None if each is None else (each[0], round(each[1], 6)) for each in found]
    assert rounded == [None, None, None, (0, 0.2), (3, 2.8), (3, 3.8)]
