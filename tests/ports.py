"""Ports for servers that a test starts, stops and starts again."""

from __future__ import annotations

import os
import random
import socket

_FIRST, _LAST = 10_000, 32_000
"""Below the ports that systems give to connections (from 32768 on Linux, 49152 elsewhere), so that none of those takes
the port while the test's server is down."""
_random = random.Random(os.getpid())  # Hypothesis seeds the global one, alike in every worker
os.register_at_fork(after_in_child=lambda: _random.seed(os.getpid()))


def unused_port() -> int:
    """Return a port of the loopback on which nobody listens."""
    while True:
        port = _random.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
