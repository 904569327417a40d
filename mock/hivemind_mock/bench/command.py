"""What the entry point `bench` names: it imports the benchmark only when that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.cli.plugin import Command

if TYPE_CHECKING:
    import argparse


def _configure(parser: argparse.ArgumentParser) -> None:
    from hivemind_mock.bench.main import configure

    configure(parser)


def _run(namespace: argparse.Namespace) -> int:
    from hivemind_mock.bench.main import execute

    return execute(namespace)


command = Command(_configure, _run, "run the benchmark: mock agents, direct and through HiveMind")
