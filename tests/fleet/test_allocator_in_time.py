"""What the allocator promises over minutes: real schedulers and memberships under it, in virtual time."""

from __future__ import annotations

import pytest

from benchmarks.fleet.simulation import Case, Crowd, Run, Simulation, worst_minute
from hivemind.scheduler.types import Priority

pytestmark = pytest.mark.e2e
THREE = (Crowd(0, 30), Crowd(1, 15), Crowd(2, 5))
URGENT = Crowd(2, 1, Priority.CRITICAL, thinks_s=5.0)


def shares(run: Run, after_s: float) -> list[float]:
    """Return each proxy's share of what was sent after that."""
    sent = [sent.proxy for sent in run.sent if sent.at >= after_s]
    return [sent.count(proxy) / len(sent) for proxy in range(max(sent) + 1)]


def waits(run: Run, priority: Priority) -> list[float]:
    return sorted(sent.waited_s for sent in run.sent if sent.priority is priority)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_whole_limit_is_used_by_weight_and_never_more(seed: int) -> None:
    """Three proxies with clocks that differ send all that may be sent, in proportion to their agents."""
    run = Simulation(Case("steady", THREE, rpm=300, lasts_s=190.0, seed=seed)).run()
    assert worst_minute(run.sent) <= 300
    assert sum(sent.at < 184 for sent in run.sent) >= 0.97 * 3 * 300
    assert shares(run, 60.0) == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


@pytest.mark.slow
def test_a_small_limit_is_used_up_and_shared_by_weight() -> None:
    """Twenty requests a minute, which the class waits for so long that it ages."""
    run = Simulation(Case("small", THREE, rpm=20, lasts_s=190.0)).run()
    assert worst_minute(run.sent) == 20
    assert len(run.sent) == 80
    assert shares(run, 0.0) == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [{"lost": (40.0, 90.0)}, {"kills": ((70.0, 0),)}, {"away": (40.0, 80.0)}, {"cut_off": (40.0, 70.0, 0)}]
)
def test_no_fault_lets_more_be_sent(faults: dict[str, tuple[float, ...]]) -> None:
    """A proxy is killed, the store is away or loses its state, a proxy is cut off: not one request beyond the limit,
    and all is used again."""
    case = Case("faults", THREE, rpm=300, lasts_s=190.0, latency_s=1.0, **faults)  # type: ignore[arg-type]
    run = Simulation(case).run()
    assert worst_minute(run.sent) <= 303
    assert sum(sent.at >= 125 for sent in run.sent) >= 250


def test_critical_requests_get_the_next_free_slot() -> None:
    """Ten slots, full of others' requests: a CRITICAL request on the smallest proxy waits for the first that ends."""
    run = Simulation(Case("slots", (*THREE, URGENT), slots=10, lasts_s=90.0)).run()
    found = waits(run, Priority.CRITICAL)
    assert len(found) >= 10
    assert found[int(0.95 * len(found))] <= 2.0
    assert run.most_in_flight == 10


@pytest.mark.slow
def test_critical_requests_get_what_is_kept_of_the_limit() -> None:
    """Where requests a minute bind, a CRITICAL one doesn't wait for what others sent to be a minute ago."""
    run = Simulation(Case("rpm", (*THREE, URGENT), rpm=600, lasts_s=150.0)).run()
    found = waits(run, Priority.CRITICAL)
    assert found[int(0.95 * len(found))] <= 4.0
    assert worst_minute(run.sent) <= 600


@pytest.mark.slow
def test_slots_take_turns() -> None:
    """Twelve proxies share five slots: never more are in use, nearly all always are, and everyone has its turn."""
    crowds = tuple(Crowd(proxy, 2) for proxy in range(12))
    run = Simulation(Case("turns", crowds, slots=5, lasts_s=120.0, latency_s=1.0)).run()
    assert run.most_in_flight == 5
    assert len(run.sent) >= 0.75 * 5 * 120 / 1.13  # which is the mean latency
    assert min(shares(run, 0.0)) >= 0.75 / 12


@pytest.mark.slow
def test_more_proxies_than_requests_a_minute_take_turns() -> None:
    """Forty proxies share twenty requests a minute: all are sent, and nobody's second goes before another's first."""
    run = Simulation(Case("forty", tuple(Crowd(proxy, 1) for proxy in range(40)), rpm=20, lasts_s=64.0)).run()
    assert worst_minute(run.sent) == 20
    assert len(run.sent) == len({sent.proxy for sent in run.sent}) == 40


def test_demand_that_moves_finds_what_others_kept() -> None:
    """Credits and slots go to who wants them within a sync or two."""
    crowds = (Crowd(0, 12), Crowd(1, 12, begins_s=20.0))
    run = Simulation(Case("moves", crowds, rpm=6000, slots=12, lasts_s=45.0, latency_s=1.0)).run()
    assert sum(sent.at < 20 for sent in run.sent) / 20 > 7
    assert shares(run, 23.0) == pytest.approx([0.5, 0.5], abs=0.08)


def test_nothing_waits_while_there_is_enough() -> None:
    """Once each knows what requests take, spare credits are there before they come."""
    crowds = tuple(Crowd(proxy, 5, thinks_s=5.0) for proxy in range(3))
    run = Simulation(Case("enough", crowds, rpm=600, slots=50, lasts_s=80.0)).run()
    late = [sent for sent in run.sent if sent.at > 20]
    assert len(late) > 90
    assert not any(sent.waited_s for sent in late)
