from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.perf import against, command, servers
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


def test_ratio_of_pairs() -> None:
    """What else the machine did in a turn hits both sides of it, so the ratio is the pairs' and not the medians'."""
    found = against.compared("request", "before", "us", [(100.0, 80.0), (300.0, 240.0), (100.0, 90.0)])
    assert (found.theirs, found.ours, found.ratio) == (100.0, 90.0, 0.8)
    assert [found.lower, found.upper] == pytest.approx([0.8, 0.85])
    assert against.table([found]).splitlines()[-1].startswith("| request | before | 100.0 us | 90.0 us | 0.800 |")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["nowhere"], "nowhere: no .venv/bin/python"), (["nowhere", "--pairs", "1"], "--pairs 1: at least 2")],
)
def test_nothing_to_compare_with(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree without an environment, or one turn, ends before anything is started."""
    assert against.main(arguments) == 2
    assert told in capsys.readouterr().err
