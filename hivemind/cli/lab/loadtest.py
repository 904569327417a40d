"""A load test from the journal to its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hivemind.cli.journal.options import tell
from hivemind.host import server
from hivemind.journal.read.reader import Journal
from hivemind.lab.loadtest.plan import LoadTestOptions, make_plan
from hivemind.lab.loadtest.result import as_json, as_text, plan_as_json, plan_as_text
from hivemind.lab.loadtest.runner import run_load_test
from hivemind.lab.loadtest.target import target_of
from hivemind.settings import load
from hivemind.text.table import show, width

_INTERRUPTED = 130


def run(journal: Journal, options: LoadTestOptions, flags: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
    """Run a load test and print its result; `flags` are those of settings. Returns the exit code.

    Raises: UsageError: nothing was sent. Unreachable: the target doesn't answer.
    """
    target = None if options.against is None else target_of(options.against)
    try:
        plan = make_plan(journal, options, target)
    finally:
        tell(journal)
    if options.dry:
        print(plan_as_json(plan)) if options.json else show(plan_as_text(plan))
        return 0
    assert target is not None
    settings = load(flags, environ=environ, cwd=cwd, prog="hivemind replay")
    result = server.run_loop(run_load_test(journal.path, options, plan, target, environ, settings))
    print(as_json(result)) if options.json else show(as_text(result, width()))
    return _INTERRUPTED if result.interrupted else 0
