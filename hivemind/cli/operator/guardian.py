"""Puts a proxy's settings back if the command that experiments with them is killed.

Run as a child process: it is told on standard input what was set before, and acts when that ends without `done`.
"""

from __future__ import annotations

import sys
import time

import msgspec

from hivemind.cli import changes
from hivemind.cli.client import ProxyClient, ProxyError
from hivemind.control.discovery import ProxyAddress, Token

_TRIES = 30
_BETWEEN_TRIES_S = 1.0


class Kept(msgspec.Struct, frozen=True):
    """What to put back, and where."""

    url: str
    port: int
    token: str
    who: str
    upstream: str | None
    before: dict[str, float]
    changed: dict[str, float]
    """What the experiment turns them to; another value is somebody else's, and stays."""


def put_back(proxy: ProxyClient, kept: Kept) -> tuple[str, ...]:
    """Put back each knob that is still as the experiment turned it; return those that somebody else turned.

    Raises: ProxyError.
    """
    foreign = []
    for name, value in kept.before.items():
        found = set(changes.knob_values(proxy, name, kept.upstream).values())
        if kept.changed[name] in found:
            proxy.command("Tune", knob=name, value=value, upstream=kept.upstream)
        elif found - {value}:
            foreign.append(name)
    return tuple(foreign)


def main() -> int:
    """Watch over one experiment; return the exit code."""
    kept = msgspec.json.decode(sys.stdin.buffer.readline(), type=Kept)
    proxy = ProxyClient(ProxyAddress(kept.url, kept.port, local=False), Token(kept.token, "the experiment"), kept.who)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if sys.stdin.buffer.readline() == b"done\n":
        return 0
    done = 0
    for _ in range(_TRIES):
        try:
            put_back(proxy, kept)
            done += 1
        except ProxyError:
            pass
        if done > 1:  # the killed command's last request may have been on its way
            return 0
        time.sleep(_BETWEEN_TRIES_S)
    return 1


if __name__ == "__main__":
    sys.exit(main())
