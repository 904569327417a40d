"""What a soak found, and what it holds against the proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from benchmarks.soak.messages import Outcome
from benchmarks.soak.watching import Sample, grown

_SHOWN = 10
SPARE_FILES = 4
"""Open files after a load, beyond those before it: a journal's part, a connection of the watcher."""


@dataclass(slots=True)
class Result:
    """One soak."""

    seed: int
    version: str
    load_s: float = 0.0
    """From the first request to the last answer."""
    requests: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    """Answers by status."""
    attempts: int = 0
    """Requests that arrived upstream, retries included."""
    upstream: Mapping[str, object] = field(default_factory=dict)
    """The mock's own counters."""
    commands: dict[str, int] = field(default_factory=dict)
    """What the operator did."""
    refused: list[str] = field(default_factory=list)
    """Commands that the proxy refused."""
    alarms: list[str] = field(default_factory=list)
    journal_mb: float = 0.0
    """Written, in MiB; most of it was removed again, as the settings say."""
    restless_s: float = 0.0
    """Seconds from the last answer until nothing was in flight, waiting or reserved."""
    idle: Sample | None = None
    """Before the load."""
    after: Sample | None = None
    """After it, all clients and the upstream gone."""
    samples: list[Sample] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Promises that weren't kept, a line each."""

    def holds(self, true: object, promise: str) -> None:
        """Note that a promise is broken unless it is true."""
        if not true:
            self.broken.append(promise)

    def judge(self) -> None:
        """Hold what was measured against the proxy."""
        self.broken += grown(self.samples)
        self.broken += [f"an alarm: {each}" for each in self.alarms if not each.startswith("loop:")]
        if self.idle is not None and self.after is not None:
            before, after = self.idle.files, self.after.files
            self.holds(after <= before + SPARE_FILES, f"{before} open files before the load, {after} after it")
            before, after = self.idle.tasks, self.after.tasks
            self.holds(after <= before, f"{before} tasks before the load, {after} after it")


def settle(
    result: Result,
    outcomes: bytes,
    attempts: bytes,
    answers: bytes,
    *,
    torn: Collection[int],
    excused: Collection[int],
) -> None:
    """Compare what clients got with what the upstream did, request by request."""
    count = result.requests
    outcomes, attempts, answers = (each[:count].ljust(count, b"\0") for each in (outcomes, attempts, answers))
    result.outcomes = {Outcome(code).name.lower(): n for code, n in sorted(Counter(outcomes).items())}
    result.attempts = sum(attempts)
    wrong: dict[str, list[int]] = {}
    for number, (outcome, tried, answered) in enumerate(zip(outcomes, attempts, answers, strict=True)):
        text = _wrong(Outcome(outcome), tried, answered)
        if text and not (number in excused and outcome in (Outcome.REFUSED, Outcome.ERROR_EVENT, Outcome.CUT)):
            wrong.setdefault(text, []).append(number)
    for number in torn:
        if attempts[number]:
            wrong.setdefault("sent upstream though its client never finished it", []).append(number)
    for text, numbers in wrong.items():
        shown = ", ".join(map(str, numbers[:_SHOWN]))
        result.broken.append(f"{len(numbers)} requests were {text}: {shown}")


def _wrong(outcome: Outcome, tried: int, answered: int) -> str:
    if outcome is Outcome.NONE:
        return "lost"
    if answered > 1:
        return "answered more than once upstream"
    if outcome is Outcome.ANSWERED and not answered:
        return "answered though the upstream never did"
    if answered and outcome in (Outcome.REFUSED, Outcome.ERROR_EVENT, Outcome.CUT):
        return f"answered upstream, but {outcome.name.lower().replace('_', ' ')} for the client"
    return ""
