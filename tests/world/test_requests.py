"""Requests as they are folded: states, counts, waits, what is remembered, and what changed since somebody asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from world.histories import History, Op
from world.kit import LANE, USED, abandoned, arrived, commanded, failed, finished, first_content, granted, refused, told
from world.test_state import STEPS

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority, Usage
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.snapshot import ATTEMPTS_KEPT, ENDS, REQUESTS_PAGE, AttemptView, RequestView
from hivemind.world.state import Carried
from hivemind.world.world import World


def only_request(world: World, at: float = 10.0) -> RequestView:
    """Of a world with one."""
    (view,) = world.requests(0, at).changed
    return view


def collected(world: World, since: int = 0) -> tuple[dict[int, RequestView], int]:
    """All that changed since, page by page, and the revision to go on from."""
    found: dict[int, RequestView] = {}
    while True:
        answer = world.requests(since, 1e6)
        found.update((view.ticket, view) for view in answer.changed)
        since = answer.revision
        if len(answer.changed) < REQUESTS_PAGE:
            return found, since


def test_an_answered_request_has_its_times_its_usage_and_its_attempt() -> None:
    """All on the proxy's clock."""
    view = only_request(told(arrived(), granted(at=1.0), first_content(at=3.0), finished(at=5.0)))
    assert (view.state, view.over, view.arrived_at, view.ended_at, view.waited_s) == ("answered", True, 0.0, 5.0, 1.0)
    assert (view.status, view.usage, view.output_tokens, view.estimated_tokens) == (200, USED, 40, 356)
    assert view.attempts == (AttemptView(1, 0.0, 1.0, 3.0, 5.0, "answered", 200, "", None),)
    assert (view.agent, view.lane, view.model, view.priority, view.stream) == (
        "ann",
        LANE,
        "model",
        Priority.NORMAL,
        True,
    )
    assert view.duration_s(99.0) == 5.0


@pytest.mark.parametrize(
    ("end", "state", "status", "outcome"),
    [
        (finished(), "answered", 200, "answered"),
        (failed(None), "failed", 429, "rate_limited"),
        (abandoned(), "left", None, "left"),
        (refused(), "refused", 503, "left"),
        (refused(reason="agent_stopped"), "stopped", 503, "left"),
    ],
)
def test_how_a_request_can_be_over(end: ev.Event, state: str, status: int | None, outcome: str) -> None:
    """Each end has its name."""
    assert state in ENDS
    view = only_request(told(arrived(), granted(), end))
    assert (view.state, view.status, view.ended_at) == (state, status, end.at)
    assert [attempt.outcome for attempt in view.attempts] == [outcome]


def test_one_that_is_cut_after_its_agent_was_stopped_says_so() -> None:
    """Its connection is gone, but it wasn't the client who left."""
    world = told(arrived(), granted(), commanded("StopAgent", agent="ann", stopped=True), abandoned())
    assert only_request(world).state == "stopped"


def test_asked_again_only_what_changed_is_told() -> None:
    """By number; a request that nothing happened to keeps its view."""
    world = told(arrived(1), arrived(2), arrived(3))
    first = world.requests(0, 1.0)
    assert [view.ticket for view in first.changed] == [1, 2, 3]
    assert world.requests(first.revision, 1.0).changed == ()
    for event in (granted(3), granted(1)):
        world.apply(event)
    second = world.requests(first.revision, 1.0)
    assert [(view.ticket, view.state) for view in second.changed] == [(1, "waiting"), (3, "waiting")]
    again = world.requests(0, 1.0).changed
    assert [view.ticket for view in again] == [1, 2, 3]
    assert again[1] is first.changed[1]
    assert again[0] is second.changed[0]


@pytest.mark.parametrize(
    "event",
    [
        granted(),
        ev.Progress(4.0, 1, "ann", LANE, 77),
        first_content(),
        failed(1.0),
        finished(),
        abandoned(),
        refused(),
        commanded("SetPriority", agent="ann", priority="high"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_whatever_happens_to_a_request_is_a_change(event: ev.Event) -> None:
    """To those who ask for changes."""
    world = told(arrived())
    known = world.requests(0, 0.5).revision
    world.apply(event)
    assert len(world.requests(known, 0.5).changed) == 1


def test_coming_back_to_the_queue_is_a_change() -> None:
    """Though no event tells of it."""
    world = told(arrived(), granted(), failed(30.0, at=2.0))
    answer = world.requests(0, 10.0)
    assert world.requests(answer.revision, 31.9).changed == ()
    assert [view.state for view in world.requests(answer.revision, 32.0).changed] == ["queued"]


def test_many_come_in_pages() -> None:
    """Those that changed first come first, and nobody is left out, though more changes while they are asked for."""
    world = told(*(arrived(n) for n in range(1, 2 * REQUESTS_PAGE + 10)))
    first = world.requests(0, 1.0)
    assert [view.ticket for view in first.changed] == list(range(1, REQUESTS_PAGE + 1))
    world.apply(granted(2))
    found, revision = collected(world, first.revision)
    assert set(found) == {2, *range(REQUESTS_PAGE + 1, 2 * REQUESTS_PAGE + 10)}
    assert found[2].state == "waiting"
    assert world.requests(revision, 1.0).changed == ()


def test_a_revision_of_another_life_gets_everything() -> None:
    """Who asks with one that was never given knew another proxy."""
    assert [view.ticket for view in told(arrived(1)).requests(999, 1.0).changed] == [1]


def test_the_newest_that_are_over_are_remembered_and_all_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are forgotten, and who asks is told where the remembered ones begin."""
    kept = 60
    monkeypatch.setattr("hivemind.world.request_log.REQUESTS_KEPT", kept)
    world = told(arrived(0), arrived(1))
    for n in range(2, kept + 12):
        world.apply(arrived(n))
        world.apply(finished(n))
    found, revision = collected(world)
    assert set(found) == {0, 1, *range(12, kept + 12)}
    assert world.requests(revision, 1.0).oldest == 0
    assert (world.detail(5, 1.0), world.detail(99_999, 1.0)) == (None, None)
    for n in (0, 1):
        world.apply(refused(n))
    found, revision = collected(world, revision)
    assert set(found) == {0, 1}
    for n in range(kept + 12, 2 * kept + 12):
        world.apply(arrived(n))
        world.apply(finished(n))
    answer = world.requests(revision, 1.0)
    assert answer.oldest == kept + 12
    assert len(collected(world)[0]) == kept


def test_of_very_many_attempts_the_first_and_the_last_are_kept() -> None:
    """The count of them and the waits stay right."""
    world = told(arrived())
    for n in range(1, 101):
        world.apply(ev.Granted(float(n), 1, "ann", LANE, n, 0.5))
        world.apply(failed(0.0, at=n + 0.5, attempt=n))
    view = only_request(world, 101.0)
    half = ATTEMPTS_KEPT // 2
    assert [attempt.number for attempt in view.attempts] == [*range(1, half + 1), *range(101 - half, 101)]
    assert view.waited_s == 50.0


@pytest.mark.parametrize("looks_at", [(99.0,), (1.5, 4.0, 8.5, 20.0)])
def test_joined_events_show_what_their_two_do(looks_at: tuple[float, ...]) -> None:
    """Whenever somebody looks, also at requests that got other events in between, and where an agent is boosted."""
    came = [arrived(each, f"agent-{each % 3}", float(each), stream=each % 2 > 0) for each in range(1, 10)]
    log: list[ev.Event] = [ev.GrantedOnArrival(**structs.asdict(each), attempt=1) for each in came]
    for each in came[:3] + came[4:]:
        log += [ev.AnsweredWhole(each.at + 5, each.ticket, each.agent, LANE, "model", 200, 1, USED, 5.0, 5.0)]
    log += [
        first_content(4, "agent-1", 5.5, 1.5),
        finished(4, "agent-1", 11.5),
        ev.Progress(6.5, 5, "agent-2", LANE, 7),
    ]
    log += [ev.LaneOpened(0.5, LANE, "up", "anthropic", None), ev.Noticed(99.5, "over")]
    log += [commanded("BoostAgent", 2.5, agent="agent-0", for_s=2.0)]
    one, other = told(), told()
    for event in sorted(log, key=lambda event: event.at):
        for at in [each for each in looks_at if each < event.at]:
            assert one.snapshot(event.at) == other.snapshot(event.at), at
            assert collected(one)[0] == collected(other)[0]
            looks_at = looks_at[1:]
        one.follow([event])
        other.follow(ev.apart(event))
    assert one.keep(100.0) == other.keep(100.0)
    assert [one.detail(each.ticket, 100.0) for each in came] == [other.detail(each.ticket, 100.0) for each in came]


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
