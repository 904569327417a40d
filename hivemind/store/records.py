"""What goes into the database, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hivemind.scheduler.persistence import SavedAgent
from hivemind.scheduler.tasks import SavedTask


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an agent's process, which the runner started."""

    id: int
    agent: str
    command: tuple[str, ...]  # whole, so it may hold secrets: not for logs or screens
    cwd: str
    task: str | None
    started_at: float  # seconds since the epoch
    ended_at: float | None = None  # None: it runs, or its end is unknown
    exit_code: int | None = None
    """Negative: the number of the signal that ended it; None: it runs, never ran, or its runner fell silent."""
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0  # of the tokens those whose price isn't known


@dataclass(slots=True)
class Batch:
    """What is to be written, all of it or nothing. Records are whole, so a later batch goes over an earlier one."""

    agents: dict[str, SavedAgent] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    """When agents were seen last, in seconds since the epoch; without those that weren't since the proxy began."""
    tasks: dict[str, SavedTask | None] = field(default_factory=dict)  # None: it is forgotten
    runs: dict[int, Run] = field(default_factory=dict)
    wall: float = 0.0  # when it was made, in seconds since the epoch
    day: str = ""  # the day that the counts of a day belong to; empty: as it was
    clean: bool = False  # the run has come to its end
    forgotten: frozenset[str] = frozenset()
    """Agents whose records go, before those of this batch are written."""

    def __bool__(self) -> bool:
        return bool(self.forgotten or self.agents or self.tasks or self.runs or self.clean)

    def over(self, earlier: Batch) -> Batch:
        """Return one batch for both, with this one's records over the earlier ones."""
        agents, seen = earlier.agents, earlier.seen
        if self.forgotten:
            agents = {name: saved for name, saved in agents.items() if name not in self.forgotten}
            seen = {name: at for name, at in seen.items() if name not in self.forgotten}
        return Batch(
            forgotten=earlier.forgotten | self.forgotten,
            agents=agents | self.agents,
            seen=seen | self.seen,
            tasks=earlier.tasks | self.tasks,
            runs=earlier.runs | self.runs,
            wall=self.wall,
            day=self.day or earlier.day,
            clean=self.clean,
        )


@dataclass(frozen=True, slots=True)
class SavedState:
    """Everything that a proxy starts from."""

    agents: tuple[SavedAgent, ...] = ()  # those that were seen longest ago first
    tasks: tuple[SavedTask, ...] = ()
    runs: tuple[Run, ...] = ()  # the last of each agent
    next_run: int = 1  # number that no run has yet
    day: str = ""  # the day that the counts of a day belong to; empty: there are none
    clean: bool = True  # the last run had come to its end
