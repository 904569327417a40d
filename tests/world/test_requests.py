"""The request log: what is remembered, and what changed since somebody asked."""

from __future__ import annotations

import pytest
from msgspec import structs
from world.kit import LANE, USED, abandoned, arrived, commanded, failed, finished, first_content, granted, refused, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import ATTEMPTS_KEPT, ENDS, REQUESTS_PAGE, AttemptView, RequestView
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
