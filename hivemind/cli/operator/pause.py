"""`hivemind pause`: hold an agent's requests, or everybody's."""

from __future__ import annotations

import argparse

from hivemind.cli import client
from hivemind.cli.plugin import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="hold its requests in the queue [everybody's]")
    parser.add_argument("--undo", action="store_true", help="let them go again")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    agent, paused = namespace.agent, not namespace.undo
    whose = "all requests" if agent is None else f"{agent}'s requests"
    told = f"{whose} wait; streams in flight go on" if paused else f"{whose} go on"
    proxy = client.find_proxy(namespace)
    if agent is None:
        return client.send_command(namespace, proxy, told, "PauseAdmissions", paused=paused)
    return client.send_command(namespace, proxy, told, "PauseAgent", agent=agent, paused=paused)


command = Command(_configure, _run)
