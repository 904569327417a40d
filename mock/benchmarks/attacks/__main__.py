"""`python -m benchmarks.attacks`: put each attack on a proxy, and time what it answers to everybody else."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import msgspec

from benchmarks.attacks import upstream
from benchmarks.attacks.clients import ATTACKS, Aim, Attack
from benchmarks.attacks.slow import CONNECTIONS, MODES, PROGRAM, SlowResult, is_installed, measure_slow
from benchmarks.paths import environment
from benchmarks.perf import servers
from benchmarks.perf.load import percentile
from benchmarks.perf.target import Target
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

GOAL_MS = 100.0
"""The 99th percentile of what `/_health` takes while an attack runs."""
AT_LEAST_S = 2.0
"""Seconds that an attack is repeated for, so that there are enough answers to take a percentile of."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an attack did."""

    attack: str
    answers: dict[str, int]
    """By status, or by what came instead of an answer."""
    health_asked: int
    health_p50_ms: float
    health_p99_ms: float
    health_worst_ms: float
    verdict: str


async def measure(only: str, at_least_s: float = AT_LEAST_S) -> list[Result]:
    """Run the attacks whose name contains `only`, each on a proxy of its own, so that none suffers from another.

    Each is repeated for at least `at_least_s` seconds.
    """
    results = []
    chosen = [attack for attack in ATTACKS if only in attack.name]
    async with upstream.serving() as url:
        for number, attack in enumerate(chosen, 1):
            show_progress(f"{number} of {len(chosen)}: {attack.name}")
            async with servers.hivemind(Target("upstream", url)) as proxy:
                results.append(await _measured(attack, *proxy.address, at_least_s))
    return results


async def _measured(attack: Attack, host: str, port: int, at_least_s: float) -> Result:
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.attacks.probe", host, str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    assert probe.stdout is not None
    await probe.stdout.readline()
    aim = Aim(host, port, Counter())
    until = time.monotonic() + at_least_s
    while True:
        await asyncio.gather(*(attack.send(aim) for _ in range(attack.times)))
        if time.monotonic() >= until:
            break
    output, _ = await probe.communicate(b"")
    taken = sorted(json.loads(output))
    p50, p99 = (percentile(taken, share) for share in (0.5, 0.99))
    expected = {attack.refused} if attack.refused else {"200"}
    wrong = "" if not aim.answers or set(+aim.answers) <= expected else "answer"
    slow = "" if p99 <= GOAL_MS else "slow"
    verdict = " ".join(filter(None, (wrong, slow))) or "ok"
    return Result(attack.name, dict(+aim.answers), len(taken), p50, p99, taken[-1], verdict)


async def measure_all(only: str) -> tuple[list[Result], list[SlowResult]]:
    """Run the attacks, and the slow clients where their program is installed, whose name contains `only`."""
    results = await measure(only)
    slow = []
    for name in MODES if is_installed() else ():
        if only in name:
            show_progress(f"{CONNECTIONS:,} {name}")
            slow.append(await measure_slow(name))
    return results, slow


def _slow_table(results: Sequence[SlowResult]) -> str:
    rows = [
        (
            f"{one.connections:,} {one.attack}",
            one.verdict,
            f"{one.alone_p50_ms:.1f}",
            f"{one.p50_ms:.1f}",
            f"{one.alone_p99_ms:.1f}",
            f"{one.connecting_p99_ms:.1f}",
            f"{one.p99_ms:.1f}",
            f"{one.times:.1f}",
        )
        for one in results
    ]
    head = ("others beside", "verdict", "p50 alone", "p50 ms", "p99 alone", "connecting", "p99 ms", "times")
    return format_table([head, *rows], left=2)


def _table(results: Sequence[Result]) -> str:
    rows = [
        (
            one.attack,
            one.verdict,
            " ".join(f"{count}x{status}" for status, count in sorted(one.answers.items())),
            f"{one.health_asked}",
            f"{one.health_p50_ms:.1f}",
            f"{one.health_p99_ms:.1f}",
            f"{one.health_worst_ms:.1f}",
        )
        for one in results
    ]
    return format_table([("attack", "verdict", "answers", "/_health", "p50 ms", "p99 ms", "worst ms"), *rows], left=3)


def main() -> int:
    """Measure and print; an attack that did harm is a result, so the exit code is 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.attacks", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="the attacks whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file; - for standard output")
    namespace = parser.parse_args()
    try:
        target = JsonOutput(namespace.json)
        results, slow = run_loop(measure_all(namespace.only))
    except HiveMindError as error:
        print(f"benchmarks.attacks: {error}", file=sys.stderr)
        return 2
    show_progress("")
    found = {"attacks": [asdict(one) for one in results], "slow_clients": [asdict(one) for one in slow]}
    target.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if not target.replaces_tables:
        if results:
            print(_table(results))
        if slow:
            print(_slow_table(slow))
        elif not is_installed():
            print(f"{CONNECTIONS:,} slow clients: not measured, because {PROGRAM} isn't installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
