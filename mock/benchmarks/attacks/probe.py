"""Asks a proxy for `/_health` again and again, in a process of its own, and prints how long each answer took.

`python -m benchmarks.attacks.probe HOST PORT` asks until its standard input ends, on one connection with blocking
sockets, so that nothing but the proxy decides how long an answer takes. It says when it has begun.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import sys
import time

READY = "asking"
EVERY_S = 0.005
_LONGEST_S = 30.0


def main(host: str, port: int) -> None:
    """Print the times of all answers in milliseconds as one JSON list; an answer that didn't come counts as 30 s."""
    taken_ms: list[float] = []
    print(READY, flush=True)
    connection = http.client.HTTPConnection(host, port, timeout=_LONGEST_S)
    while not select.select([sys.stdin], [], [], EVERY_S)[0] or os.read(0, 1):
        begin = time.monotonic()
        try:
            connection.request("GET", "/_health")
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(f"status {answer.status}")
        except (OSError, http.client.HTTPException):
            connection.close()
            taken_ms.append(_LONGEST_S * 1e3)
        else:
            taken_ms.append((time.monotonic() - begin) * 1e3)
    print(json.dumps(taken_ms))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
