"""`hivemind replay`: a load test that sends recorded traffic to a live target."""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

from hivemind.cli.address import FILE_HELP, add_folder_flags, folder_settings
from hivemind.cli.journals import open_named_journal, print_damage
from hivemind.cli.plugin import Command
from hivemind.errors import UsageError
from hivemind.journal.files import parse_moment
from hivemind.text.table import show, width

_INTERRUPTED = 130
_MOST = 10**9


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE --against URL [--speed N] [flags]"
    add = parser.add_argument
    add("file", metavar="FILE", help=FILE_HELP)
    add("--against", metavar="URL", help="the target: a provider, a mock, a gateway, or a HiveMind")
    add("--speed", metavar="N", default="1", help="send N times as fast [1]")
    begin = "begin there: 18:05, 2026-11-21T18:05, or a time since the beginning: 90s, 5m"
    add("--from", dest="from_", metavar="T", help=begin)
    add("--to", metavar="T", help="end there")
    add("--limit", metavar="N", help="most requests to send")
    add("--api-key-env", metavar="NAME", help="variable that holds the key [ANTHROPIC_API_KEY and the like]")
    add("--dry-run", action="store_true", help="print what would be sent, and send nothing")
    add("--yes", action="store_true", help="confirm that it may cost money")
    add("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.host.loop import run_loop
    from hivemind.lab.loadtest.result import as_json, as_text, make_plan, plan_as_json, plan_as_text
    from hivemind.lab.loadtest.sender import run_load_test
    from hivemind.lab.loadtest.target import target_of

    if namespace.against is None and not namespace.dry_run:
        raise UsageError("say where to with --against URL, or see what it would be with --dry-run")
    journal = open_named_journal(namespace)
    chosen = _chosen(namespace, journal.began.wall)
    target = None if namespace.against is None else target_of(namespace.against)
    try:
        plan = make_plan(journal, target, speed=_speed(namespace.speed), **chosen)
    finally:
        print_damage(journal)
    if target is None or namespace.dry_run:
        print(plan_as_json(plan)) if namespace.json else show(plan_as_text(plan))
        return 0
    settings = folder_settings(namespace)
    running = run_load_test(
        *(journal.path, plan, target, os.environ, settings), key_variable=namespace.api_key_env, confirmed=namespace.yes
    )
    result = run_loop(running)
    print(as_json(result)) if namespace.json else show(as_text(result, width()))
    return _INTERRUPTED if result.interrupted else 0


def _chosen(namespace: argparse.Namespace, began: float) -> dict[str, Any]:
    """Return which requests to send, as `make_plan` takes it. `began` is when the journal did, in seconds since the
    epoch. Raises: UsageError."""
    begin = 0.0 if namespace.from_ is None else parse_moment(namespace.from_, began) - began
    end = math.inf if namespace.to is None else parse_moment(namespace.to, began) - began
    if end < begin:
        raise UsageError("--to: must not be before --from")
    most = namespace.limit
    if most is not None and not (most.isdecimal() and most.isascii() and 0 < int(most[:20]) <= _MOST):
        raise UsageError(f"--limit: must be a whole number from 1 to {_MOST}, not {most[:40]!r}")
    return {"from_s": begin, "to_s": end, "most": None if most is None else int(most)}


def _speed(text: str) -> float:
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0.001 <= speed <= 10_000:
        raise UsageError(f"--speed: must be a number from 0.001 to 10000, not {text[:40]!r}")
    return speed


command = Command(_configure, _run)
