"""The simulation process: `python -m hivemind_tui.whatif.worker` reads questions from its input and answers them.

A process of its own, because a simulation computes for seconds: in the proxy's own process every agent would wait for
it. It keeps the recording it read last, and ends with its input, or after some minutes without a question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from hivemind.errors import HiveMindError
from hivemind.journal.figures import Figures
from hivemind.journal.read.reader import open_journal
from hivemind.lab.foresight.answer import answer, foretell
from hivemind.lab.foresight.draws import Job, on_all_cores, remembering
from hivemind.lab.foresight.foretold import WALL, named
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.report.lanes import Series
from hivemind.lab.simulate.overrides import Change, value_in
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.prices import Prices
from hivemind.processes import Beside
from hivemind.scheduler import events as ev
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import Price, WindowKind
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried
from hivemind_tui.loop.child import messages, send
from hivemind_tui.whatif import protocol

_IDLE_S = 300.0
Mark = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of a journal's files when it was read."""
Grant = tuple[float, int]
"""When a request was granted, and its ticket."""
MOST_INTERVALS = 512
"""Most intervals of a run; when there would be more, each two become one."""
_FINEST_S = 0.25


class SeriesFold:
    """The series of a run whose events come in order."""

    def __init__(self) -> None:
        self.began: float | None = None
        """The first request's arrival; None before that."""
        self.ended = 0.0
        """The end of the last request so far."""
        self._requests = requests = OpenRequests(Lifecycle)
        self._levels: dict[str, float] = {}
        self._level: float | None = None
        self._series = [Series(MOST_INTERVALS, _FINEST_S) for _ in range(3)]
        """In flight, waiting and level, in seconds since it began."""
        self._folds: Mapping[type[ev.Event], Callable[[Any], object]] = {
            ev.Arrived: requests.arrived,
            ev.Granted: requests.granted,
            ev.AttemptFailed: requests.attempt_failed,
            ev.Finished: requests.ended,
            ev.Abandoned: requests.ended,
            ev.Refused: requests.ended,
            ev.LaneOpened: self._lane_opened,
            ev.LevelChanged: lambda event: self._set_level(event.lane, event.level),
            ev.Sampled: self._sampled,
            Carried: self._carried,
        }

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        fold = self._folds.get(type(event))
        if fold is None:
            return
        arrival = type(event) is ev.Arrived
        if self.began is None:
            if arrival:
                self.began = self.ended = event.at
        elif arrival or self._requests.by_ticket:
            # Gauges are still sampled after the last request, when the run has ended.
            self.ended = max(self.ended, event.at)
        fold(event)
        if self.began is not None:
            values = (self._requests.in_flight, self._requests.waiting, self._level)
            for series, value in zip(self._series, values, strict=True):
                series.set(self.ended - self.began, value)

    def series(self) -> protocol.RunSeries:
        """Return the series so far."""
        until = self.ended - (self.began or 0.0)
        in_flight, waiting, level = ({begin: mean for begin, mean, _ in each.points(until)} for each in self._series)
        return protocol.RunSeries(
            self._series[0].width_s,
            list(in_flight.values()),
            list(waiting.values()),
            [level.get(at) for at in in_flight],
        )

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        if event.config is not None:
            self._set_level(event.lane, event.config.max_concurrency or math.inf)

    def _sampled(self, event: ev.Sampled) -> None:
        for lane in event.lanes:
            self._set_level(lane.lane, lane.level)

    def _set_level(self, lane: str, level: float) -> None:
        self._levels[lane] = level
        whole = sum(self._levels.values())
        self._level = None if math.isinf(whole) else whole

    def _carried(self, event: Carried) -> None:
        self._requests.carried(event)
        for lane in event.state.lanes:
            self._set_level(lane.lane, lane.level)
        if self.began is None and event.state.tickets:
            self.began = self.ended = event.at


def first_difference(first: Sequence[Grant], second: Sequence[Grant]) -> float | None:
    """Return when two runs begin to differ: the first grant with another time or ticket; None if they never do."""
    for one, other in zip_longest(first, second):
        if one != other:
            return min(grant[0] for grant in (one, other) if grant is not None)
    return None


def _knobs(recording: Recording) -> dict[str, dict[str, float]]:
    """Return by upstream the knobs that it began with. A limit that was only assumed, and that the provider's headers
    replaced, is none, as in the proxy that ran."""
    found: dict[str, dict[str, float]] = {}
    for key, lane in recording.lanes.items():
        values = {name: float(value_in(name, recording.began.config, lane) or 0) for name in KNOBS}
        knobs = found.setdefault(lane.upstream, values)
        stated = {window.kind for _, _, windows in recording.trace.lanes[key].readings for window in windows}
        if WindowKind.REQUESTS in stated and not lane.rpm_binding:
            knobs["rpm"] = 0.0
        if stated - {WindowKind.REQUESTS} and not lane.tpm_binding:
            knobs["tpm"] = 0.0
    return found


class SimulatedRun(Struct, frozen=True):
    """A run simulated with the recorded luck."""

    figures: Figures
    series: protocol.RunSeries
    grants: list[Grant]


def simulated(recording: Recording, changes: tuple[Change, ...], price: Price | None) -> SimulatedRun:
    """Simulate a run. Raises: UsageError: the changes don't go together."""
    fold, grants = SeriesFold(), list[Grant]()

    def on_event(event: ev.Event) -> None:
        fold.apply(event)
        if type(event) is ev.Granted:
            grants.append((event.at, event.ticket))

    figures = simulate(recording, changes, price=price, on_event=on_event)
    return SimulatedRun(figures, fold.series(), grants)


class Worker:
    """Answers questions one after the other; `send` receives the progress and the answer."""

    def __init__(
        self,
        send: Callable[[protocol.Message], None],
        *,
        price: Price | None = None,
        load: Callable[[Path, Price | None], Recording] = load,
        simulated: Callable[[Recording, tuple[Change, ...], Price | None], SimulatedRun] = simulated,
        draws: Callable[..., list[Figures]] = on_all_cores,
    ) -> None:
        self._send = send
        self._price = price
        self._load = load
        self._simulated = simulated
        self._draws = draws
        self._mark: Mark = ()
        self._recording: Recording | None = None
        self._summary: protocol.RecordingSummary | None = None
        self._series = protocol.RunSeries(1.0, [], [], [])
        self._began = 0.0
        self._checked: Beside[HeldOut] | None = None
        self._replayed: Beside[SimulatedRun] | None = None
        self._unchanged: dict[Job, Figures] = {}
        """Draws with the recorded settings."""

    def answer(self, question: protocol.Question) -> None:
        """Send the answer to a question; an error is an answer too."""
        try:
            summary = self._read(Path(question.path))
            self._send(summary if isinstance(question, protocol.ReadRecording) else self._tried(question.changes))
        except HiveMindError as error:
            self._send(protocol.WhatIfFailed(str(error)))
        except MemoryError:
            self._forget()
            self._send(protocol.WhatIfFailed("this recording doesn't fit into memory"))

    def _forget(self) -> None:
        for beside in (self._checked, self._replayed):
            if beside is not None:
                beside.cancel()
        self._mark, self._recording, self._checked, self._replayed = (), None, None, None
        self._unchanged.clear()

    def _read(self, path: Path) -> protocol.RecordingSummary:
        journal = open_journal(path)
        mark = tuple((str(part), *_size_and_time(part)) for part in journal.parts)
        if mark == self._mark and self._summary is not None and self._recording is not None:
            return self._summary
        self._forget()
        self._send(protocol.Progress("reading the recording"))
        recording = self._load(path, self._price)
        fold, turned = SeriesFold(), Counter[str]()
        for event in journal.events():
            fold.apply(event)
            if isinstance(event, ev.Commanded) and event.name == "Tune":
                turned[str(event.arguments.get("knob"))] += 1
        self._began = journal.began.at if fold.began is None else fold.began
        self._summary = protocol.RecordingSummary(
            recording.name,
            journal.began.wall + (self._began - journal.began.at),
            max(0.0, fold.ended - self._began),
            recording.figures.requests,
            recording.figures.agents,
            _knobs(recording),
            {knob: turned[knob] for knob in KNOBS if knob in turned},
            tuple(recording.warnings),
            recording.began.foreign,
        )
        self._series, self._recording, self._mark = fold.series(), recording, mark
        return self._summary

    def _report(self, words: str, done: int, of: int) -> None:
        self._send(protocol.Progress(words, done / (of + 1)))  # what is left then is the run with its own luck

    def _tried(self, changes: tuple[Change, ...]) -> protocol.WhatIfResult:
        recording = self._recording
        assert recording is not None
        words = f"simulating {', '.join(map(str, changes))}" if changes else "simulating the recorded settings"
        self._send(protocol.Progress(words, 0.0))
        if self._checked is None or self._replayed is None:
            self._checked = Beside(partial(held_out, recording))
            self._replayed = Beside(partial(self._simulated, recording, (), self._price))
        replayed = self._replayed
        tried = Beside(partial(self._simulated, recording, changes, self._price)) if changes else replayed

        draws = remembering(partial(self._draws, done=partial(self._report, words)), self._unchanged)

        def runs(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
            found = iter(draws(recording, [job for job in jobs if job.draw is not None], price))
            own = {(): replayed, changes: tried}
            return [next(found) if job.draw is not None else own[job.changes].result().figures for job in jobs]

        try:
            prediction = foretell(recording, changes, self._price, runs=runs, checked=self._checked)
        except BaseException:
            if tried is not replayed:
                tried.cancel()
            raise
        diverged = first_difference(replayed.result().grants, tried.result().grants)
        found, series = answer(recording, prediction), tried.result().series
        wall = named(found.figures, WALL).changed
        if wall is not None and series.in_flight:
            series = structs.replace(series, width_s=wall.value / len(series.in_flight))
        return protocol.WhatIfResult(
            found,
            self._series,
            series,
            None if diverged is None else diverged - self._began,
        )


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError:
        return 0, 0
    return about.st_size, about.st_mtime_ns


def main() -> None:
    """Answer until the input ends."""
    questions = messages(protocol.QUESTIONS, nice=15, idle_s=_IDLE_S)
    prices = Prices()
    worker = Worker(send, price=prices.cost)
    for question in questions:
        worker.answer(question)


if __name__ == "__main__":
    main()
