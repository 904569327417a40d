"""`python -m benchmarks.crash`: kill proxies, control rooms and runners at random moments, and check what they promise.

Needs the folder `tests` on the path too, as `make crash` has it: the provider that counts and the batches are there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from benchmarks.crash import runner, serving
from benchmarks.crash.result import Kill
from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

LOST_S = 1.0
"""Most seconds of usage that a kill may lose."""
DRAFTS = 12
"""Most files of writes that were cut short; each goes an hour after it was left."""


def schedule(kills: int, seed: int) -> list[tuple[str, str, random.Random]]:
    """Return what is killed and when: every moment of every victim in turn, in an order by the seed."""
    turns = [
        *(("proxy", moment) for moment in serving.MOMENTS),
        *(("room", moment) for moment in serving.MOMENTS),
        *(("batch", moment) for moment in runner.MOMENTS),
        ("run", "at random"),
    ]
    rng = random.Random(seed)
    chosen: list[tuple[str, str]] = []
    while len(chosen) < kills:
        rng.shuffle(turns)
        chosen += turns
    return [(victim, moment, random.Random(rng.random())) for victim, moment in chosen[:kills]]


async def measure(kills: int, seed: int, folder: Path, only: str = "") -> list[Kill]:
    """Kill so often. Those whose victim or moment doesn't contain `only` are left out."""
    done: list[Kill] = []
    chosen = [each for each in schedule(kills, seed) if only in f"{each[0]}, {each[1]}"]
    async with serving.serving_in(folder / "served", random.Random(seed)) as served:
        for number, (victim, moment, rng) in enumerate(chosen):
            show_progress(f"{number + 1} of {len(chosen)}: {victim}, {moment}")
            here = folder / f"{number}"
            try:
                if victim == "run":
                    done.append(await runner.kill_run(here, rng))
                elif victim == "batch":
                    done.append(await runner.kill_batch(here, moment, rng))
                else:
                    served.rng = rng
                    done.append(await served.kill(victim, moment))
            except TimeoutError:
                done.append(Kill(victim, moment, broken=["it hangs"]))
    return done


def broken(kills: Sequence[Kill], lost_s: float = LOST_S) -> list[str]:
    """Return the promises that weren't kept, a line each."""
    found = [f"{kill.victim}, {kill.moment}: {line}" for kill in kills for line in kill.broken]
    found += [f"{k.victim}, {k.moment}: {k.lost_s} s of usage are lost" for k in kills if k.lost_s > lost_s]
    found += [f"{k.victim}, {k.moment}: {k.drafts} drafts are left" for k in kills if k.drafts > DRAFTS]
    return found


def table(kills: Sequence[Kill]) -> str:
    """Return a line for each victim and moment."""
    groups: dict[tuple[str, str], list[Kill]] = {}
    for kill in kills:
        groups.setdefault((kill.victim, kill.moment), []).append(kill)
    rows = [
        (
            victim,
            moment,
            f"{len(group)}",
            f"{max(kill.lost_s for kill in group):.2f}" if victim in ("proxy", "room") else "-",
            f"{sum(kill.torn_lines for kill in group)}",
            f"{max(kill.drafts for kill in group)}",
            f"{sum(map(len, (kill.broken for kill in group)))}",
        )
        for (victim, moment), group in sorted(groups.items())
    ]
    return format_table([("killed", "moment", "kills", "lost s", "torn", "drafts", "broken"), *rows], left=2)


def main() -> int:
    """Kill and print. The exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="benchmarks.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how often [%(default)s]")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="the same kills again [a new one]")
    parser.add_argument("--only", default="", metavar="TEXT", help="kills whose victim or moment contains this")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file; - for standard output")
    namespace = parser.parse_args()
    seed = secrets.randbelow(10**6) if namespace.seed is None else namespace.seed
    print(f"seed {seed}", file=sys.stderr)
    try:
        target = JsonOutput(namespace.json)
        with tempfile.TemporaryDirectory(prefix="hivemind-crash-", ignore_cleanup_errors=True) as folder:
            kills = asyncio.run(measure(namespace.kills, seed, Path(folder), namespace.only))
    except HiveMindError as error:
        print(f"benchmarks.crash: {error}", file=sys.stderr)
        return 2
    show_progress("")
    wrong = broken(kills)
    found = {"seed": seed, "kills": [asdict(kill) for kill in kills], "broken": wrong}
    target.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if not target.replaces_tables:
        print(table(kills))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
