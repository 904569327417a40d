"""Worlds recorded, changed for real, and foretold."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import benchmarks.worlds
from benchmarks.worlds.world import World, run
from benchmarks.worlds.world import run_on_sockets as world_on_sockets
from hivemind.journal.figures import Figures
from hivemind.lab.foresight import prediction
from hivemind.lab.foresight.foretold import WAITED, WALL, foretold, named
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.foresight.told import Foretold as Figure
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load

RECORDED_LUCK, REAL_LUCKS = 1, (2, 3)
"""The luck of the recorded run, and of the real runs with changed settings."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """One figure as it was foretold."""

    value: float
    low: float | None = None
    """The interval that holds nine of ten; None: none was given."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A changed setting in a world."""

    world: str
    kind: str
    change: str
    wall_s: Foretold
    waited_s: Foretold
    real_wall_s: tuple[float, ...]
    real_waited_s: tuple[float, ...]


def predict(recording: Recording, change: str, checked: HeldOut) -> tuple[Foretold, Foretold]:
    """Return wall time and total wait as foretold."""
    found = prediction.predict(recording, parse_changes([change]), checked=checked)
    figures = foretold(found)
    return _foretold(named(figures, WALL)), _foretold(named(figures, WAITED))


def _foretold(each: Figure) -> Foretold:
    assert each.changed is not None
    return Foretold(each.changed.value, each.changed.low, each.changed.high)


def cases(world: World, folder: Path) -> list[Case]:
    """Return the cases of a world; what it did is kept in the folder, by the version of the generator."""
    recording = load(recorded(world, _place(world, folder, "recorded.jsonl")))
    checked = held_out(recording)
    found = []
    for change in world.changes:
        real = real_runs(world, [change], REAL_LUCKS, _place(world, folder, f"{change}.json"))
        wall, waited = predict(recording, change, checked)
        walls, waits = tuple(each.wall_s for each in real), tuple(each.waited_s for each in real)
        kind = world.name.partition("-")[2]
        found.append(Case(world.name, kind, change, wall, waited, walls, waits))
    return found


def run_on_sockets(world: World, folder: Path) -> None:
    """Run what :func:`cases` needs of a world in real time, all at once, unless it is there already."""
    asyncio.run(_run_on_sockets(world, folder))


async def _run_on_sockets(world: World, folder: Path) -> None:
    recording = _place(world, folder, "recorded.jsonl")
    runs = [] if recording.exists() else [_real_run(world, RECORDED_LUCK, (), recording)]
    places = {change: _place(world, folder, f"{change}.json") for change in world.changes}
    missing = {change: path for change, path in places.items() if not path.exists()}
    journals = {
        (change, luck): path.with_suffix(f".{luck}.jsonl") for change, path in missing.items() for luck in REAL_LUCKS
    }
    runs += [_real_run(world, luck, (change,), path) for (change, luck), path in journals.items()]
    await asyncio.gather(*runs)
    for change, path in missing.items():
        made = [load(journals[change, luck]).figures for luck in REAL_LUCKS]
        path.write_bytes(msgspec.json.encode(made))
    for path in journals.values():
        path.unlink()


async def _real_run(world: World, luck: int, changes: Sequence[str], path: Path) -> None:
    made = path.with_suffix(".part.jsonl")
    await world_on_sockets(world, luck, changes, made)
    made.replace(path)


def recorded(world: World, path: Path) -> Path:
    """Return the journal of a world's recorded run, which is made at this path unless it is there."""
    if not path.exists():
        made = path.with_suffix(".part.jsonl")
        run(world, RECORDED_LUCK, path=made)
        made.replace(path)
    return path


def real_runs(world: World, changes: Sequence[str], lucks: Sequence[int], path: Path) -> list[Figures]:
    """Return the figures of the runs that really had these changes, which are kept at this path."""
    if not path.exists():
        made = []
        for luck in lucks:
            journal = path.with_suffix(f".{luck}.jsonl")
            run(world, luck, changes, journal)
            made.append(load(journal).figures)
            journal.unlink()
        path.write_bytes(msgspec.json.encode(made))
    return msgspec.json.decode(path.read_bytes(), type=list[Figures])


def _place(world: World, folder: Path, name: str) -> Path:
    place = folder / generator_version() / world.name
    place.mkdir(parents=True, exist_ok=True)
    return place / name


def generator_version() -> str:
    """Return a short name of the generator's code, by which what it made is kept."""
    digest = hashlib.sha256()
    for path in sorted(Path(benchmarks.worlds.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
