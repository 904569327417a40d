"""Tries model servers with and without HiveMind: `python -m benchmarks.servers llamacpp mlx --json F --docs FOLDER`.

Each is installed, pinned, into a temporary folder. What is measured is a pair: agents that ask the server directly, and
the same through HiveMind, in turns and as often as asked; the table has the medians. What the JSON file says of servers
that aren't tried this time stays.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import venv
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
from ports import unused_port

from benchmarks.servers.agents import Load, Outcome, run
from benchmarks.servers.known import SERVERS, Running, Server, serving
from benchmarks.servers.models import make

LOADS = (Load(10, 3), Load(24, 10, 100, 16), Load(4, 2, 14_000, 16))
CROWD = Load(40, 1, 100, 16)
"""All at once."""
UNDER_WORK = Load(24, 6, 200, 64)
LEFT = Load(1, 1, 200, 1500)
"""An answer that takes long enough to leave."""


@dataclass(slots=True)
class Found:
    """What a server did."""

    server: str
    versions: str
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By load: seconds direct, and through HiveMind."""
    ratios: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By load, through HiveMind to direct: seconds an answer, since agents that die at once take no time; and seconds
    that the server computed, which don't depend on what else the machine does."""
    differ: dict[str, int] = field(default_factory=dict)
    """By load: answers that weren't the same, in text or tokens."""
    dead: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By load: agents that died, direct and through HiveMind."""
    killed: str = ""
    stops: dict[str, bool] = field(default_factory=dict)
    """Whether it stops computing when the client leaves a stream, a whole answer."""
    served: dict[str, bool] = field(default_factory=dict)
    """Whether it serves a path, and the answer through HiveMind was the same."""


@contextlib.asynccontextmanager
async def proxy(url: str, folder: Path, *flags: str) -> AsyncIterator[str]:
    """HiveMind before a server, with no setting but these."""
    port = unused_port()
    argv = [str(Path(sys.executable).with_name("hivemind")), "proxy", "--upstream", url, "--port", str(port), *flags]
    with (folder / "proxy.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log, cwd=folder)
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in range(300):
                with contextlib.suppress(httpx.HTTPError):
                    await client.get(f"http://127.0.0.1:{port}/_health")
                    break
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def compared(found: Found, load: Load, server: Running, through: str, pairs: int, name: str = "") -> None:
    """Have agents ask in both ways, the first to go in turns, each time of a server that was just started: one that has
    read the same prompts before is quicker."""
    name = name or load.name
    for number in range(pairs):
        salt = uuid.uuid4().hex[:8]
        made: dict[str, Outcome] = {}
        computed: dict[str, float] = {}
        for url in (server.url, through) if number % 2 else (through, server.url):
            await server.kill()
            await server.start()
            await run(server.url, Load(2, 1))  # what is loaded on demand
            before = server.cpu_s
            made[url] = await run(url, load, salt)
            computed[url] = server.cpu_s - before
        direct, other = made[server.url], made[through]
        each_s = [one.took_s / max(1, len(one.answers)) for one in (direct, other)]
        ratio = each_s[1] / each_s[0], computed[through] / max(0.01, computed[server.url])
        found.ratios.setdefault(name, []).append(ratio)
        found.pairs.setdefault(name, []).append((direct.took_s, other.took_s))
        found.differ[name] = found.differ.get(name, 0) + other.differ(direct)
        dead = found.dead.get(name, (0, 0))
        found.dead[name] = dead[0] + len(direct.dead), dead[1] + len(other.dead)
        print(f"  {name}: {direct.took_s:.2f} s direct, {other.took_s:.2f} s through HiveMind")
        for way, each in (("direct", direct), ("through HiveMind", other)):
            for why in sorted(set(each.dead)):
                print(f"    died {way}: {why}")


async def killed(server: Running, through: str, load: Load = UNDER_WORK) -> str:
    """Kill the server under these agents, and start it again."""
    agents = asyncio.create_task(run(through, load, uuid.uuid4().hex[:8]))
    await asyncio.sleep(1)
    await server.kill()
    await asyncio.sleep(0.5)
    await server.start()
    outcome = await agents
    finished = f"{load.agents - len(outcome.dead)} of {load.agents} finished"
    return finished + "".join(f"; {why}" for why in sorted(set(outcome.dead)))


async def stops(server: Running, *, stream: bool) -> bool:
    """Return whether the server stops computing when its client leaves."""
    asking = asyncio.create_task(run(server.url, LEFT, uuid.uuid4().hex[:8], stream=stream))
    await asyncio.sleep(0.7)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0.5)
    before = server.cpu_s
    await asyncio.sleep(0.5)
    return server.cpu_s - before < 0.1


async def served(server: Running, through: str) -> dict[str, bool]:
    """Return which of Anthropic's paths are served, and whether HiveMind changes nothing of the usage."""
    body = {"model": "default_model", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    told: dict[str, bool] = {}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            direct = await client.post(server.url + path, json=body)
            if direct.status_code == 200:
                answers = [(await client.post(through + path, json=body)).json(), direct.json()]
                told[path] = len({_tokens(each.get("usage", each)) for each in answers}) == 1
    return told


def _tokens(usage: dict[str, object]) -> int:
    """Return all tokens, from the server's cache or not."""
    return sum(value for value in usage.values() if isinstance(value, int))


def installed(server: Server, folder: Path) -> Path:
    """Install a server. Return the folder of its programs."""
    print(f"installing {' '.join(server.needs)}")
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *server.needs], check=True)
    return folder / "bin"


async def tried(server: Server, folder: Path, at: Path, pairs: int, flags: Sequence[str]) -> Found:
    """Try a server whose programs are `at` this place."""
    found, model = Found(server.name, " ".join(server.needs)), make(folder / "model")
    async with (
        serving(server, model, folder / "server.log", bin_folder=at) as running,
        proxy(running.url, folder, *flags) as through,
    ):
        for load in LOADS:
            await compared(found, load, running, through, pairs)
        await compared(found, CROWD, running, through, pairs, "40 at once")
        for name, stream in (("stream", True), ("whole answer", False)):
            found.stops[name] = await stops(running, stream=stream)
        found.served = await served(running, through)
        found.killed = await killed(running, through)
    if "{slots}" in server.command:
        async with (
            serving(server, model, folder / "server.log", slots=2, bin_folder=at) as running,
            proxy(running.url, folder, *flags) as through,
        ):
            await compared(found, Load(10, 3), running, through, pairs, "10 x 3, 2 slots")
    return found


def page_of(found: Sequence[Found], at: str) -> str:
    """Return the manual's table."""
    lines = [
        f"Tried on {at} ({platform.system()}, {platform.machine()}, {os.cpu_count()} cores):"
        " tiny models with random weights, medians of pairs. In the paper, ten agents of three turns at Ollama and MLX"
        " took 7 % less than directly.",
        "",
        "| server | load | pairs | direct | HiveMind | ratio, an answer | server's CPU"
        " | died direct / HiveMind | differ |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        for name, took in each.pairs.items():
            direct, other = (statistics.median(way) for way in zip(*took, strict=True))
            ratios = [f"{statistics.median(values):.2f}" for values in zip(*each.ratios[name], strict=True)]
            dead = " / ".join(map(str, each.dead[name]))
            seconds = f"{direct:.2f} s", f"{other:.2f} s"
            row = [each.server, name, str(len(took)), *seconds, *ratios, dead, str(each.differ[name])]
            lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        "| server | tried | stops a stream | stops a whole answer | Messages, count_tokens | killed at work |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for each in found:
        stopped = ["yes" if each.stops[name] else "no" for name in ("stream", "whole answer")]
        paths = ", ".join(
            f"{path.rpartition('/')[2]} {'same' if same else 'differs'}" for path, same in each.served.items()
        )
        row = [each.server, f"`{each.versions}`", *stopped, paths or "not served", each.killed]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def main(names: Sequence[str], pairs: int, flags: Sequence[str]) -> list[Found]:
    """Try each server."""
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="hivemind-servers-") as made:
            folder = Path(made)
            at = installed(SERVERS[name], folder / "venv")
            found.append(asyncio.run(tried(SERVERS[name], folder, at, pairs, flags)))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make test-servers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", nargs="+", choices=SERVERS, metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--flags", default="", help="of `hivemind proxy`")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path)
    args = parser.parse_args()
    tries = main(args.servers, args.pairs, args.flags.split())
    if args.json is not None and args.json.exists():
        before = [Found(**each) for each in json.loads(args.json.read_text("utf-8"))]
        now = {each.server for each in tries}
        tries = [*(each for each in before if each.server not in now), *tries]
    page = page_of(tries, time.strftime("%Y-%m-%d"))
    print(page)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(each) for each in tries], indent=1), "utf-8")
    if args.docs is not None:
        (args.docs / "servers-tried.md").write_text(page, "utf-8")
