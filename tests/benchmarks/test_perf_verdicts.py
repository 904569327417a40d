from __future__ import annotations

import pytest

from benchmarks.perf import report
from benchmarks.perf.fleet import Answered
from benchmarks.perf.load import Load
from benchmarks.perf.rounds import Round
from benchmarks.perf.screen import Started
from benchmarks.perf.seeking import FIRST, INDEXED, UNREAD, Indexed, Sought
from benchmarks.perf.streams import Streamed
from benchmarks.perf.terminal import Held
from benchmarks.perf.verdicts import NO_NGINX, verdicts


def load(
    target: str, clients: int, *, per_s: float = 1000.0, p50_ms: float = 1.0, p99_ms: float = 3.0, cpu_us: float = 150.0
) -> Load:
    return Load(target, clients, int(per_s), per_s, p50_ms, 2.0, p99_ms, cpu_us)


def streamed(
    target: str,
    streams: int = 500,
    *,
    lost: int = 0,
    reordered: int = 0,
    p50_ms: float = 1.0,
    p99_ms: float = 3.0,
    worst_ms: float = 4.0,
    complete: int = 1500,
    cpu_us: float = 25.0,
) -> Streamed:
    return Streamed(target, streams, 1000, lost, reordered, p50_ms, 2.0, p99_ms, worst_ms, complete, cpu_us)


def held(worst_cpu_ms: float) -> Held:
    return Held("screen", 100, 3.0, 1, 20.0, "Panel#agents", worst_cpu_ms, "BandedScreen Key")


GOOD = Round(
    (
        load("direct", 1, p50_ms=0.1),
        load("hivemind", 1, p50_ms=0.35),
        load("hivemind", 16, per_s=2500.0),
        load("hivemind", 128, per_s=2500.0),
        load("nginx", 16, per_s=10_000.0),
        load("nginx", 128, per_s=10_000.0),
        streamed("direct"),
        streamed("hivemind", 100),
        streamed("hivemind", p50_ms=2.0, p99_ms=13.0),
        streamed("hivemind", 1500),
        streamed("no screen", cpu_us=17.0),
        streamed("screen", cpu_us=20.0),
        streamed("unread", 50, worst_ms=50.0),
        load("no screen", 1, p50_ms=0.5),
        load("screen", 1, p50_ms=0.65, p99_ms=13.0),
        load("no screen", 16, per_s=2000.0),
        load("screen", 16, per_s=1700.0),
        load("no screen", 128, per_s=2000.0),
        load("screen", 128, per_s=1700.0),
        load("not recording", 16, per_s=2000.0),
        load("recording", 16, per_s=1900.0),
        held(10.0),
        Started("screen", 1.0),
        *(Answered("fleet", kind, 10, 5.0, 50.0, 60.0) for kind in ("scroll", "filter", "sort")),
        *(Sought("journal", kind, 10, 20.0, 200.0, 30.0) for kind in (FIRST, UNREAD, INDEXED)),
        Indexed("journal", 1000.0, 3_000_000, 30.0, 0.05, 300.0, 200.0),
    )
)
BAD = Round(
    (
        load("direct", 1, p50_ms=0.1),
        load("hivemind", 1, p50_ms=0.36),
        load("hivemind", 16, per_s=2500.0, cpu_us=150.1),
        load("hivemind", 128, per_s=2499.0, cpu_us=150.1),
        load("nginx", 16, per_s=10_001.0),
        load("nginx", 128, per_s=10_001.0),
        streamed("direct"),
        streamed("hivemind", 100, cpu_us=25.1),
        streamed("hivemind", lost=1, p50_ms=2.1, p99_ms=13.1, cpu_us=25.1),
        streamed("hivemind", 1500, complete=1499),
        streamed("no screen", cpu_us=16.9),
        streamed("screen", cpu_us=20.0),
        streamed("unread", 50, reordered=1, worst_ms=51.0),
        load("no screen", 1, p50_ms=0.5),
        load("screen", 1, p50_ms=0.66, p99_ms=13.1),
        load("no screen", 16, per_s=2000.0),
        load("screen", 16, per_s=1699.0),
        load("no screen", 128, per_s=2000.0),
        load("screen", 128, per_s=1699.0),
        load("not recording", 16, per_s=2000.0),
        load("recording", 16, per_s=1899.0),
        held(10.1),
        Started("screen", 1.1),
        *(Answered("fleet", kind, 10, 5.0, 50.1, 60.0) for kind in ("scroll", "filter", "sort")),
        *(Sought("journal", kind, 10, 20.0, 200.1, 30.0) for kind in (FIRST, UNREAD, INDEXED)),
        Indexed("journal", 1000.0, 3_000_000, 30.0, 0.051, 200.0, 300.1),
    )
)


@pytest.mark.parametrize(("one", "verdict"), [(GOOD, "held"), (BAD, "missed")])
def test_verdicts(one: Round, verdict: str) -> None:
    """Each goal is met up to its limit, and missed beyond it."""
    assert {judged.verdict for judged in verdicts([one])} == {verdict}


def test_medians() -> None:
    """One disturbed round doesn't decide a goal; one lost event does, and so does one long step of the screen."""
    judged = {one.what: one.verdict for one in verdicts([GOOD, BAD, GOOD])}
    missed = [what for what, verdict in judged.items() if verdict == "missed"]
    assert missed == ["events lost", "events out of order", "screen's longest step, on a processor"]


def test_without_nginx() -> None:
    """What needs nginx is skipped with a word where it is missing, and the rest is judged."""
    alone = Round(tuple(seen for seen in GOOD.measured if seen.target != "nginx"))
    judged = verdicts([alone])
    assert [one.verdict for one in judged].count(NO_NGINX) == 2
    assert [one.verdict for one in judged].count("held") == 28
    assert NO_NGINX in report.goals_table(judged)
