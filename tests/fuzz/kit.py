"""What the fuzz targets share: how one is declared, and how it takes choices and cuts from its input."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

CORPUS = Path(__file__).parent / "corpus"
"""A folder for each target, of inputs that are kept: seeds, and whatever broke something once."""


@dataclass(frozen=True, slots=True)
class Target:
    """A property of some part of the program that holds for any bytes."""

    name: str
    run: Callable[[bytes], None]
    """Raises where the property is broken."""
    tokens: tuple[bytes, ...]
    """What the format is made of, for the fuzzer to insert."""
    longest: int
    """Bytes of the longest input that is tried."""
    timed: bool
    """It measures time, which is no test's business: only `make fuzz` runs it."""

    @property
    def folder(self) -> Path:
        return CORPUS / self.name

    def kept(self) -> list[Path]:
        """Return the files of the kept corpus."""
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []


TARGETS: dict[str, Target] = {}


def target(
    name: str, tokens: Iterable[bytes] = (), *, longest: int = 4096, timed: bool = False
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Declare a function as a target."""

    def declare(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
        assert name not in TARGETS
        TARGETS[name] = Target(name, run, tuple(filter(None, tokens)), longest, timed)
        return run

    return declare


def choices(data: bytes, count: int) -> tuple[list[int], bytes]:
    """Return the first bytes as numbers to choose by, and the others. Seeds have digits there."""
    return [byte % 48 for byte in data[:count].ljust(count, b"0")], data[count:]


def pieces(data: bytes, seed: int) -> list[bytes]:
    """Return the data cut at places that depend on the seed: whole, byte by byte, or at random."""
    if not seed or not data:
        return [data] if data else []
    chance = random.Random(seed)
    longest = 1 if seed == 1 else chance.choice((2, 8, 64, 1024))
    found, at = list[bytes](), 0
    while at < len(data):
        size = chance.randint(1, longest)
        found.append(data[at : at + size])
        at += size
    return found


def require(holds: object, what: str, *shown: object) -> None:
    """Raise AssertionError unless a property holds, also where Python leaves `assert` out."""
    if not holds:
        raise AssertionError(": ".join((what, *map(repr, shown))))


def require_linear(work: Callable[[T], object], one: T, four: T, *shown: object) -> None:
    """Raise AssertionError unless four times as much takes about four times as long; it is sixteen where it takes
    quadratic time. What is quick at that size isn't quadratic, and too quick to be compared."""
    if _seconds(work, four) > 0.03:
        require(_seconds(work, four) < 10 * _seconds(work, one), "more than linear time", *shown)


def _seconds(work: Callable[[T], object], given: T) -> float:
    """Return the processor time, the best of several."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        work(given)
        best = min(best, time.thread_time() - began)
    return best
