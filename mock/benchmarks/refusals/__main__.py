"""`python -m benchmarks.refusals --node FOLDER --aider PROGRAM`: what each client does when it is refused for good.

Each is started as it comes, for one prompt, with a provider that refuses with one status at one moment; requests are
counted, and the message is looked for in what the client prints. FOLDER holds `node_modules` with the agents and SDKs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from benchmarks.refusals.clients import AGENTS, SDKS, Client, Tools
from benchmarks.refusals.provider import MARK, When, refusing
from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

STATUSES = (400, 402, 403, 429)
PATIENCE_S = 100.0
"""A client that has not ended by then is ended, and its requests until then are counted."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a client did."""

    client: str
    status: int
    when: str
    requests: int
    """Those that were refused."""
    shown: bool
    """The message was printed."""
    took_s: float
    exit_code: int | None
    """None: it didn't end."""


async def measure(client: Client, tools: Tools, status: int, when: When) -> Found:
    """Have one client be refused."""
    with tempfile.TemporaryDirectory(prefix="hivemind-refusals-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "work").mkdir()
        async with refusing(status, when, client.tool) as provider:
            words, variables = client.start(tools, provider.url, home)
            kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            began = time.monotonic()
            with (home / "output").open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    cwd=home / "work",
                    env={**kept, "HOME": folder, "TERM": "dumb", "CI": "1", **variables},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            exit_code: int | None = None
            with suppress(TimeoutError):
                exit_code = await asyncio.wait_for(process.wait(), PATIENCE_S)
            took_s = time.monotonic() - began
            with suppress(ProcessLookupError):  # also what it left running
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        text = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]|\s+", b"", (home / "output").read_bytes())
        return Found(
            client.name,
            status,
            when,
            len(provider.refused),
            re.sub(r"\s+", "", MARK).encode() in text,
            round(took_s, 1),
            exit_code,
        )


async def measure_all(tools: Tools, only: str) -> list[Found]:
    """Have all clients be refused whose name contains `only`: at once with each status, then at the other moments."""
    found: list[Found] = []
    for client in (*AGENTS, *SDKS):
        if only in client.name:
            moments: list[tuple[int, When]] = [(status, "at once") for status in STATUSES]
            moments += [(400, "in a session")] * bool(client.tool)
            moments += [(400, "in a stream")] * (not client.name.endswith("whole"))
            for status, when in moments:
                show_progress(f"{client.name}: {status} {when}")
                found.append(await measure(client, tools, status, when))
    show_progress("")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table or write JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.refusals", description=__doc__)
    parser.add_argument("--node", type=Path, required=True, help="folder with node_modules")
    parser.add_argument("--aider", type=Path, default=Path("aider"), help="aider's program")
    parser.add_argument("--only", default="", help="only clients whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write what was found to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
    except HiveMindError as error:
        print(f"benchmarks.refusals: {error}", file=sys.stderr)
        return error.exit_code
    tools = Tools(namespace.node.absolute(), namespace.aider)
    found = asyncio.run(measure_all(tools, namespace.only))
    output.write(msgspec.json.format(msgspec.json.encode([asdict(each) for each in found]), indent=2) + b"\n")
    if not output.replaces_tables:
        rows = [
            (
                each.client,
                f"{each.status} {each.when}",
                f"{each.requests}",
                "yes" if each.shown else "no",
                f"{each.took_s}",
            )
            for each in found
        ]
        print(format_table([("client", "refused", "requests", "shown", "s"), *rows], left=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
