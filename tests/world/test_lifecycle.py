"""The fold of requests: states, counts, waits, and events that begin in the middle of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from world.histories import History, Op
from world.kit import USED, abandoned, arrived, failed, finished, first_content, granted, refused, told
from world.test_state import STEPS

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried


def apply(requests: OpenRequests[Lifecycle], event: ev.Event) -> Lifecycle | None:
    """Have the event change the requests; return the one that it changed."""
    if isinstance(event, Carried):
        requests.carried(event)
        return None
    return requests.apply(event)


def folded(*events: ev.Event) -> tuple[OpenRequests[Lifecycle], Lifecycle | None]:
    """The open requests after these events, and the request that the last of them changed."""
    requests, request = OpenRequests(Lifecycle), None
    for event in events:
        request = apply(requests, event)
    return requests, request


def test_a_whole_life() -> None:
    """Waits, attempts and usage add up over a retry."""
    usage = Usage(5)
    events = [arrived(), granted(), first_content(at=1.5), failed(2.0, at=2.0, usage=usage), granted(at=5.0, attempt=2)]
    requests, request = folded(*events)
    assert request is not None
    assert (request.state, request.attempt, request.waited_s, request.last_error) == ("waiting", 2, 4.0, "rate limited")
    assert (requests.in_flight, requests.waiting) == (1, 0)
    assert requests.ended(finished(at=9.0, attempts=2)) is request
    assert (request.state, request.in_flight, request.usage) == ("answered", False, usage + USED)
    one, two = request.attempts
    assert (one.queued_at, one.first_content_at, one.ended_at, one.status, one.usage) == (0.0, 1.5, 2.0, 429, usage)
    assert (two.queued_at, two.first_content_at, two.ended_at, two.status, two.usage) == (4.0, None, 9.0, 200, USED)
    assert (requests.in_flight, requests.waiting, requests.by_ticket) == (0, 0, {})


@pytest.mark.parametrize(
    ("events", "state", "waited_s"),
    [
        ([arrived(), refused(at=5.0)], "refused", 5.0),
        ([arrived(), granted(), abandoned()], "left", 1.0),
        ([arrived(), abandoned(at=3.0)], "left", 3.0),
        ([arrived(), granted(), failed(None)], "failed", 1.0),
        ([arrived(), granted(), failed(2.0, at=2.0), refused(at=10.0)], "refused", 9.0),
        ([arrived(), granted(), failed(2.0, at=2.0), abandoned(at=3.0)], "left", 2.0),
    ],
)
def test_ends_and_waits(events: Sequence[ev.Event], state: str, waited_s: float) -> None:
    """The last wait counts too, and so does a pause before a retry."""
    requests, request = folded(*events)
    assert request is not None
    assert (request.state, request.waited_after(0.0)) == (state, waited_s)
    assert request.waited_after(request.end.at if request.end else 0.0) == 0.0
    assert (requests.by_ticket, requests.in_flight) == ({}, 0)


def test_a_retry_goes_back_to_the_queue() -> None:
    """In the order of the times at which the pauses end, which no event tells."""
    requests, _ = folded(arrived(), granted(), failed(4.0, at=2.0), arrived(2, "ben"), granted(2, "ben"))
    kind = failed(None).kind
    requests.attempt_failed(ev.AttemptFailed(3.0, 2, "ben", "up:1", 1, kind, 429, "", 1.0))
    assert requests.requeue_due(3.9) == []
    assert [(each.arrived.ticket, each.state, each.since) for each in requests.requeue_due(7.0)] == [
        (2, "queued", 4.0),
        (1, "queued", 6.0),
    ]
    assert requests.requeue_due(9.0) == []


def test_a_request_begins_with_the_state_that_lists_it() -> None:
    """It has its whole past, and its waits since that moment can be told apart."""
    past = [arrived(), granted(), failed(1.0, at=2.0), arrived(2, "ben", at=1.0)]
    state = told(*past).keep(4.0)
    requests, _ = folded(Carried(4.0, state))
    assert (requests.in_flight, requests.waiting) == (0, 2)
    request = requests.granted(granted(at=6.0, attempt=2))
    assert request is not None
    assert (request.known_from, request.arrived.at, request.attempt, len(request.attempts)) == (4.0, 0.0, 2, 2)
    requests.ended(finished(at=7.0))
    assert request.waited_after(0.0) == 5.0
    assert (request.waited_after(4.0), request.waited_after(5.5)) == (2.0, 0.5)


def test_a_state_in_the_middle_says_what_is_open() -> None:
    """Known requests stay the same ones; those that it doesn't list have ended unrecorded."""
    requests, _ = folded(arrived(), granted(), arrived(2, "ben"))
    ann = requests.by_ticket[1]
    state = told(arrived(), granted(), first_content(), arrived(3, "cem", at=2.0)).keep(4.0)
    new, lost = requests.carried(Carried(4.0, state))
    assert [(each.arrived.agent, each.known_from) for each in new] == [("cem", 4.0)]
    assert [each.arrived.agent for each in lost] == ["ben"]
    assert requests.by_ticket[1] is ann
    assert (ann.state, ann.known_from, requests.in_flight, requests.waiting) == ("streaming", 0.0, 1, 1)


def test_a_ticket_that_comes_twice_is_counted_once() -> None:
    """As in a damaged journal."""
    requests, _ = folded(arrived(), granted(), failed(5.0), arrived(at=3.0), granted(at=4.0), arrived(at=5.0))
    assert (requests.in_flight, requests.waiting) == (0, 1)


@given(st.lists(STEPS, max_size=80), st.floats(0, 1))
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_from_the_middle_everything_is_as_from_the_start(ops: Sequence[Op], share: float) -> None:
    """Whatever happened, and wherever the state is carried over; counts are those of the open requests."""
    events = History().after(ops)
    cut = round(share * len(events))
    state = told(*events[:cut]).keep(events[cut - 1].at if cut else 0.0)
    whole, part = folded(*events)[0], folded(Carried(state.at, state), *events[cut:])[0]
    assert [facts(each) for each in part.by_ticket.values()] == [facts(each) for each in whole.by_ticket.values()]
    assert (part.in_flight, part.waiting) == (whole.in_flight, whole.waiting)
    assert whole.in_flight == sum(each.state in ("waiting", "streaming") for each in whole.by_ticket.values())


def facts(request: Lifecycle) -> tuple[object, ...]:
    """What tells it from others; a retry pause that is over may be noted earlier or later."""
    state = "queued" if request.state == "retry" else request.state
    attempts = [(each.granted, each.first_content_at, each.end) for each in request.attempts[-5:]]
    return request.arrived, state, request.attempt, attempts, request.waited_s, request.usage, request.last_error
