"""How long a prediction takes, step by step; a process of its own, whose answer is one line of JSON."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from hivemind.lab.foresight.draws import on_all_cores, remembering
from hivemind.lab.foresight.heldout import held_out
from hivemind.lab.foresight.prediction import predict
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import load

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Took:
    """What a step took."""

    wall_s: float
    cpu_s: float
    """Of all processes together."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a prediction took."""

    requests: int
    load: Took
    """To read the journal and to fit the models."""
    held_out: Took
    """To check them."""
    unchanged: Took
    """To simulate the recorded settings, with which each change is compared."""
    predict: Took
    """To predict a change after all that."""


def answered(path: Path, change: str) -> Answered:
    """Predict a change. Raises: UsageError: the journal can't be read."""
    recording, loaded = _timed(lambda: load(path))
    checked, was_checked = _timed(lambda: held_out(recording))
    runs, changes = remembering(on_all_cores, {}), parse_changes([change])
    _, unchanged = _timed(lambda: predict(recording, (), runs=runs, checked=checked))
    _, predicted = _timed(lambda: predict(recording, changes, runs=runs, checked=checked))
    return Answered(len(recording.trace.requests), loaded, was_checked, unchanged, predicted)


def _timed(step: Callable[[], T]) -> tuple[T, Took]:
    began, used = time.monotonic(), _cpu_s()
    made = step()
    return made, Took(time.monotonic() - began, _cpu_s() - used)


def _cpu_s() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(answered(Path(sys.argv[1]), sys.argv[2])) + b"\n")
