"""`hivemind replay`: a load test that sends recorded traffic to a live target."""

from __future__ import annotations

import argparse
import math
import os
import re
from typing import TYPE_CHECKING

from hivemind.cli.address import FILE_HELP, add_folder_flags, folder_settings
from hivemind.cli.journals import open_named_journal, print_damage
from hivemind.cli.plugin import Command
from hivemind.errors import UsageError
from hivemind.journal.files import parse_moment
from hivemind.text.table import show, width

if TYPE_CHECKING:
    from hivemind.lab.loadtest.requests import Selection

_INTERRUPTED = 130
_MOST_AT_ONCE = 100_000
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE --against URL [--speed N] [flags]"
    add = parser.add_argument
    add("file", metavar="FILE", help=FILE_HELP)
    add("--against", metavar="URL", help="the target: a provider, a mock, a gateway, or a HiveMind")
    add("--speed", metavar="N", default="1", help="send N times as fast [1]")
    add("--think", action="store_true", help="agents wait for each answer, then pause as long as recorded")
    add("--agents", metavar="A,B", help="only requests of these agents")
    begin = "begin there: 18:05, 2026-11-21T18:05, or a time since the beginning: 90s, 5m"
    add("--from", dest="from_", metavar="T", help=begin)
    add("--to", metavar="T", help="end there")
    add("--limit", metavar="N", help="most requests to send")
    add("--concurrency", metavar="N", default="0", help="most in flight at once [0: no limit]")
    add("--synthetic", action="store_true", help="make up all requests, even if the journal has their bodies")
    add("--agent-header", metavar="NAME", help="header with the agent's name [x-hivemind-agent, for a HiveMind]")
    add("--api-key-env", metavar="NAME", help="variable that holds the key [ANTHROPIC_API_KEY and the like]")
    add("--token-env", metavar="NAME", help="variable that holds a HiveMind's agent token [HIVEMIND_TOKEN]")
    add("--dry-run", action="store_true", help="print what would be sent, and send nothing")
    add("--yes", action="store_true", help="confirm that it may cost money")
    add("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.host.loop import run_loop
    from hivemind.lab.loadtest.result import LoadTestOptions, as_json, as_text, make_plan, plan_as_json, plan_as_text
    from hivemind.lab.loadtest.sender import run_load_test
    from hivemind.lab.loadtest.target import target_of

    if namespace.against is None and not namespace.dry_run:
        raise UsageError("say where to with --against URL, or see what it would be with --dry-run")
    header = namespace.agent_header
    if header is not None and not _HEADER.fullmatch(header):
        raise UsageError("--agent-header: must be the name of a header")
    journal = open_named_journal(namespace)
    options = LoadTestOptions(
        selection=_selection(namespace, journal.began.wall),
        speed=_speed(namespace.speed),
        think=namespace.think,
        max_in_flight=_whole(namespace.concurrency, "--concurrency", 0, _MOST_AT_ONCE),
        synthetic=namespace.synthetic,
        agent_header=header,
        key_variable=namespace.api_key_env,
        token_variable=namespace.token_env,
        confirmed=namespace.yes,
    )
    target = None if namespace.against is None else target_of(namespace.against)
    try:
        plan = make_plan(journal, options, target)
    finally:
        print_damage(journal)
    if target is None or namespace.dry_run:
        print(plan_as_json(plan)) if namespace.json else show(plan_as_text(plan))
        return 0
    settings = folder_settings(namespace)
    result = run_loop(run_load_test(journal.path, plan, target, os.environ, settings))
    print(as_json(result)) if namespace.json else show(as_text(result, width()))
    return _INTERRUPTED if result.interrupted else 0


def _selection(namespace: argparse.Namespace, began: float) -> Selection:
    """`began` is when the journal did, in seconds since the epoch. Raises: UsageError."""
    from hivemind.lab.loadtest.requests import Selection

    names = () if namespace.agents is None else tuple(filter(None, map(str.strip, namespace.agents.split(","))))
    if namespace.agents is not None and not names:
        raise UsageError("--agents: must be names of agents, separated by commas")
    begin = None if namespace.from_ is None else parse_moment(namespace.from_, began) - began
    end = None if namespace.to is None else parse_moment(namespace.to, began) - began
    if begin is not None and end is not None and end < begin:
        raise UsageError("--to: must not be before --from")
    most = None if namespace.limit is None else _whole(namespace.limit, "--limit", 1, 10**9)
    return Selection(names, begin, end, most)


def _speed(text: str) -> float:
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0.001 <= speed <= 10_000:
        raise UsageError(f"--speed: must be a number from 0.001 to 10000, not {text[:40]!r}")
    return speed


def _whole(text: str, flag: str, least: int, most: int) -> int:
    if not text.isdecimal() or not text.isascii() or not least <= int(text[:20]) <= most:
        raise UsageError(f"{flag}: must be a whole number from {least} to {most}, not {text[:40]!r}")
    return int(text)


command = Command(_configure, _run)
