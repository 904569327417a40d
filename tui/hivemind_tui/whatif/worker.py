"""The simulation process: `python -m hivemind_tui.whatif.worker` reads questions from its input and answers them.

A process of its own, because a simulation computes for seconds: in the proxy's own process every agent would wait for
it. It keeps the recording it read last, and ends with its input, or after some minutes without a question.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hivemind.errors import HiveMindError
from hivemind.journal.figures import Figures
from hivemind.journal.read.reader import open_journal
from hivemind.lab.simulate.overrides import Change, value_in
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.whatif import simulate
from hivemind.prices import Prices
from hivemind.scheduler import events as ev
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import Price
from hivemind_tui.loop.framing import pack, read
from hivemind_tui.whatif.fold import Divergence, SeriesFold
from hivemind_tui.whatif.protocol import (
    QUESTIONS,
    Message,
    Progress,
    Question,
    ReadRecording,
    RecordingSummary,
    Run,
    RunSeries,
    WhatIfFailed,
    WhatIfResult,
)

_NICE = 15
_TOLD_EVERY_S = 0.1
_LOOKED_AT_EVERY = 256
"""Events between two readings of the clock."""
_IDLE_S = 300.0

Mark = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of a journal's files when it was read."""


class _Seen:
    """What is collected in one pass over a recording's events."""

    def __init__(self) -> None:
        self.fold = SeriesFold()
        self.turned: dict[str, int] = {}

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        if isinstance(event, ev.Commanded) and event.name == "Tune":
            knob = event.arguments.get("knob")
            if isinstance(knob, str) and knob in KNOBS:
                self.turned[knob] = self.turned.get(knob, 0) + 1
        self.fold.apply(event)


def _knobs(recording: Recording) -> dict[str, dict[str, float]]:
    """Return the knobs that the simulation begins with, by upstream."""
    found: dict[str, dict[str, float]] = {}
    for lane in recording.lanes.values():
        values = {name: value_in(name, recording.began.config, lane) for name in KNOBS}
        found.setdefault(lane.upstream, {name: float(value or 0) for name, value in values.items()})
    return found


class Worker:
    """Answers questions one after the other; `tell` receives the progress and the answer.

    `now` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        tell: Callable[[Message], None],
        *,
        price: Price | None = None,
        load: Callable[[Path, Price | None], Recording] = load,
        simulate: Callable[..., Figures] = simulate,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._price = price
        self._load = load
        self._simulate = simulate
        self._now = now
        self._mark: Mark = ()
        self._recording: Recording | None = None
        self._summary: RecordingSummary | None = None
        self._series = RunSeries(1.0, [], [], [])
        self._began = 0.0
        self._replayed: Run | None = None
        self._divergence = Divergence()

    def answer(self, question: Question) -> None:
        """Answer a question."""
        try:
            summary = self._read(Path(question.path))
            self._tell(summary if isinstance(question, ReadRecording) else self._tried(question.changes))
        except HiveMindError as error:
            self._tell(WhatIfFailed(str(error)))
        except MemoryError:
            self._forget()
            self._tell(WhatIfFailed("this recording doesn't fit into memory"))

    def _forget(self) -> None:
        self._mark, self._recording, self._replayed = (), None, None
        self._divergence = Divergence()

    def _read(self, path: Path) -> RecordingSummary:
        journal = open_journal(path)
        mark = tuple((str(part), *_size_and_time(part)) for part in journal.parts)
        if mark == self._mark and self._summary is not None and self._recording is not None:
            return self._summary
        self._forget()
        self._tell(Progress("reading the recording"))
        recording = self._load(path, self._price)
        seen = _Seen()
        for event in journal.events():
            seen.apply(event)
        first = seen.fold.began
        self._began = journal.began.at if first is None else first
        self._summary = RecordingSummary(
            recording.name,
            journal.began.wall + (self._began - journal.began.at),
            max(0.0, seen.fold.ended - self._began),
            recording.figures.requests,
            recording.figures.agents,
            _knobs(recording),
            seen.turned,
            tuple(recording.warnings),
            recording.began.foreign,
        )
        self._series, self._recording, self._mark = seen.fold.series(), recording, mark
        return self._summary

    def _tried(self, changes: tuple[Change, ...]) -> WhatIfResult:
        assert self._recording is not None
        foreign = self._recording.began.foreign
        if self._replayed is None:
            self._divergence = Divergence()
            self._replayed = self._run((), f"replaying with {'default' if foreign else 'the recorded'} settings")
        recorded = Run(self._recording.figures, self._series)
        if not changes:
            return WhatIfResult((), recorded, self._replayed, self._replayed, None, foreign)
        self._divergence.begin_second()
        tried = self._run(changes, "simulating " + ", ".join(map(str, changes)))
        self._divergence.end()
        diverged = self._divergence.at
        diverged_after_s = None if diverged is None else diverged - self._began
        return WhatIfResult(changes, recorded, self._replayed, tried, diverged_after_s, foreign)

    def _run(self, changes: tuple[Change, ...], words: str) -> Run:
        assert self._recording is not None
        assert self._summary is not None
        fold, divergence, lasts_s = SeriesFold(), self._divergence, self._summary.lasts_s
        told_at, count = self._now(), 0
        self._tell(Progress(words, 0.0))

        def hear(event: ev.Event) -> None:
            nonlocal told_at, count
            fold.apply(event)
            divergence.apply(event)
            count += 1
            if count % _LOOKED_AT_EVERY == 0 and (now := self._now()) - told_at >= _TOLD_EVERY_S:
                told_at = now
                self._tell(Progress(words, min(0.99, (event.at - self._began) / lasts_s) if lasts_s > 0 else None))

        return Run(self._simulate(self._recording, changes, price=self._price, on_event=hear), fold.series())


def _size_and_time(path: Path) -> tuple[int, int]:
    """Return the size and time of a file; both 0 where it is gone."""
    try:
        about = path.stat()
    except OSError:
        return 0, 0
    return about.st_size, about.st_mtime_ns


def _next(pipe: BinaryIO) -> Question | None:
    """Return the next question; None at the end of the input or after a long idle time."""
    if not select.select([pipe], [], [], _IDLE_S)[0]:
        return None
    return read(pipe, QUESTIONS)


def main() -> None:
    """Answer until the input ends."""
    # Ctrl-C in the terminal reaches the whole process group, but the parent ends this process by closing the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    prices = Prices()
    prices.load()

    def tell(message: Message) -> None:
        answers.write(pack(message))
        answers.flush()

    worker = Worker(tell, price=prices.cost)
    while (question := _next(questions)) is not None:
        worker.answer(question)


if __name__ == "__main__":
    main()
