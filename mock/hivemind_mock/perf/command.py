"""`hivemind perf`: what the proxy and its screen add to a request and an event, and what it carries beside nginx."""

from __future__ import annotations

import argparse

from hivemind.plugin import Command
from hivemind.server import run_loop
from hivemind_mock.output import JsonTarget, tell_progress
from hivemind_mock.perf import report, rounds, servers
from hivemind_mock.perf.verdicts import verdicts


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind perf`."""
    parser.add_argument("--quick", action="store_true", help="a minute and a half rather than four, and less exact")
    parser.add_argument("--json", metavar="FILE", help="write every measurement to a file; - for standard output")


def execute(namespace: argparse.Namespace) -> int:
    """Measure and print. A goal that was missed is a result, not an error, so the exit code is 0.

    Raises: UsageError: an argument can't be used. PerfError: a server couldn't be measured.
    """
    target = JsonTarget(namespace.json)
    sizes = rounds.QUICK if namespace.quick else rounds.FULL
    measured = run_loop(rounds.measure(sizes, nginx=servers.find_nginx(), progress=tell_progress))
    tell_progress("")
    judged = verdicts(measured)
    target.write(report.as_json(measured, judged))
    if not target.takes_output:
        tables = (report.loads_table, report.screen_table, report.journal_table)
        print(report.goals_table(judged), *(table(measured) for table in tables), sep="\n\n")
    return 0


command = Command(
    "perf", "measure what the proxy and its screen cost, beside going direct and beside nginx", configure, execute
)
"""What the entry point `perf` names."""
