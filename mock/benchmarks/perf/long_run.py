"""A long run of many agents, told as a proxy would: an hour of it by the real scheduler in virtual time, over and over.

Fifty agents on three lanes, faults of every kind now and then, a batch of tasks an hour, an operator who can't keep
their hands off. At the end of the hour nothing is in flight, so that the next one can be the same with other numbers.
`python -m benchmarks.perf.long_run FOLDER MEGABYTES` writes a journal of it, and prints how many events are in it.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from msgspec import structs

from hivemind.journal.codec import line_of
from hivemind.journal.files import part_path
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.events import Event, Sampled
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Priority, Request, TaskSpec, Usage
from hivemind.world.state import Carried
from hivemind.world.world import World

HOUR_S = 3600.0
NAME = "20261121-000000-8765"
BEGAN = JournalBegan(0.0, 1_795_219_200.0, NAME, 1, "hivemind 0.1.0", "http://127.0.0.1:8765")
_LANES = (("anthropic/1", "anthropic", 8), ("anthropic/2", "anthropic", 6), ("openai/1", "openai", 8))
_MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5-mini")
_FAULTS = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.DISCONNECTED, FailureKind.SERVER_ERROR)
_TASKS = 40


class LongRun:
    """An hour of it."""

    def __init__(self, agents: int = 50, seed: int = 1, hour_s: float = HOUR_S) -> None:
        self.events: list[Event] = []
        self._draw = Random(seed)
        self._hour_s = hour_s
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._scheduler = Scheduler(SchedulerConfig(), self._draw.random)
        self._asks: dict[int, int] = {}
        """By ticket, whose it is."""
        for lane, provider, slots in _LANES:
            self._scheduler.open_lane(
                0.0, lane, LaneConfig(lane.split("/")[0], provider, slots, rpm=600, tpm=2_000_000)
            )
        for number in range(agents):
            self._after(self._draw.uniform(0, 20), lambda number=number: self._ask(number))  # type: ignore[misc]
        self._after(0.5, self._sample)
        self._after(5.0, self._submit)
        self._after(60.0, self._steer)

    def run(self) -> list[Event]:
        """Everything that happens in it."""
        while self._due or self._scheduler.wake_at() is not None:
            wake = self._scheduler.wake_at()
            if wake is not None and (not self._due or wake <= self._due[0][0]):
                self._now = max(self._now, wake)
                self._scheduler.advance(self._now)
            else:
                self._now, _, act = heapq.heappop(self._due)
                act()
            self._gather()
        return self.events

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._due, (self._now + seconds, self._numbers, act))

    def _gather(self) -> None:
        self.events += self._scheduler.events
        self._scheduler.events.clear()
        decided, self._scheduler.decisions = self._scheduler.decisions, []
        for ticket in decided:
            if ticket.state is TicketState.IN_FLIGHT:
                self._fly(ticket)
            elif ticket.state is TicketState.DONE:
                self._think(ticket)

    def _ask(self, number: int) -> None:
        draw, lane = self._draw, _LANES[number % len(_LANES)][0]
        priority = (None, None, Priority.HIGH, Priority.LOW)[number % 4]
        agent = f"agent-{number:02}"
        model = _MODELS[number % len(_MODELS)]
        size = int(draw.lognormvariate(9, 1))
        ticket = self._scheduler.arrive(
            self._now,
            Request(agent, lane, model, model, size, 4096, True, priority, client="claude-code", path="/v1/messages"),
        )
        self._asks[ticket.id] = number
        if ticket.state is TicketState.IN_FLIGHT:
            self._fly(ticket)
        elif ticket.state is TicketState.DONE:
            self._think(ticket)

    def _think(self, ticket: Ticket) -> None:
        number = self._asks.pop(ticket.id)
        if self._now < self._hour_s - 120:
            self._after(self._draw.expovariate(1 / 12), lambda: self._ask(number))

    def _fly(self, ticket: Ticket) -> None:
        draw = self._draw
        if draw.random() < 0.04:
            kind = draw.choice(_FAULTS)
            delay_s = 3.0 if kind is FailureKind.RATE_LIMITED and draw.random() < 0.3 else None
            self._after(draw.uniform(0.1, 2), lambda: self._fail(ticket, kind, delay_s))
        else:
            self._after(draw.lognormvariate(0, 0.5), lambda: self._begin(ticket))

    def _fail(self, ticket: Ticket, kind: FailureKind, delay_s: float | None) -> None:
        status = {FailureKind.RATE_LIMITED: 429, FailureKind.OVERLOADED: 529, FailureKind.SERVER_ERROR: 500}.get(kind)
        again = self._draw.random() < 0.97
        failure = Failure(kind, again, status, delay_s, "This request would exceed the rate limit" if status else "")
        if self._scheduler.fail(self._now, ticket, failure) is None:
            self._think(ticket)

    def _begin(self, ticket: Ticket) -> None:
        self._scheduler.first_content(self._now, ticket)
        left = max(1, int(self._draw.lognormvariate(2, 0.7)))
        self._after(1.0, lambda: self._go_on(ticket, left, 0))

    def _go_on(self, ticket: Ticket, left: int, tokens: int) -> None:
        tokens += self._draw.randrange(30, 90)
        if left:
            self._scheduler.progress(self._now, ticket, tokens)
            self._after(1.0, lambda: self._go_on(ticket, left - 1, tokens))
            return
        usage = Usage(ticket.request.size_chars // 8, ticket.request.size_chars // 8, 0, tokens)
        if self._draw.random() < 0.01:
            self._scheduler.abandon(self._now, ticket, usage)
        else:
            self._scheduler.succeed(self._now, ticket, 200, usage)
        self._think(ticket)

    def _sample(self) -> None:
        self._gather()
        sample = self._scheduler.sample(self._now)
        self._gather()
        self.events.append(sample)
        if self._now < self._hour_s - 1.0:
            self._after(1.0, self._sample)

    # --- Tasks, and an operator ------------------------------------------------------------------------------------

    def _submit(self) -> None:
        names = [f"batch.t{number:02}" for number in range(_TASKS)]
        tasks = [TaskSpec(name, after=tuple(names[i - 3 : i - 2]), batch="batch") for i, name in enumerate(names)]
        self._do(cmd.SubmitTasks(tuple(tasks)), "batch")
        for number, name in enumerate(names):
            self._after(20 + number * 60.0, lambda name=name: self._work(name))  # type: ignore[misc]
        self._after(self._hour_s - 10, lambda: self._do(cmd.ForgetTasks("batch"), "batch"))

    def _work(self, name: str) -> None:
        if self._now < self._hour_s - 120:
            self._do(cmd.ClaimTask(name), "batch")
            self._do(cmd.BeginAgent(name, "batch", name), "batch")
            self._after(100.0, lambda: self._do(cmd.EndAgent(name, 0), "batch"))
            self._after(100.0, lambda: self._do(cmd.FinishTask(name, True), "batch"))

    def _steer(self) -> None:
        draw = self._draw
        agent = f"agent-{draw.randrange(50):02}"
        commands: tuple[cmd.Command, ...] = (
            cmd.SetPriority(agent, draw.choice(list(Priority))),
            cmd.BoostAgent(agent, 30.0),
            cmd.PauseAgent(agent, draw.random() < 0.3),
            cmd.SetBudget(agent, draw.choice([None, 40_000_000])),
            cmd.Tune("aimd.beta", draw.choice([0.5, 0.6, 0.7])),
        )
        if self._now < self._hour_s - 120:
            self._do(draw.choice(commands), "you")
            self._after(draw.uniform(20, 100), self._steer)
        else:
            for number in range(50):
                self._do(cmd.PauseAgent(f"agent-{number:02}", False), "you")

    def _do(self, command: cmd.Command, who: str) -> None:
        try:
            self._scheduler.apply(self._now, command, who)
        except cmd.Rejected:
            return  # a task that waits for one that isn't done
        self._gather()


def hours(events: list[Event], hour_s: float) -> Iterator[Event]:
    """The same hour for ever, each with its own time and tickets."""
    tickets = 1 + max(ticket for event in events if (ticket := getattr(event, "ticket", None)) is not None)
    number = 0
    while True:
        for event in events:
            changed: dict[str, Any] = {"at": event.at + number * hour_s}
            if getattr(event, "ticket", None) is not None:
                changed["ticket"] = event.ticket + number * tickets  # type: ignore[attr-defined]  # it has one
            if isinstance(event, Sampled):
                changed["lanes"] = _moved(event, number * tickets)
            yield structs.replace(event, **changed)
        number += 1


def _moved(event: Sampled, by: int) -> tuple[Any, ...]:
    lanes = event.lanes
    return tuple(
        replace(lane, upcoming=tuple(replace(hold, ticket=hold.ticket + by) for hold in lane.upcoming))
        if lane.upcoming
        else lane
        for lane in lanes
    )


def write_journal(
    folder: Path, size: int, *, part_size: int = 64 << 20, events: list[Event] | None = None, hour_s: float = HOUR_S
) -> tuple[Path, int]:
    """A journal of about so many bytes in that folder, of an hour's events over and over; None: those of a long run.

    Returns its first part, and how many events are in it.
    """
    hour = LongRun(hour_s=hour_s).run() if events is None else events
    world = World(at=BEGAN.at, wall=BEGAN.wall, address=BEGAN.address, upstreams=())
    part, left, written, count, at = 1, 0, 0, 0, 0.0
    file = part_path(folder, NAME, part).open("wb")
    try:
        written += file.write(line_of(BEGAN))
        for event in hours(hour, hour_s):
            if written - left >= part_size:
                left, part = written, part + 1
                file.close()
                file = part_path(folder, NAME, part).open("wb")
                file.write(line_of(structs.replace(BEGAN, at=at, wall=BEGAN.wall + at, part=part)))
                file.write(line_of(Carried(at, world.keep(at))))
            world.apply(event)
            at = event.at
            written += file.write(line_of(event))
            count += 1
            if written >= size:
                break
        file.write(line_of(JournalEnded(at)))
    finally:
        file.close()
    return part_path(folder, NAME, 1), count


if __name__ == "__main__":
    size = int(sys.argv[2]) * 1_000_000
    print(write_journal(Path(sys.argv[1]), size, hour_s=HOUR_S if size > 50_000_000 else HOUR_S / 12)[1])
