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
from hivemind.lab.foresight.foretold import named
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording, load
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, WindowKind, WindowReading
from hivemind_tui.whatif import protocol
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.whatif.worker import SeriesFold, SimulatedRun, Worker

pytestmark = pytest.mark.e2e


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


def asked(
    desk_of: Callable[[Callable[[protocol.Message], None]], Worker], *questions: protocol.Question
) -> list[protocol.Message]:
    """Everything that is said to these questions."""
    said: list[protocol.Message] = []
    worker = desk_of(said.append)
    for question in questions:
        worker.answer(question)
    return said


def worker_on(lab: Lab) -> Callable[[Callable[[protocol.Message], None]], Worker]:
    return lambda tell: Worker(tell, load=lab.load, simulated=lab.simulated, draws=lab.drawn)


def test_a_recording_is_looked_at(tmp_path: Path) -> None:
    """What is in it, from when, and the knobs that a simulation of it begins with."""
    *_, summary = asked(worker_on(Lab()), protocol.ReadRecording(str(write(tmp_path))))
    assert isinstance(summary, protocol.RecordingSummary)
    assert (summary.name, summary.requests, summary.agents) == ("20261121-140000-8765", 36, 3)
    assert summary.began_wall == pytest.approx(WALL + 1)
    assert summary.lasts_s == pytest.approx(113.2)
    assert summary.upstreams["anthropic"]["aimd.beta"] == 0.5
    assert summary.turned == {}


def test_a_limit_that_headers_replaced_is_none(tmp_path: Path) -> None:
    """As the running proxy shows it: the profile's assumption held until the first reply. Knobs that were turned
    meanwhile are counted, and nothing else that was commanded."""
    *_, assumed = asked(worker_on(Lab()), protocol.ReadRecording(str(write(tmp_path))))
    (lane,) = {event.lane for event in recording() if isinstance(event, ev.LaneOpened)}
    stated = ev.LimitsRead(AT + 5, lane, "m", (WindowReading(WindowKind.REQUESTS, 4000, 3990, 30.0),))
    tunes = [ev.Commanded(AT + 5, "you", "Tune", {"knob": knob, "value": 1}) for knob in ("rpm", "rpm", "nonsense")]
    path = write(tmp_path, sorted([*recording(), stated, *tunes], key=lambda event: event.at))
    *_, told = asked(worker_on(Lab()), protocol.ReadRecording(str(path)))
    assert isinstance(assumed, protocol.RecordingSummary)
    assert isinstance(told, protocol.RecordingSummary)
    before, after = assumed.upstreams["anthropic"], told.upstreams["anthropic"]
    assert before["rpm"] > 0
    assert (after["rpm"], after["tpm"]) == (0.0, before["tpm"])
    assert told.turned == {"rpm": 2}


def test_a_what_if_is_an_answer_and_two_courses(tmp_path: Path) -> None:
    """The recorded and the changed run over time; what was read is kept until the file has changed. What can't be
    simulated is refused in the words of whoever refuses it. It is told what is being done, and how much of it."""
    path, lab = write(tmp_path), Lab()
    questions = (protocol.Simulate(str(path), changes) for changes in ((CEILING,), (BETA,), ()))
    said = asked(worker_on(lab), protocol.ReadRecording(str(tmp_path / "none.jsonl")), *questions)
    first, second = (each for each in said if isinstance(each, protocol.WhatIfResult))
    assert (lab.loaded, lab.draws) == (1, 3)
    assert first.answer.changes == (CEILING,)
    assert first.answer.sentence.startswith("With max_concurrency 8 ")
    assert first.diverged_after_s == pytest.approx(21.0)
    assert second.diverged_after_s is None
    assert max(first.recorded.in_flight) > max(first.tried.in_flight) > 0
    for each in (first, second):  # the plot ends where the answer says that the run does
        wall = named(each.answer.figures, "wall time").changed
        assert wall is not None
        assert each.tried.lasts_s == pytest.approx(wall.value)
    refused = [each.why for each in said if isinstance(each, protocol.WhatIfFailed)]
    assert ("none.jsonl" in refused[0], "contradicts" in refused[1]) == (True, True)
    stages = [each for each in said[: said.index(first)] if isinstance(each, protocol.Progress)]
    words = list(dict.fromkeys(stage.words for stage in stages))
    assert words == ["reading the recording", "simulating max_concurrency=8"]
    shares = [stage.share for stage in stages[1:] if stage.share is not None]
    assert shares == sorted(shares)
    assert 0 == shares[0] < shares[-1] < 1
    with path.open("ab") as file:
        file.write(b"\n")
    asked(worker_on(lab), protocol.ReadRecording(str(path)))
    assert lab.loaded == 2


def test_one_that_is_too_large_is_let_go_of(tmp_path: Path) -> None:
    """Nothing of it is kept."""
    path = str(write(tmp_path))

    def too_large(*_: object, **__: object) -> list[Figures]:
        raise MemoryError

    said: list[protocol.Message] = []
    lab = Lab()
    worker = Worker(said.append, load=lab.load, simulated=lab.simulated, draws=too_large)
    worker.answer(protocol.Simulate(path, ()))
    assert said[-1] == protocol.WhatIfFailed("this recording doesn't fit into memory")
    worker.answer(protocol.ReadRecording(path))
    assert lab.loaded == 2


async def heard(simulation: SimulationProcess, question: protocol.Question) -> list[protocol.Message]:
    said: list[protocol.Message] = []
    async with asyncio.timeout(300):  # at its low priority, a busy machine hardly lets the child run
        await simulation.ask(question, said.append)
    return said


def _script(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", f"import sys; {code}"


@pytest.mark.e2e
async def test_the_process_simulates(tmp_path: Path) -> None:
    """For real, twice in one child; the same question has the same answer. Before that somebody gave up: nothing else
    would stop what that child computes, nor the processes that it forked, which aren't its parent's to end."""
    path = str(write(tmp_path))
    forking = _script(
        "import time; from hivemind_tui.loop.child import pack; from hivemind import processes;"
        " from hivemind_tui.whatif.protocol import Progress; processes.can_fork = lambda: True;"
        " other = processes.Beside(lambda: time.sleep(600)); pid = str(other._forked.process.pid);"
        " sys.stdout.buffer.write(pack(Progress(pid))); sys.stdout.flush(); time.sleep(600)"
    )
    simulation, forked = SimulationProcess(forking), asyncio.Queue[protocol.Message]()
    asking = asyncio.create_task(simulation.ask(protocol.ReadRecording("x"), forked.put_nowait))
    async with asyncio.timeout(60):
        message = await forked.get()
        assert isinstance(message, protocol.Progress)
        stopped = pid_of(simulation)
        asking.cancel()
        await asyncio.wait([asking])
        await until_gone(int(message.words))
    simulation._command = SimulationProcess()._command
    try:
        first = (await heard(simulation, protocol.Simulate(path, (CEILING,))))[-1]
        assert stopped is not None
        with pytest.raises(ProcessLookupError):
            os.kill(stopped, 0)
        child = pid_of(simulation)
        second = (await heard(simulation, protocol.Simulate(path, (CEILING,))))[-1]
        assert isinstance(first, protocol.WhatIfResult)
        assert first == second
        assert pid_of(simulation) == child is not None
        assert max(first.tried.in_flight) > 0
    finally:
        await simulation.aclose()
    assert pid_of(simulation) is None


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (_script("sys.stdin.buffer.read(9); raise ZeroDivisionError('oh')"), "ZeroDivisionError: oh"),
        (_script("import os; os.kill(os.getpid(), 9)"), "Killed"),
        (_script("sys.stdin.buffer.read(9); sys.exit(3)"), "exit code 3"),
        (_script("sys.stdout.write('x' * 9000)"), "ended before its time"),
        (_script("sys.stdout.buffer.write(b'\\0\\0\\0\\1x'); sys.stdout.flush(); sys.stdin.read()"), "before its time"),
        (("/nonexistent/python",), "can't be started"),
    ],
)
async def test_a_child_that_fails_is_one_line(command: tuple[str, ...], told: str) -> None:
    """Whatever it is that went wrong."""
    (said,) = await heard(SimulationProcess(command), protocol.ReadRecording("x"))
    assert isinstance(said, protocol.WhatIfFailed)
    assert told in said.why
    assert "\n" not in said.why


async def until_gone(pid: int) -> None:
    """Wait until a process that isn't a child of this one has ended."""
    ended = os.pidfd_open(pid)
    try:
        await asyncio.to_thread(select.select, [ended], [], [])
    finally:
        os.close(ended)
