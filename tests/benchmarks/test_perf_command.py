from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.perf import command, servers
from benchmarks.perf.target import PerfError
from hivemind.errors import UsageError
from hivemind.host.loop import run_loop


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(argv)


def test_json_unwritable(tmp_path: Path) -> None:
    """A file that can't be written is told before anything is measured."""
    with pytest.raises(UsageError, match="--json: can't write"):
        command.execute(arguments("--json", str(tmp_path / "nowhere" / "perf.json")))


def test_server_that_fails(tmp_path: Path) -> None:
    """A server that doesn't start is told with its own last words."""
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    program.chmod(0o755)

    async def start() -> None:
        async with servers.upstream() as direct, servers.nginx(str(program), direct):
            pass

    with pytest.raises(PerfError, match="nginx didn't start: no such thing"):
        run_loop(start())
