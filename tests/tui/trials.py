"""Made-up what-ifs: a recording that was read, what came of other settings, and a simulation that needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tui.worlds import KNOBS

from hivemind.journal.figures import Figures, Waits
from hivemind.lab.simulate.overrides import Change
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.whatif.protocol import (
    Message,
    Progress,
    Question,
    ReadRecording,
    RecordingSummary,
    RunSeries,
    Simulate,
    SimulatedRun,
    WhatIfResult,
)

BETA = Change("aimd.beta", 0.7)
CEILING = Change("max_concurrency", 8.0)
PATIENCE = Change("queue.max_wait_s", 60.0)

LOOKED = RecordingSummary(
    name="20261121-140000-8765",
    began_wall=1_795_269_600.0,
    lasts_s=754.0,
    requests=412,
    agents=11,
    upstreams={"anthropic": {**KNOBS, "rpm": 60.0}},
    turned={"aimd.beta": 2},
    defects=("12 events are missing in 1 gap: the disk was full or too slow",),
)

FIGURES = Figures(
    agents=11,
    finished=11,
    wall_s=754.0,
    requests=412,
    answered=409,
    failed=3,
    refused=0,
    left=0,
    open=0,
    attempts=440,
    retries=28,
    rescued=26,
    waited_s=3600.0,
    together=Waits(412, 3.0, 29.0, 80.0),
    waits={"high": Waits(40, 0.0, 1.2, 9.0), "normal": Waits(372, 4.0, 31.0, 80.0)},
    tokens=1_000_000,
    wasted_tokens=12_400,
    dollars=18.42,
    unpriced_tokens=0,
    fairness=0.981,
    busiest=8,
)


def course(height: float, length: int = 60, width_s: float = 12.0) -> RunSeries:
    """A run that rises to so much, and falls."""
    rise = [height * min(index, length - index, 10) / 10 for index in range(length)]
    return RunSeries(
        width_s, rise, [value * 2 for value in rise], [height + 2 if index else None for index in range(length)]
    )


def run(height: float = 5.0, length: int = 60, **figures: Any) -> SimulatedRun:
    """With some figures of its own."""
    return SimulatedRun(replace(FIGURES, **figures), course(height, length))


def outcome(*changes: Change, **tried: Any) -> WhatIfResult:
    """The model is off by 1.2 % in wall time; with these changes the figures are these."""
    replayed = run(wall_s=763.0, waited_s=3590.0)
    if not changes:
        return WhatIfResult((), run(), replayed, replayed, None)
    return WhatIfResult(changes, run(), replayed, run(7.0, 50, **{"wall_s": 640.0, "waited_s": 3590.0, **tried}), 180.0)


class Made(SimulationProcess):
    """Answers at once, or when it is told to; remembers what it was asked."""

    def __init__(self, answers: Callable[[Question], Sequence[Message]]) -> None:
        super().__init__(("false",))
        self.asked: list[Question] = []
        self.cancelled = 0
        self.free = asyncio.Event()
        """Nothing is answered before this is set, but what is being done."""
        self.free.set()
        self._answers = answers

    async def ask(self, question: Question, tell: Callable[[Message], None]) -> None:
        self.asked.append(question)
        tell(Progress("reading the recording" if isinstance(question, ReadRecording) else "simulating", 0.4))
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for message in self._answers(question):
            tell(message)


def usual(question: Question) -> Sequence[Message]:
    """A recording that can be read, and an answer to every question."""
    return [outcome(*question.changes)] if isinstance(question, Simulate) else [LOOKED]


def pid_of(simulation: SimulationProcess) -> int | None:
    """The process id of its child; None if there is none."""
    return None if simulation._child is None else simulation._child.process.pid
