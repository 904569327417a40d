"""What a run comes to."""

from __future__ import annotations

import pytest

from hivemind.journal.figures import FiguresFold, jain
from hivemind.journal.wait_causes import WaitCauses
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage


def arrived(at: float, ticket: int, agent: str, priority: Priority = Priority.NORMAL) -> ev.Arrived:
    """A request."""
    return ev.Arrived(at, ticket, agent, "lane", "model", "family", priority, True, 10, 10)


def run(*events: ev.Event) -> FiguresFold:
    """A tally of these."""
    tally = FiguresFold(lambda provider, model, usage: usage.total / 1000 if provider == "mock" else None)
    for event in (ev.LaneOpened(0.0, "lane", "up", "mock"), *events):
        tally.apply(event)
    return tally


def failed(
    at: float, ticket: int, agent: str, retry_in_s: float | None, usage: Usage | None = None
) -> ev.AttemptFailed:
    """An attempt that failed."""
    return ev.AttemptFailed(at, ticket, agent, "lane", 1, FailureKind.OVERLOADED, 529, "", retry_in_s, usage)


def finished(at: float, ticket: int, agent: str, attempts: int = 1) -> ev.Finished:
    """An answer."""
    return ev.Finished(at, ticket, agent, "lane", "model", 200, attempts, Usage(100, 0, 0, 50), 1.0)


def test_figures_without_causes_are_the_same() -> None:
    """Only why requests waited is left out."""
    events = (
        *(arrived(1.0, 1, "a"), ev.Granted(2.0, 1, "a", "lane", 1, 1.0), failed(3.0, 1, "a", 2.0)),
        *(ev.Granted(6.0, 1, "a", "lane", 2, 1.0), finished(8.0, 1, "a", 2)),
    )
    explained, bare = FiguresFold(), FiguresFold(explained=False)
    for event in (ev.LaneOpened(0.0, "lane", "up", "mock"), *events):
        explained.apply(event)
        bare.apply(event)
    assert explained.figures().causes != WaitCauses()
    assert bare.figures() == replace(explained.figures(), causes=WaitCauses())


def test_every_way_to_end_is_counted() -> None:
    """Answered after a retry, failed, refused, left, and one that isn't over."""
    events: list[ev.Event] = [
        arrived(1.0, 1, "a"),
        ev.Granted(2.0, 1, "a", "lane", 1, 1.0),
        failed(3.0, 1, "a", 2.0, Usage(7, 0, 0, 3)),
        ev.Granted(6.0, 1, "a", "lane", 2, 1.0),
        finished(8.0, 1, "a", 2),
        arrived(2.0, 2, "b", Priority.HIGH),
        ev.Granted(2.0, 2, "b", "lane", 1, 0.0),
        failed(4.0, 2, "b", None),
        arrived(2.0, 3, "c"),
        ev.Refused(7.0, 3, "c", "lane", "queue_full", 503),
        arrived(3.0, 4, "d"),
        ev.Granted(4.0, 4, "d", "lane", 1, 1.0),
        ev.Abandoned(9.0, 4, "d", "lane", True, Usage(20, 0, 0, 0)),
        arrived(9.0, 5, "e"),
    ]
    figures = run(*sorted(events, key=lambda event: event.at)).figures()
    assert (figures.agents, figures.finished, figures.requests, figures.open) == (5, 1, 5, 1)
    assert (figures.answered, figures.failed, figures.refused, figures.left) == (1, 1, 1, 1)
    assert (figures.attempts, figures.retries, figures.retried_ok, figures.busiest) == (4, 1, 1, 2)
    assert figures.wall_s == 8.0
    assert figures.waited_s == pytest.approx(4.0 + 0.0 + 5.0 + 1.0)
    assert (figures.tokens, figures.wasted_tokens) == (180, 30)
    assert figures.dollars == pytest.approx(0.18)
    assert list(figures.waits) == ["high", "normal"]
    assert (figures.waits["normal"].requests, figures.waits["normal"].p50_s, figures.waits["normal"].longest_s) == (
        3,
        4.0,
        5.0,
    )


def test_an_agent_with_an_open_request_has_not_finished() -> None:
    """So the figures of a run that goes on are those of the same run once its end has cut off what was open."""
    events = [arrived(1.0, 1, "a"), finished(2.0, 1, "a"), arrived(1.0, 2, "b"), finished(2.0, 2, "b")]
    events += [arrived(3.0, 3, "b")]
    live = run(*sorted(events, key=lambda event: event.at)).figures()
    ended = run(*sorted([*events, ev.Abandoned(4.0, 3, "b", "lane", False)], key=lambda event: event.at)).figures()
    assert live.finished == ended.finished == 1


def test_what_began_before_is_left_out() -> None:
    """Ends of requests whose arrival isn't in the journal count for nothing."""
    figures = run(finished(3.0, 9, "z"), failed(3.0, 8, "z", None), ev.Granted(3.0, 7, "z", "lane", 1, 5.0)).figures()
    assert (figures.requests, figures.answered, figures.wall_s, figures.waited_s) == (0, 0, 0.0, 0.0)


def test_an_unknown_price_is_no_price() -> None:
    """What can't be priced is told in tokens, and nothing of it is in the dollars."""
    tally = FiguresFold(lambda *_: None)
    for event in (arrived(0.0, 1, "a"), ev.Granted(0.0, 1, "a", "lane", 1, 0.0), finished(1.0, 1, "a")):
        tally.apply(event)
    assert (tally.figures().dollars, tally.figures().unpriced_tokens) == (None, 150)


def test_fairness_is_about_waiting() -> None:
    """One whose requests only waited, beside one whose never did."""
    assert jain([1.0, 1.0, 1.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 1.0


def test_what_was_used_beside_answers_counts() -> None:
    """Work in the background and other models are no requests, but cost what they cost."""
    figures = run(finished(3.0, 0, "ann", attempts=0)).figures()
    assert (figures.requests, figures.tokens, figures.dollars) == (0, 150, 0.15)
