"""`python -m benchmarks.refusals --node FOLDER --aider PROGRAM`: what each client does when it is refused.

Each is started as it comes, for one prompt, with a provider that refuses with one status at one moment, for good or for
a while; requests are counted, and the provider's words are looked for in what the client prints. FOLDER holds
`node_modules` with the agents and SDKs.
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
from benchmarks.refusals.provider import BUSY, MARK, Refusing, When, refusing
from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

STATUSES = (400, 402, 403, 429, 503, 529)
"""Of final refusals."""
PATIENCE_S = 100.0
"""A client that hasn't ended by then is ended, and its requests until then are counted. One that is refused for a while
gets as much longer as that while lasts, and :data:`SETTLING_S`."""
SETTLING_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One way to be refused."""

    status: int
    when: When
    retry_after_s: int | None = None


FINAL = (
    *(Case(status, "at once") for status in STATUSES),
    Case(400, "in a session"),
    Case(400, "in a stream"),
)
PASSING = (
    *(Case(status, "for a while") for status in (429, 503, 529)),
    *(Case(503, "for a while", retry_after_s) for retry_after_s in (30, 61, 240)),
    Case(429, "for a while", 240),
    Case(503, "for a while in a stream"),
    Case(200, "silent"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a client did."""

    client: str
    case: Case
    refused: list[float]
    """When those of its requests came that were refused, in seconds after the first."""
    answered: int
    shown: bool
    """The provider's words were printed."""
    took_s: float
    exit_code: int | None
    """None: it didn't end."""
    agents: list[str]
    """Its User-Agents."""
    said: str = ""
    """The end of what it printed."""


async def measure(client: Client, tools: Tools, case: Case, kind: str = "") -> Found:
    """Have one client be refused."""
    with tempfile.TemporaryDirectory(prefix="hivemind-refusals-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "work").mkdir()
        final = case in FINAL
        async with refusing(Refusing(case.status, case.when, case.retry_after_s, kind)) as provider:
            words, variables = client.start(tools, provider.url, home)
            # No variable that tells of a sandbox: Claude Code is more patient in one.
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
            patience_s = PATIENCE_S if final else PATIENCE_S + (case.retry_after_s or 0) + SETTLING_S
            with suppress(TimeoutError):
                exit_code = await asyncio.wait_for(process.wait(), patience_s)
            took_s = time.monotonic() - began
            with suppress(ProcessLookupError):  # also what it left running
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        printed = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", (home / "output").read_bytes())
        return Found(
            client.name,
            case,
            provider.refused,
            provider.answered,
            _plain(MARK if final else BUSY).encode() in re.sub(rb"\s+", b"", printed),
            round(took_s, 1),
            exit_code,
            sorted(provider.agents),
            printed[-400:].decode(errors="replace"),
        )


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text)


async def measure_all(tools: Tools, only: str, cases: Sequence[Case], at_once: int, kind: str = "") -> list[Found]:
    """Have all clients be refused whose name contains `only`, so many at once."""
    turns, left = asyncio.Semaphore(at_once), 0

    async def one(client: Client, case: Case) -> Found:
        nonlocal left
        async with turns:
            found = await measure(client, tools, case, kind)
        left -= 1
        show_progress(f"{client.name}: {case.status} {case.when}; {left} left")
        return found

    asked = [
        one(client, case)
        for case in cases
        for client in (*AGENTS, *SDKS)
        if only in client.name
        if not (case.when == "in a session" and not client.has_tools)
        and not (client.name.endswith("whole") and (case in PASSING or case.when == "in a stream"))
    ]
    left = len(asked)
    found = await asyncio.gather(*asked)
    show_progress("")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table or write JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.refusals", description=__doc__)
    parser.add_argument("--node", type=Path, required=True, help="folder with node_modules")
    parser.add_argument("--aider", type=Path, default=Path("aider"), help="aider's program")
    parser.add_argument("--only", default="", help="only clients whose name contains this")
    parser.add_argument("--cases", default="", help="only cases whose words contain this, such as '429 for a while 61'")
    parser.add_argument("--kind", default="", help="type of the error, in place of the one that goes with its status")
    parser.add_argument("--at-once", type=int, default=6, help="clients that are measured at once; most of them wait")
    parser.add_argument("--json", metavar="FILE", help="write what was found to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
    except HiveMindError as error:
        print(f"benchmarks.refusals: {error}", file=sys.stderr)
        return error.exit_code
    tools = Tools(namespace.node.absolute(), namespace.aider)
    cases = [case for case in (*FINAL, *PASSING) if namespace.cases in words(case)]
    found = asyncio.run(measure_all(tools, namespace.only, cases, namespace.at_once, namespace.kind))
    output.write(msgspec.json.format(msgspec.json.encode([asdict(each) for each in found]), indent=2) + b"\n")
    if not output.replaces_tables:
        rows = [
            (
                each.client,
                words(each.case),
                f"{len(each.refused)}",
                "yes" if each.shown else "no",
                f"{each.took_s}",
                "-" if each.exit_code is None else f"{each.exit_code}",
            )
            for each in found
        ]
        print(format_table([("client", "refused", "requests", "shown", "s", "exit code"), *rows], left=2))
    return 0


def words(case: Case) -> str:
    """Return a case in words: `429 for a while, told 61 s`."""
    told = "" if case.retry_after_s is None else f", told {case.retry_after_s} s"
    return f"{case.status} {case.when}{told}"


if __name__ == "__main__":
    sys.exit(main())
