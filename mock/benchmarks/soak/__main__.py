"""`python -m benchmarks.soak`: put a proxy under full load with random faults, disconnects and steering, and check that
no request is lost, answered twice or mixed up, that no invariant breaks, and that nothing grows.

Its figures for the manual: `python -m benchmarks.soak.report FILE docs/results-proxy.md`.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import msgspec

from benchmarks.soak.report import lines
from benchmarks.soak.run import Plan, soak
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind_mock.bench.main import JsonOutput, show_progress


def main() -> int:
    """Soak and print. The exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=60.0, metavar="N", help="how long [%(default)g]")
    add("--requests", type=int, default=0, metavar="N", help="so many, however long that takes; 0: by time [0]")
    add("--rate", type=float, default=0.0, metavar="N", help="requests a second; 0: as fast as it goes [0]")
    add("--agents", type=int, default=200, metavar="N", help="requests that may be out at once [%(default)s]")
    add("--visitors", type=int, default=200, metavar="N", help="names of short-lived agents [%(default)s]")
    add("--seed", type=int, default=None, metavar="N", help="the same choices again [new ones]")
    add("--json", metavar="FILE", help="write the results to a file; - for standard output")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr)
    plan = Plan(seed, given.minutes, given.rate, given.requests, given.agents, given.visitors)
    try:
        target = JsonOutput(given.json)
        with tempfile.TemporaryDirectory(prefix="hivemind-soak-", ignore_cleanup_errors=True) as folder:
            result = run_loop(soak(plan, Path(folder)))
    except HiveMindError as error:
        print(f"benchmarks.soak: {error}", file=sys.stderr)
        return 2
    show_progress("")
    found = asdict(result)
    target.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if not target.replaces_tables:
        print("\n".join(lines(found)))
    for line in result.broken:
        print(line, file=sys.stderr)
    return 1 if result.broken else 0


if __name__ == "__main__":
    sys.exit(main())
