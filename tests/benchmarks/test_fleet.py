"""The program that measures a fleet: its figures, and a short run of it with faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet import result
from benchmarks.fleet.faults import short
from benchmarks.fleet.figures import text_of
from benchmarks.fleet.load import Asked
from benchmarks.fleet.network import network
from benchmarks.fleet.programs import REDIS
from benchmarks.fleet.result import LastMinute, Seen
from benchmarks.fleet.upstream import Arrival


@pytest.mark.first
@pytest.mark.e2e
@pytest.mark.skipif(REDIS is None, reason="redis-server isn't installed")
async def test_faults_lose_nothing(tmp_path: Path) -> None:
    """Redis killed and emptied and a proxy killed under load: the limit holds, and every agent gets its answers."""
    with network(3, isolated=False) as net:
        found = await short(net, tmp_path)
    assert found["dead"] == 0, found
    assert found["worst_window"] <= 1.02, found
    assert found["answered"] > 100, found


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


def test_a_wait_ends_with_the_last_attempt() -> None:
    """A request that was refused and sent again waited until then."""
    run = seen([Arrival(1, "w", 1, 429), Arrival(4, "w", 1, 200)], [Asked("w", 0.5, 5, 200)])
    assert result.waits(run) == [3.5]


def test_full_use_is_that_of_the_last_minute() -> None:
    """It is back with the request that fills the window."""
    last_minute = LastMinute(seen([Arrival(float(at), "", 1, 200) for at in (*range(50), *range(80, 140))]))
    assert last_minute.full_after(60.0) == pytest.approx(77, abs=1)
    assert last_minute.full_after(139.5) == 0
    assert last_minute.least(100.0, 130.0) == pytest.approx(30 / 60, abs=0.02)
    assert last_minute.least(5.0, 5.0) is None
    assert LastMinute(seen([])).full_after(0.0) is None


def test_what_a_killed_proxy_took_with_it_is_excused() -> None:
    """Any other request without an answer is lost."""
    asked = [Asked("a", 0, 1, 0, excused=True), Asked("b", 0, 1, 503), Asked("c", 0, 1, 200)]
    assert [each.word for each in result.lost(seen([], asked))] == ["b"]
    assert (result.summary(seen([], asked))["dead"], result.summary(seen([], asked))["excused"]) == (1, 1)


def test_the_manual_has_a_table_for_each_run() -> None:
    """Columns are runs, or rows are faults."""
    run = {**result.summary(seen([Arrival(1, "w", 1, 200)], [Asked("w", 0.5, 5, 200)])), "worst_share": 0.01}
    run["worst_share_whole"] = 0.0
    fault = {"lasted_s": 60.0, "worst_window": 1.0, "used_meanwhile": None, "used_after": 0.98, "refused": 0}
    fault |= {"lost": 0, "excused": 2, "back_s": None, "least_later": 0.5}
    runs = {"fleet": run, "apart": run, "tokens": run, "faults": {"faults": {"FLUSHALL": fault}}}
    text = text_of({"cores": 2, "version": "1", "namespaces": True, "runs": runs})
    assert "| | with `--fleet` | without |" in text.replace("|  |", "| |")
    assert "| FLUSHALL | 60.0 | 100.0 % |  | 98.0 % | 0 | 0 | 2 | never | 50.0 % |" in text
