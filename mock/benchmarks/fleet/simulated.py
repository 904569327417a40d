"""`python -m benchmarks.fleet.simulated --json FILE`: fleets in virtual time, and what a sync costs a real Redis.

Takes some minutes, most of them for the cases with a hundred proxies.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from benchmarks.fleet.simulation import Case, Crowd, Run, Simulation, worst_minute
from benchmarks.fleet.sync_cost import SyncCost, sync_costs
from benchmarks.perf.load import percentile
from hivemind.scheduler.types import Priority

FROM_S = 61.0
"""Shares and use count from here on; before, a whole window is there to be used at once."""
LASTS_S = FROM_S * 5
_THREE = (Crowd(0, 60), Crowd(1, 30), Crowd(2, 10))
_SHIFTED = (
    *(Crowd(0, 60, ends_s=183.0), Crowd(1, 30), Crowd(2, 10, ends_s=183.0)),
    *(Crowd(0, 10, begins_s=183.0), Crowd(2, 60, begins_s=183.0)),
)
_CRITICAL = Crowd(2, 1, Priority.CRITICAL, thinks_s=5.0)


def _hundred() -> tuple[Crowd, ...]:
    """1,000 agents on a hundred proxies, 1 to 19 on each; a tenth of the proxies halves or doubles its agents."""
    agents = [1 + (number * 7) % 19 for number in range(100)]
    for number in range(1000 - sum(agents)):
        agents[-1 - number] += 1
    rng, crowds = random.Random(7), []
    for proxy, count in enumerate(agents):
        shifts = proxy % 10 == 5 and count >= 4
        ends_s = 122.0 if shifts else float("inf")
        crowds.append(Crowd(proxy, count, ends_s=ends_s, thinks_s=1.0))
        if shifts:
            after = count // 2 if rng.random() < 0.5 else count * 2
            crowds.append(Crowd(proxy, after, begins_s=122.0, thinks_s=1.0))
    return (*crowds, Crowd(0, 1, Priority.CRITICAL, thinks_s=3.0))


CASES = (
    Case("demand 6:3:1", _THREE, rpm=600, lasts_s=LASTS_S),
    Case("demand 6:3:1 that turns to 1:3:6", _SHIFTED, rpm=600, lasts_s=LASTS_S),
    Case("the largest proxy is killed", _THREE, rpm=600, lasts_s=LASTS_S, kills=((122.0, 0),)),
    Case("the store is away for 60 s", _THREE, rpm=600, lasts_s=LASTS_S, away=(122.0, 182.0)),
    Case("the store loses its state", _THREE, rpm=600, lasts_s=LASTS_S, lost=(140.0,)),
    Case("the largest proxy is cut off for 30 s", _THREE, rpm=600, lasts_s=LASTS_S, cut_off=(122.0, 152.0, 0)),
    Case("20 requests a minute", _THREE, rpm=20, lasts_s=LASTS_S),
    Case("10 slots, a CRITICAL agent on the smallest", (*_THREE, _CRITICAL), slots=10, lasts_s=LASTS_S),
    Case("600 a minute, a CRITICAL agent on the smallest", (*_THREE, _CRITICAL), rpm=600, lasts_s=LASTS_S),
    Case(
        "100 proxies, 1,000 agents, 6,000 a minute, 3 killed",
        *(_hundred(), 6000),
        lasts_s=FROM_S * 3,
        kills=((100.0, 7), (110.0, 42), (120.0, 77)),
    ),
    Case(
        "100 proxies, 1,000 agents, 200 slots, 3 killed",
        *(_hundred(), 0, 200),
        lasts_s=FROM_S * 3,
        kills=((100.0, 7), (110.0, 42), (120.0, 77)),
    ),
)


class Figures(msgspec.Struct):
    """What is told of a case. Times in seconds."""

    name: str
    limit: int  # requests a minute; 0: none
    slots: int  # 0: no limit
    worst_minute: int
    used: float | None  # share of the limit
    shares: list[float]  # by proxy
    weights: list[float]  # likewise, of the agents
    misplaced: float  # share of all requests that other proxies would have sent by weight
    normal_s: tuple[float, float, float]  # waits: median, 95th percentile, longest
    critical_s: tuple[float, float, float] | None
    syncs_per_s: float  # of one proxy, those asked for at once among them


class Found(msgspec.Struct):
    """All that is written down."""

    cases: list[Figures]
    costs: list[SyncCost]


def figures_of(case: Case) -> Figures:
    """Simulate a case, and sum it up."""
    run = Simulation(case).run()
    sent = [each for each in run.sent if each.at >= FROM_S]
    proxies = max(crowd.proxy for crowd in case.crowds) + 1
    by_proxy = Counter(each.proxy for each in sent)
    shares = [by_proxy[proxy] / len(sent) for proxy in range(proxies)]
    weights = _weights(case, proxies)
    minutes = (case.lasts_s - FROM_S) / 60
    return Figures(
        case.name,
        case.rpm,
        case.slots,
        worst_minute(run.sent),
        len(sent) / (case.rpm * minutes) if case.rpm else None,
        shares,
        weights,
        sum(abs(share - weight) for share, weight in zip(shares, weights, strict=True)) / 2,
        _waits(run, Priority.NORMAL),
        _waits(run, Priority.CRITICAL) if any(each.priority is Priority.CRITICAL for each in sent) else None,
        run.syncs / proxies / case.lasts_s,
    )


def _weights(case: Case, proxies: int) -> list[float]:
    """Return the share of the agents that each proxy had, on average over the time that counts."""
    deaths = {proxy: at for at, proxy in case.kills}
    moments = [FROM_S + (case.lasts_s - FROM_S) * (step + 0.5) / 1000 for step in range(1000)]
    weights = [0.0] * proxies
    for at in moments:
        agents = [0] * proxies
        for crowd in case.crowds:
            if crowd.begins_s <= at < min(crowd.ends_s, deaths.get(crowd.proxy, float("inf"))):
                agents[crowd.proxy] += crowd.agents
        for proxy, count in enumerate(agents):
            weights[proxy] += count / sum(agents) / len(moments)
    return weights


def _waits(run: Run, priority: Priority) -> tuple[float, float, float]:
    waits = sorted(each.waited_s for each in run.sent if each.priority is priority and each.at >= FROM_S)
    return percentile(waits, 0.5), percentile(waits, 0.95), waits[-1]


def main(args: Sequence[str] | None = None) -> int:
    """Simulate every case, and measure."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.simulated", description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where to write what was found")
    namespace = parser.parse_args(args)
    costs = sync_costs()
    cases = []
    with ProcessPoolExecutor(2) as pool:
        for figures in pool.map(figures_of, CASES):
            print(f"{figures.name}: {figures.worst_minute} in the worst minute", file=sys.stderr)
            cases.append(figures)
    namespace.json.write_bytes(msgspec.json.format(msgspec.json.encode(Found(cases, costs))) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
