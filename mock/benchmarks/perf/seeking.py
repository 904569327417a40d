"""How soon a moment of a large journal is shown: at first sight, while it is read through, and by its index.

A process of its own (`python -m benchmarks.perf.seeking JOURNAL EVENTS SEEKS OPENINGS`), so that its memory is what
a player takes; its answer is one line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from benchmarks.paths import environment
from benchmarks.perf.load import percentile
from benchmarks.perf.long_run import NAME
from benchmarks.perf.target import PerfError
from hivemind.journal.files import part_path
from hivemind.journal.index.player import Player

FIRST, UNREAD, INDEXED = "first sight", "being read", "by index"
_PATIENCE_S = 600.0
_ROOM = 1.3
"""Times the journal, that must be free on the disk."""


@dataclass(frozen=True, slots=True)
class SeekingSizes:
    """How much is measured."""

    megabytes: int
    seeks: int
    """Of each kind, but for the first one after opening, of which there is one a time that it is opened."""
    openings: int


@dataclass(frozen=True, slots=True)
class Sought:
    """How long it took to have the world at moments drawn at random."""

    target: str
    kind: str
    """One of :data:`FIRST` (opening it included), :data:`UNREAD` and :data:`INDEXED`."""
    seeks: int
    p50_ms: float
    worst_ms: float
    worst_cpu_ms: float
    """Of this process, on a processor."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What the index of a journal took, and the program that plays it."""

    target: str
    journal_mb: float
    events: int
    index_s: float
    index_share: float
    """Of the journal's bytes."""
    most_mb: float
    """Memory that the player's process took at most."""
    maker_mb: float
    """And the process that reads the journal through."""


Seeking = Sought | Indexed


async def measure_seeking(sizes: SeekingSizes, progress: Callable[[str], None]) -> list[Seeking]:
    """Write a journal where temporary files go, look for moments in it, and remove it. Raises: PerfError."""
    folder = Path(tempfile.mkdtemp(prefix="hivemind-perf-"))
    try:
        if shutil.disk_usage(folder).free < sizes.megabytes * 1e6 * _ROOM:
            raise PerfError(f"{folder.parent}: no room for a journal of {sizes.megabytes} MB; name another by TMPDIR")
        progress(f"moments in a journal of {sizes.megabytes} MB")
        events = msgspec.json.decode(await _said_by("long_run", str(folder), str(sizes.megabytes)), type=int)
        path = part_path(folder, NAME, 1)
        out = await _said_by("seeking", str(path), str(events), str(sizes.seeks), str(sizes.openings))
        sought, indexed = msgspec.json.decode(out, type=tuple[list[Sought], Indexed])
        return [*sought, indexed]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _said_by(module: str, *arguments: str) -> bytes:
    """Raises: PerfError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"benchmarks.perf.{module}", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise PerfError(f"{module.replace('_', ' ')} failed: {last[0] if last else process.returncode}")
    return out


@dataclass(slots=True)
class _Times:
    wall_s: list[float]
    cpu_s: list[float]

    def sought(self, kind: str) -> Sought:
        wall_s, cpu_s = sorted(self.wall_s), max(self.cpu_s)
        return Sought("journal", kind, len(wall_s), percentile(wall_s, 0.5) * 1e3, wall_s[-1] * 1e3, cpu_s * 1e3)


def measure(path: Path, events: int, seeks: int, openings: int) -> tuple[list[Sought], Indexed]:
    """All of it, of a journal with so many events. Raises: UsageError, OSError; PerfError: the index isn't made."""
    size = sum(part.stat().st_size for part in path.parent.iterdir())
    draw = Random(1)
    first, unread, indexed = (_Times([], []) for _ in range(3))

    def seek(player: Player) -> None:
        player.seek(draw.uniform(player.begins_at, player.ends_at))
        player.world.snapshot(player.at)

    for _ in range(openings):
        opened: list[Player] = []
        _timed(first, lambda opened=opened: opened.append(_sought(path, draw)))  # type: ignore[misc]
        opened[0].close()
    with closing(Player(path)) as player:
        began, looked = time.monotonic(), 0.0
        while player.known_to < 1:
            if len(unread.wall_s) < seeks:
                _timed(unread, lambda: seek(player))
            time.sleep(0.02)
            if time.monotonic() - looked > 0.5:
                player.look()
                looked = time.monotonic()
            if looked - began > _PATIENCE_S:
                raise PerfError("the index isn't made")
        index_s = time.monotonic() - began
        for _ in range(seeks):
            _timed(indexed, lambda: seek(player))
    kinds = ((FIRST, first), (UNREAD, unread), (INDEXED, indexed))
    share = sum(part.stat().st_size for part in path.parent.glob("*.index")) / size
    most, maker = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = [times.sought(kind) for kind, times in kinds if times.wall_s]
    return found, Indexed("journal", size / 1e6, events, index_s, share, most, maker)


def _sought(path: Path, draw: Random) -> Player:
    """One that was just opened, at a moment somewhere."""
    player = Player(path, indexed=False)
    player.seek(draw.uniform(player.begins_at, player.ends_at))
    player.world.snapshot(player.at)
    return player


def _timed(times: _Times, act: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    times.wall_s.append(time.perf_counter() - wall)
    times.cpu_s.append(time.process_time() - cpu)


def main(arguments: Sequence[str]) -> None:
    """The process."""
    path, events, seeks, openings = arguments
    found = measure(Path(path), int(events), int(seeks), int(openings))
    os.write(1, msgspec.json.encode(found))


if __name__ == "__main__":
    main(sys.argv[1:])
