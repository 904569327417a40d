"""The program that measures a fleet: its figures, and a short run of it with faults."""

from __future__ import annotations

import pytest

from benchmarks.fleet import result
from benchmarks.fleet.load import Asked
from benchmarks.fleet.result import Seen
from benchmarks.fleet.upstream import Arrival


def seen(arrivals: list[Arrival], asked: list[Asked] | None = None, limit: float = 60.0) -> Seen:
    return Seen(arrivals, asked or [], 0.0, 120.0, limit)


def test_the_fullest_window_is_found_wherever_it_begins() -> None:
    """Also across the turn of a minute; what is exactly a window old counts no more."""
    assert result.worst_window([(0.0, 1.0), (59.0, 2.0), (60.0, 4.0), (118.0, 8.0)]) == 14
    assert result.worst_window([]) == 0


def test_what_was_refused_is_not_used() -> None:
    """It counts as an attempt beyond the limit, but not as use of it."""
    run = seen([Arrival(1.0, "p1-a-1", 5, 200), Arrival(2.0, "p1-a-2", 5, 429)], limit=2)
    assert result.used(run, 0.0, 60.0) == 0.5
    assert (result.refused(run), result.refused(run, 3.0)) == (1, 0)
    assert result.summary(run)["worst_window"] == 1


def test_a_share_is_due_by_agents_with_a_request_under_way() -> None:
    """Two agents of three at one proxy are due two thirds, for as long as their requests last."""
    asked = [Asked("p1-a-1", 0, 9, 200), Asked("p1-b-1", 0, 9, 200), Asked("p2-c-1", 0, 9, 200)]
    found = result.shares(seen([Arrival(at, f"p{at}-a-1", 1, 200) for at in (1, 2)], asked), 0, 5)
    assert found == {"p1": (0.5, 0.6667), "p2": (0.5, 0.3333)}
    assert result.worst_share([found]) == pytest.approx(0.5, abs=0.01)


def test_what_a_killed_proxy_took_with_it_is_excused() -> None:
    """Any other request without an answer is lost."""
    asked = [Asked("a", 0, 1, 0, excused=True), Asked("b", 0, 1, 503), Asked("c", 0, 1, 200)]
    assert [each.word for each in result.lost(seen([], asked))] == ["b"]
    assert (result.summary(seen([], asked))["dead"], result.summary(seen([], asked))["excused"]) == (1, 1)
