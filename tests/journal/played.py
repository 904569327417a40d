"""Journals as a proxy leaves them, of what a real scheduler told, and the world that each makes from its start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace
from world.histories import History, randomly

from hivemind.journal.codec import line_of
from hivemind.journal.files import part_path
from hivemind.journal.index.builder import build, world_of
from hivemind.journal.index.index import index_path
from hivemind.journal.index.player import Player
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import Price
from hivemind.world.snapshot import Snapshot
from hivemind.world.state import Carried
from hivemind.world.world import World

NAME = "20261121-182341-8765"
BEGAN = JournalBegan(0.0, 1_795_285_421.0, NAME, 1, "hivemind 0.1.0", "http://127.0.0.1:8765", (("up", "https://up"),))


@cache
def some(seed: int = 7, count: int = 3000) -> tuple[Event, ...]:
    """What happened, in order."""
    return tuple(History().after(randomly(seed, count)))


def journal(folder: Path, events: Sequence[Event], parts: int = 1, *, ended: bool = True) -> Path:
    """Written in so many parts of about the same number of events. Returns the first one."""
    world, at = world_of(BEGAN, None), 0.0
    edges = [len(events) * number // parts for number in range(parts + 1)]
    for number, (begin, end) in enumerate(pairwise(edges), 1):
        lines = [line_of(replace(BEGAN, at=at, wall=BEGAN.wall + at, part=number))]
        lines += [line_of(Carried(at, world.keep(at)))] if number > 1 else []
        for event in events[begin:end]:
            world.apply(event)
            lines.append(line_of(event))
            at = event.at
        lines += [line_of(JournalEnded(at))] if ended and number == parts else []
        part_path(folder, NAME, number).write_bytes(b"".join(lines))
    return part_path(folder, NAME, 1)


def indexed(path: Path, *, priced: bool = False) -> Path:
    """With its index beside it."""
    build(path, index_path(path), priced=priced)
    return path


def opened(path: Path, *, priced: bool = False) -> Player:
    """To be played with the index that there is; none is made."""
    return Player(path, priced=priced, indexed=False)


def folded(path: Path, at: float, price: Price | None = None) -> World:
    """By everything that happened up to a moment, from the start."""
    return next(_worlds(path, [at], price))


def snapshots(path: Path, moments: Iterable[float], price: Price | None = None) -> dict[float, Snapshot]:
    """The world at each of these moments, by everything that happened up to it, from the start."""
    ordered = sorted(set(moments))
    return {at: world.snapshot(at) for at, world in zip(ordered, _worlds(path, ordered, price), strict=True)}


def _worlds(path: Path, moments: Iterable[float], price: Price | None) -> Iterator[World]:
    read = open_journal(path)
    world, events = world_of(read.began, price), read.events()
    event: Event | None = next(events)
    for at in moments:
        while event is not None and event.at <= at:
            world.apply(event)
            event = next(events, None)
        yield world


def moments(events: Sequence[Event], count: int = 9) -> Iterable[float]:
    """Some of the whole, with both ends, and some beyond."""
    end = events[-1].at
    return (0.0, *(end * number / count + 0.003 for number in range(1, count)), end, end + 5.0)
