"""Made-up what-ifs: a recording that was read, what came of other settings, and a simulation that needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from lab.predictions import prediction
from tui.worlds import KNOBS

from hivemind.lab.foresight.foretold import foretold, less_is_done
from hivemind.lab.foresight.sentence import sentence
from hivemind.lab.foresight.told import Answer
from hivemind.lab.simulate.overrides import Change
from hivemind_tui.whatif import protocol
from hivemind_tui.whatif.process import SimulationProcess

BETA = Change("aimd.beta", 0.7)
CEILING = Change("max_concurrency", 8.0)
PATIENCE = Change("queue.max_wait_s", 60.0)

LOOKED = protocol.RecordingSummary(
    name="20261121-140000-8765",
    began_wall=1_795_269_600.0,
    lasts_s=754.0,
    requests=412,
    agents=11,
    upstreams={"anthropic": {**KNOBS, "rpm": 60.0}},
    turned={"aimd.beta": 2},
    defects=("12 events are missing in 1 gap: the disk was full or too slow",),
)

CHECKED = "On a part of the recording that the fit hadn't seen, the models were off by 1.2 % in wall time."


def course(height: float, length: int = 60, width_s: float = 12.0) -> protocol.RunSeries:
    """A run that rises to so much, and falls."""
    rise = [height * min(index, length - index, 10) / 10 for index in range(length)]
    return protocol.RunSeries(
        width_s, rise, [value * 2 for value in rise], [height + 2 if index else None for index in range(length)]
    )


def answer(*changes: Change, foreign: bool = False, **tried: Any) -> Answer:
    """The same in words."""
    made = prediction(*changes, foreign=foreign, **tried)
    figures = foretold(made)
    before = "with HiveMind" if foreign else "recorded"
    alone = ("recorded", "with HiveMind" if foreign else "another run")
    return Answer(
        changes=changes,
        sentence=sentence(made, figures),
        finishes_less=less_is_done(made),
        reason="slots",
        titles=(before, "changed") if changes else alone,
        figures=tuple(figures),
        shows=("529s came from a limit of about 7 in flight", "an answer takes 0.47 s + 4.8 ms an output token"),
        off_wall=0.012,
        off_wait=None,
        checked=CHECKED,
        doubts=("its end is missing",),
        notes=("no more than 8 in flight were recorded; with 20 the intervals are wider",),
    )


def outcome(*changes: Change, foreign: bool = False, **tried: Any) -> protocol.WhatIfResult:
    """What the simulating process answers."""
    return protocol.WhatIfResult(
        answer(*changes, foreign=foreign, **tried), course(5.0), course(7.0, 50), 180.0 if changes else None
    )


class Made(SimulationProcess):
    """Answers at once, or when it is told to; remembers what it was asked."""

    def __init__(self, answers: Callable[[protocol.Question], Sequence[protocol.Message]]) -> None:
        super().__init__(("false",))
        self.asked: list[protocol.Question] = []
        self.cancelled = 0
        self.free = asyncio.Event()
        """Nothing is answered before this is set, but what is being done."""
        self.free.set()
        self._answers = answers

    async def ask(self, question: protocol.Question, tell: Callable[[protocol.Message], None]) -> None:
        self.asked.append(question)
        tell(
            protocol.Progress(
                "reading the recording" if isinstance(question, protocol.ReadRecording) else "simulating", 0.4
            )
        )
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for message in self._answers(question):
            tell(message)


def usual(question: protocol.Question) -> Sequence[protocol.Message]:
    """A recording that can be read, and an answer to every question."""
    return [outcome(*question.changes)] if isinstance(question, protocol.Simulate) else [LOOKED]


def pid_of(simulation: SimulationProcess) -> int | None:
    """The process id of its child; None if there is none."""
    return None if simulation.process is None else simulation.process.pid
