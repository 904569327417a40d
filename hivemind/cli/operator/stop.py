"""`hivemind stop`: cut an agent off."""

from __future__ import annotations

import argparse

from hivemind.cli import client
from hivemind.cli.plugin import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="what it has in flight ends, what comes is refused")
    parser.add_argument("--undo", action="store_true", help="let it ask again")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    agent, stopped = namespace.agent, not namespace.undo
    told = f"{agent} is stopped" if stopped else f"{agent} may ask again"
    return client.send_command(namespace, client.find_proxy(namespace), told, "StopAgent", agent=agent, stopped=stopped)


command = Command(_configure, _run)
