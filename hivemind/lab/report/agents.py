"""An agent's part in a run: its requests and their ends, and what it would have lost without retries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from copy import copy

from msgspec import Struct, field

from hivemind.journal.past import TokenSpending
from hivemind.scheduler.types import Usage

MODELS_KEPT = 40
OTHERS = "other models"


class AgentStats(Struct):
    """An agent's counts and spending."""

    name: str
    client: str = ""
    last_end: str = ""
    """How its last request ended: `answered`, `failed`, `refused`, `left`; empty: none has, or one is open."""
    exit_code: int | None = None
    stopped: bool = False
    died: bool = False
    """As in :attr:`~hivemind.world.snapshot.AgentView.state`: its process ended with an error, or by a signal that no
    operator sent."""
    requests: int = 0
    answered: int = 0
    failed: int = 0
    refused: int = 0
    retries: int = 0
    recovered: int = 0
    """Requests answered after a failed attempt."""
    saw_error: bool = False
    """It got an error that no operator caused, from which on retries don't count as saving it."""
    recovered_first: int = 0
    """Of the requests answered after a failed attempt those before it saw an error."""
    spent: TokenSpending = field(default_factory=TokenSpending)
    spent_at_recovery: TokenSpending = field(default_factory=TokenSpending)
    """What it had used at the last of these: without retries, it would have ended by then."""
    models: dict[str, TokenSpending] = field(default_factory=dict)
    caches: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("waited", "thought", "switched", "order"), 0.0)
    )
    """Dollars by :attr:`.events.PromptCached.why`."""

    @property
    def saved(self) -> bool:
        """A failed attempt was retried OK before it saw an error."""
        return self.recovered_first > 0

    def use(self, model: str, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """Add the usage of an attempt."""
        self.spent.use(usage, dollars, wasted)
        _spending_on(self.models, model).use(usage, dollars, wasted)

    def recover(self) -> None:
        """Count a request that was answered after a failed attempt."""
        self.recovered += 1
        if self.saw_error:
            return
        self.recovered_first += 1
        self.spent_at_recovery = copy(self.spent)


def _spending_on(models: dict[str, TokenSpending], model: str) -> TokenSpending:
    """Return the entry of a model; beyond :data:`MODELS_KEPT` models the common one of all others."""
    name = model or "(none named)"
    if name not in models and len(models) >= MODELS_KEPT:
        name = OTHERS
    return models.setdefault(name, TokenSpending())


def spending_by_model(agents: Mapping[str, AgentStats]) -> dict[str, TokenSpending]:
    """Return the spending of all agents by model, the most expensive model first."""
    found: dict[str, TokenSpending] = {}
    for agent in agents.values():
        for model, spent in agent.models.items():
            _spending_on(found, model).add(spent)
    return dict(sorted(found.items(), key=lambda each: (-each[1].dollars, -each[1].tokens, each[0])))


class FaultKind(Struct):
    """Failed attempts of one kind."""

    count: int = 0
    retried: int = 0
    statuses: Counter[int | None] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """How the requests ended: `answered`, `failed`, `refused`, `left`, or `open` if that isn't known."""


class Faults:
    """The failed attempts of a run by kind, and how their requests ended."""

    def __init__(self) -> None:
        self.kinds: defaultdict[str, FaultKind] = defaultdict(FaultKind)

    def add(self, kind: str, status: int | None, *, retried: bool) -> None:
        """Count a failed attempt."""
        found = self.kinds[kind]
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
