"""Measure what the proxy and its screen add to a request and an event: `python -m benchmarks.perf`.

Beside them nginx, LiteLLM and Portkey, where they are installed: `LITELLM` names LiteLLM's program if it isn't on the
path, `PORTKEY` the `build/start-server.js` of `@portkey-ai/gateway` if that isn't in `node_modules` here.
"""

from __future__ import annotations

import argparse
import resource
import sys

from benchmarks.perf import report, rounds, servers
from benchmarks.perf.verdicts import verdicts
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind_mock.bench.main import JsonOutput, show_progress


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--quick",
        action="store_true",
        help="three minutes rather than six, less exact, and without LiteLLM and Portkey",
    )
    parser.add_argument("--data-plane", action="store_true", help="only requests and streams, also beside a screen")
    parser.add_argument("--json", metavar="FILE", help="write every measurement to a file; - for standard output")


def execute(namespace: argparse.Namespace) -> int:
    """Measure and print. A goal that was missed is a result, not an error, so the exit code is 0.

    Raises: UsageError: an argument can't be used. PerfError: a server couldn't be measured.
    """
    target = JsonOutput(namespace.json)
    sizes = rounds.QUICK if namespace.quick else rounds.FULL
    if namespace.data_plane:
        sizes = rounds.data_plane(sizes)
    others = rounds.Others(servers.find_nginx(), servers.find_litellm(), servers.find_portkey())
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    measured = run_loop(rounds.measure(sizes, others, progress=show_progress))
    show_progress("")
    judged = verdicts(measured)
    target.write(report.as_json(measured, judged, servers.versions(others.nginx, others.litellm, others.portkey)))
    if not target.replaces_tables:
        tables = (report.loads_table, report.screen_table, report.journal_table)
        print(report.goals_table(judged), *filter(None, (table(measured) for table in tables)), sep="\n\n")
    return 0


def main() -> int:
    """Measure, print and return the exit code: 2 for an argument that can't be used or a server that didn't start."""
    parser = argparse.ArgumentParser(prog="benchmarks.perf", description=__doc__)
    configure(parser)
    try:
        return execute(parser.parse_args())
    except HiveMindError as error:
        print(f"benchmarks.perf: {error}", file=sys.stderr)
        return 2
