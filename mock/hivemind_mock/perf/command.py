"""`hivemind perf`: what the proxy adds to a request and an event, and what it carries beside nginx."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.plugin import Command
from hivemind.server import run_loop

from . import report, rounds, servers
from .verdicts import verdicts


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind perf`."""
    parser.add_argument("--quick", action="store_true", help="half a minute rather than three, and less exact")
    parser.add_argument("--json", metavar="FILE", help="write every measurement to a file; - for standard output")


def execute(namespace: argparse.Namespace) -> int:
    """Measure and print. A goal that was missed is a result, not an error, so the exit code is 0.

    Raises: UsageError: an argument can't be used. PerfError: a server couldn't be measured.
    """
    target = _target(namespace.json)
    sizes = rounds.QUICK if namespace.quick else rounds.FULL
    measured = run_loop(rounds.measure(sizes, nginx=servers.find_nginx(), progress=_progress))
    _progress("")
    judged = verdicts(measured)
    as_json = report.as_json(measured, judged)
    if target is not None:
        target.write_bytes(as_json)
    if namespace.json == "-":
        sys.stdout.write(as_json.decode())
    else:
        print(report.goals_table(judged), report.loads_table(measured), sep="\n\n")
    return 0


command = Command("perf", "measure what the proxy costs: direct, through HiveMind, and nginx", configure, execute)
"""What the entry point `perf` names."""


def _target(text: str | None) -> Path | None:
    """The file to write, tried now rather than after minutes of work."""
    if text is None or text == "-":
        return None
    path = Path(text)
    try:
        path.touch()
    except OSError as error:
        raise UsageError(f"--json: can't write {text}: {error.strerror}") from None
    return path


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
