"""An agent's part in a run: its requests, their ends, and what it would have lost without retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields

from hivemind.lab.report.rows import Row
from hivemind.scheduler.types import Usage

MODELS_KEPT = 40
OTHERS = "other models"


@dataclass(slots=True)
class TokenSpending:
    """Tokens and their cost."""

    tokens: int = 0
    input: int = 0
    cached: int = 0
    """Input tokens read from a cache."""
    output: int = 0
    wasted: int = 0
    """Tokens of failed and abandoned attempts."""
    unpriced: int = 0
    """Tokens of unknown price."""
    dollars: float = 0.0

    def use(self, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """Add the usage of an attempt."""
        total = usage.total
        self.tokens += total
        self.input += usage.total_input
        self.cached += usage.cache_read_tokens
        self.output += usage.output_tokens
        self.wasted += total if wasted else 0
        if dollars is None:
            self.unpriced += total
        else:
            self.dollars += dollars

    def add(self, other: TokenSpending) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class AgentStats:
    """An agent's counts, spending and row. Times are in seconds since the run began."""

    name: str
    row: Row | None = None
    """None: the agent isn't drawn."""
    client: str = ""
    parent: str | None = None
    began: float | None = None
    ended: float = 0.0
    """The end of its last request."""
    last_end: str = ""
    """How that ended: `answered`, `failed`, `refused`, `left`; empty: no request has ended, or one is open."""
    exit_code: int | None = None
    requests: int = 0
    answered: int = 0
    failed: int = 0
    refused: int = 0
    left: int = 0
    retries: int = 0
    recovered: int = 0
    """Requests answered after a failed attempt."""
    saw_error: bool = False
    """It got an error that no operator caused, so retries didn't save it."""
    spent: TokenSpending = field(default_factory=TokenSpending)
    spent_at_recovery: TokenSpending = field(default_factory=TokenSpending)
    """What it had used at its last recovery: without retries, it would have ended by then."""
    models: dict[str, TokenSpending] = field(default_factory=dict)

    @property
    def saved(self) -> bool:
        """A failed attempt was retried OK, and it never saw an error."""
        return self.recovered > 0 and not self.saw_error

    def use(self, model: str, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """Add the usage of an attempt."""
        self.spent.use(usage, dollars, wasted)
        _spending_on(self.models, model).use(usage, dollars, wasted)

    def recover(self) -> None:
        """Count a request that was answered after a failed attempt."""
        self.recovered += 1
        self.spent_at_recovery = copy(self.spent)


def _spending_on(models: dict[str, TokenSpending], model: str) -> TokenSpending:
    """Return the entry of a model; beyond :data:`MODELS_KEPT` models the common one of all others."""
    name = model or "(none named)"
    if name not in models:
        name = name if len(models) < MODELS_KEPT else OTHERS
    return models.setdefault(name, TokenSpending())


def spending_by_model(agents: Mapping[str, AgentStats]) -> dict[str, TokenSpending]:
    """Return the spending of all agents by model, the most expensive model first."""
    found: dict[str, TokenSpending] = {}
    for agent in agents.values():
        for model, spent in agent.models.items():
            _spending_on(found, model).add(spent)
    return dict(sorted(found.items(), key=lambda each: (-each[1].dollars, -each[1].tokens, each[0])))


@dataclass(slots=True)
class FaultKind:
    """Failed attempts of one kind."""

    count: int = 0
    retried: int = 0
    statuses: Counter[int | None] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """How the requests ended: `answered`, `failed`, `refused`, `left`, or `open` if that isn't known."""


class Faults:
    """The failed attempts of a run by kind, and how their requests ended."""

    def __init__(self) -> None:
        self.kinds: dict[str, FaultKind] = {}

    def add(self, kind: str, status: int | None, *, retried: bool) -> None:
        """Count a failed attempt."""
        found = self.kinds.setdefault(kind, FaultKind())
        found.count += 1
        found.statuses[status] += 1
        found.retried += retried

    def end(self, kinds: Iterable[str], outcome: str) -> None:
        """Count the end of a request whose attempts had failed in these ways."""
        for kind in kinds:
            self.kinds[kind].outcomes[outcome] += 1

    @property
    def count(self) -> int:
        """The number of failed attempts."""
        return sum(kind.count for kind in self.kinds.values())

    def ended(self, outcome: str) -> int:
        """Return the number of failed attempts whose request ended so."""
        return sum(kind.outcomes[outcome] for kind in self.kinds.values())

    def most_frequent(self) -> list[tuple[str, FaultKind]]:
        """Return the kinds, the most frequent one first."""
        return sorted(self.kinds.items(), key=lambda each: (-each[1].count, each[0]))
