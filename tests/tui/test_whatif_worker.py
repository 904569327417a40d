"""The simulating process: what it answers, what it remembers, and what becomes of it when things go wrong."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from lab.predictions import FIGURES
from tui.decks import AT, WALL, recording, write
from tui.trials import BETA, CEILING, pid_of

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.draws import Job
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording, load
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, WindowKind, WindowReading
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.whatif.protocol import (
    Message,
    Progress,
    Question,
    ReadRecording,
    RecordingSummary,
    Simulate,
    WhatIfFailed,
    WhatIfResult,
)
from hivemind_tui.whatif.worker import SeriesFold, SimulatedRun, Worker


class Lab:
    """Stands in for the simulator: grants come later with every change."""

    def __init__(self) -> None:
        self.loaded = 0
        self.draws = 0

    def load(self, path: Path, price: Price | None) -> Recording:
        self.loaded += 1
        return load(path, price)

    def simulated(self, recording: Recording, changes: tuple[Change, ...], price: Price | None) -> SimulatedRun:
        if BETA in changes:
            raise UsageError("aimd.beta=0.7: contradicts other settings")
        fold, grants = SeriesFold(), []
        for number, event in enumerate(each for each in recording_of() if isinstance(each, ev.Arrived)):
            late = 0.5 if changes and number >= 6 else 0.0
            grants.append((event.at + 1 + late, event.ticket))
            fold.apply(event)
            fold.apply(ev.Granted(event.at + 1 + late, event.ticket, event.agent, event.lane, 1, 1.0))
            ended = event.at + 2 + late
            fold.apply(ev.Finished(ended, event.ticket, event.agent, event.lane, "m", 200, 1, None, 2.0))
        return SimulatedRun(FIGURES, fold.series(), grants)

    def drawn(
        self, recording: Recording, jobs: Sequence[Job], price: Price | None, done: Callable[[int, int], object]
    ) -> list[Figures]:
        self.draws += 1
        for number in range(len(jobs)):
            done(number + 1, len(jobs))
        return [FIGURES] * len(jobs)


def recording_of() -> list[ev.Event]:
    return recording()


def asked(desk_of: Callable[[Callable[[Message], None]], Worker], *questions: Question) -> list[Message]:
    """Everything that is said to these questions."""
    said: list[Message] = []
    worker = desk_of(said.append)
    for question in questions:
        worker.answer(question)
    return said


def worker_on(lab: Lab) -> Callable[[Callable[[Message], None]], Worker]:
    return lambda tell: Worker(tell, load=lab.load, simulated=lab.simulated, draws=lab.drawn)


def test_a_recording_is_looked_at(tmp_path: Path) -> None:
    """What is in it, from when, and the knobs that a simulation of it begins with."""
    *_, summary = asked(worker_on(Lab()), ReadRecording(str(write(tmp_path))))
    assert isinstance(summary, RecordingSummary)
    assert (summary.name, summary.requests, summary.agents) == ("20261121-140000-8765", 36, 3)
    assert summary.began_wall == pytest.approx(WALL + 1)
    assert summary.lasts_s == pytest.approx(113.2)
    assert summary.upstreams["anthropic"]["aimd.beta"] == 0.5
    assert summary.turned == {}


def test_a_limit_that_headers_replaced_is_none(tmp_path: Path) -> None:
    """As the running proxy shows it: the profile's assumption held until the first reply."""
    *_, assumed = asked(worker_on(Lab()), ReadRecording(str(write(tmp_path))))
    (lane,) = {event.lane for event in recording() if isinstance(event, ev.LaneOpened)}
    stated = ev.LimitsRead(AT + 5, lane, "m", (WindowReading(WindowKind.REQUESTS, 4000, 3990, 30.0),))
    path = write(tmp_path, sorted([*recording(), stated], key=lambda event: event.at))
    *_, told = asked(worker_on(Lab()), ReadRecording(str(path)))
    assert isinstance(assumed, RecordingSummary)
    assert isinstance(told, RecordingSummary)
    before, after = assumed.upstreams["anthropic"], told.upstreams["anthropic"]
    assert before["rpm"] > 0
    assert (after["rpm"], after["tpm"]) == (0.0, before["tpm"])


def test_knobs_turned_meanwhile_are_counted(tmp_path: Path) -> None:
    """Whatever else was commanded isn't."""
    tunes = [ev.Commanded(AT + 5, "you", "Tune", {"knob": knob, "value": 1}) for knob in ("rpm", "rpm", "nonsense")]
    path = write(tmp_path, sorted([*recording(), *tunes], key=lambda event: event.at))
    *_, summary = asked(worker_on(Lab()), ReadRecording(str(path)))
    assert isinstance(summary, RecordingSummary)
    assert summary.turned == {"rpm": 2}


def test_a_what_if_is_an_answer_and_two_courses(tmp_path: Path) -> None:
    """The recorded and the changed run over time; what was read is kept until the file has changed."""
    path, lab = write(tmp_path), Lab()
    said = asked(worker_on(lab), ReadRecording(str(path)), Simulate(str(path), (CEILING,)), Simulate(str(path), ()))
    first, second = (each for each in said if isinstance(each, WhatIfResult))
    assert (lab.loaded, lab.draws) == (1, 2)
    assert first.changes == first.answer.changes == (CEILING,)
    assert first.answer.sentence.startswith("With max_concurrency 8 ")
    assert first.diverged_after_s == pytest.approx(21.0)
    assert second.diverged_after_s is None
    assert max(first.recorded.in_flight) > max(first.tried.in_flight) > 0
    with path.open("ab") as file:
        file.write(b"\n")
    asked(worker_on(lab), ReadRecording(str(path)))
    assert lab.loaded == 2


def test_progress_is_told(tmp_path: Path) -> None:
    """What is being done, and how much of it."""
    path = str(write(tmp_path))
    stages = [each for each in asked(worker_on(Lab()), Simulate(path, (CEILING,))) if isinstance(each, Progress)]
    words = list(dict.fromkeys(stage.words for stage in stages))
    assert words == ["reading the recording", "simulating max_concurrency=8"]
    shares = [stage.share for stage in stages[1:] if stage.share is not None]
    assert shares == sorted(shares)
    assert 0 == shares[0] < shares[-1] < 1


def test_what_cannot_be_simulated_is_refused_and_the_next_is_answered(tmp_path: Path) -> None:
    """In the words of whoever refuses it."""
    path = str(write(tmp_path))
    said = asked(
        worker_on(Lab()),
        ReadRecording(str(tmp_path / "none.jsonl")),
        Simulate(path, (BETA,)),
        Simulate(path, (CEILING,)),
    )
    refused = [each.why for each in said if isinstance(each, WhatIfFailed)]
    assert "none.jsonl" in refused[0]
    assert "contradicts" in refused[1]
    assert isinstance(said[-1], WhatIfResult)


def test_one_that_is_too_large_is_let_go_of(tmp_path: Path) -> None:
    """Nothing of it is kept."""
    path = str(write(tmp_path))

    def too_large(*_: object, **__: object) -> list[Figures]:
        raise MemoryError

    said: list[Message] = []
    lab = Lab()
    worker = Worker(said.append, load=lab.load, simulated=lab.simulated, draws=too_large)
    worker.answer(Simulate(path, ()))
    assert said[-1] == WhatIfFailed("this recording doesn't fit into memory")
    worker.answer(ReadRecording(path))
    assert lab.loaded == 2


async def heard(simulation: SimulationProcess, question: Question) -> list[Message]:
    said: list[Message] = []
    async with asyncio.timeout(60):
        await simulation.ask(question, said.append)
    return said


async def test_the_process_simulates(tmp_path: Path) -> None:
    """For real, twice in one child; the same question has the same answer."""
    path, simulation = str(write(tmp_path)), SimulationProcess()
    try:
        first = (await heard(simulation, Simulate(path, (CEILING,))))[-1]
        child = pid_of(simulation)
        second = (await heard(simulation, Simulate(path, (CEILING,))))[-1]
        assert isinstance(first, WhatIfResult)
        assert first == second
        assert pid_of(simulation) == child is not None
        assert max(first.tried.in_flight) > 0
    finally:
        await simulation.aclose()
    assert pid_of(simulation) is None


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; sys.stdin.buffer.read(9); raise ZeroDivisionError('oh')", "ZeroDivisionError: oh"),
        ("import os; os.kill(os.getpid(), 9)", "Killed"),
        ("import sys; sys.stdin.buffer.read(9); sys.exit(3)", "exit code 3"),
        ("import sys; sys.stdout.write('x' * 9000)", "ended before its time"),
        (
            "import sys; sys.stdout.buffer.write(b'\\0\\0\\0\\1x'); sys.stdout.flush(); sys.stdin.read()",
            "before its time",
        ),
    ],
)
async def test_a_child_that_fails_is_one_line(script: str, told: str) -> None:
    """Whatever it is that went wrong."""
    (said,) = await heard(SimulationProcess((sys.executable, "-c", script)), ReadRecording("x"))
    assert isinstance(said, WhatIfFailed)
    assert told in said.why
    assert "\n" not in said.why


async def test_a_program_that_isnt_there_is_one_line() -> None:
    """As where nothing may be started."""
    (said,) = await heard(SimulationProcess(("/nonexistent/python",)), ReadRecording("x"))
    assert isinstance(said, WhatIfFailed)
    assert "can't be started" in said.why


async def test_whoever_gives_up_ends_the_child(tmp_path: Path) -> None:
    """Nothing else would stop what it computes; the next question is answered by another."""
    stuck = (
        "import sys, time; from hivemind_tui.loop.child import pack;"
        " from hivemind_tui.whatif.protocol import Progress;"
        " sys.stdout.buffer.write(pack(Progress('computing'))); sys.stdout.flush(); time.sleep(600)"
    )
    simulation, computes = SimulationProcess((sys.executable, "-c", stuck)), asyncio.Event()
    asking = asyncio.create_task(simulation.ask(ReadRecording("x"), lambda _: computes.set()))
    async with asyncio.timeout(60):
        await computes.wait()
    child = pid_of(simulation)
    asking.cancel()
    simulation._command = SimulationProcess()._command
    try:
        said = await heard(simulation, ReadRecording(str(write(tmp_path))))
        assert asking.cancelled()
        assert child is not None
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
        assert isinstance(said[-1], RecordingSummary)
    finally:
        await simulation.aclose()


async def test_what_a_cancelled_simulation_started_ends_with_it(tmp_path: Path) -> None:
    """The processes that it forked aren't its parent's to end."""
    script = (
        "import os, sys, time; from hivemind_tui.loop.child import pack; from hivemind.lab import processes;"
        " from hivemind_tui.whatif.protocol import Progress; processes.can_fork = lambda: True;"
        " other = processes.Beside(lambda: time.sleep(600)); pid = str(other._forked.process.pid);"
        " sys.stdout.buffer.write(pack(Progress(pid))); sys.stdout.flush(); time.sleep(600)"
    )
    simulation, forked = SimulationProcess((sys.executable, "-c", script)), asyncio.Queue[Message]()
    asking = asyncio.create_task(simulation.ask(ReadRecording("x"), forked.put_nowait))
    async with asyncio.timeout(60):
        message = await forked.get()
        assert isinstance(message, Progress)
        asking.cancel()
        await asyncio.wait([asking])
        await until_gone(int(message.words))


async def until_gone(pid: int) -> None:
    """Wait until a process that isn't a child of this one has ended."""
    ended = os.pidfd_open(pid)
    try:
        await asyncio.to_thread(select.select, [ended], [], [])
    finally:
        os.close(ended)
