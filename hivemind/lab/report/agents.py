"""An agent's part in a run: what it asked for, what became of it, and what it would have lost without retries."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.lab.report.rows import STATES, Row, Rows
from hivemind.scheduler.types import Usage

QUEUED, PAUSE, FIRST, STREAMING = (STATES.index(name) for name in ("queued", "retry", "waiting", "streaming"))

MODELS_KEPT = 40
OTHERS = "other models"


class TokenSpending:
    """Tokens and what they cost."""

    __slots__ = ("cached", "dollars", "input", "output", "tokens", "unpriced", "wasted")

    def __init__(self) -> None:
        self.tokens = self.input = self.cached = self.output = self.wasted = self.unpriced = 0
        """`cached`: of the input, what was read from a cache; `unpriced`: tokens whose price isn't known."""
        self.dollars = 0.0

    def use(self, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """An attempt used so much; `wasted`: no answer came of it."""
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


class AgentStats:
    """An agent, as its events tell of it."""

    __slots__ = (
        "_counts",
        "_rows",
        "_since",
        "_state",
        "answered",
        "began",
        "client",
        "ended",
        "exit_code",
        "failed",
        "last_end",
        "left",
        "models",
        "name",
        "parent",
        "recovered",
        "refused",
        "requests",
        "retries",
        "row",
        "saved_dollars",
        "saved_tokens",
        "saved_unpriced",
        "saw_error",
        "spent",
    )

    def __init__(self, name: str, rows: Rows | None) -> None:
        self.name = name
        self.client = ""
        self.parent: str | None = None
        self.began: float | None = None
        self.ended = 0.0
        """When its last request came to its end, in seconds since the run began."""
        self.last_end = ""
        """How: `answered`, `failed`, `refused`, `left`; empty: none has."""
        self.exit_code: int | None = None
        self.requests = self.answered = self.failed = self.refused = self.left = self.retries = self.recovered = 0
        self.saw_error = False
        """It saw an error that isn't the operator's doing, so nothing saved it."""
        self.saved_tokens = self.saved_unpriced = 0
        self.saved_dollars = 0.0
        """What it had used when a fault would last have ended it."""
        self.spent = TokenSpending()
        self.models: dict[str, TokenSpending] = {}
        self._rows = rows
        self.row: Row | None = None if rows is None else rows.new()
        self._counts = [0] * len(STATES)
        self._state: int | None = None
        self._since = 0.0

    @property
    def saved(self) -> bool:
        """A fault was made good unseen, and it never saw one."""
        return self.recovered > 0 and not self.saw_error

    # --- Its row -------------------------------------------------------------------------------------------------

    def move(self, at: float, before: int | None, after: int | None) -> None:
        """One of its requests goes from a state to another; None: it comes, or is over."""
        if before is not None:
            self._counts[before] -= 1
        if after is not None:
            self._counts[after] += 1
        streaming, first, pause, queued = self._counts
        state = (
            STREAMING if streaming else FIRST if first else PAUSE if pause else QUEUED if queued else None
        )  # as of STATES; written out because it is asked at every step
        if state == self._state:
            return
        if self._state is not None and self.row is not None and self._rows is not None:
            self._rows.span(self.row, self._since, at, self._state)
        self._state, self._since = state, at

    def fault(self, at: float, kind: str, passed_on: bool) -> None:
        """An attempt failed."""
        if self.row is not None and self._rows is not None:
            self._rows.mark(self.row, at, kind, passed_on)

    # --- What it used --------------------------------------------------------------------------------------------

    def use(self, model: str, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """An attempt of its used so much."""
        self.spent.use(usage, dollars, wasted)
        spent_on(self.models, model).use(usage, dollars, wasted)

    def recover(self) -> None:
        """A request was answered after a fault."""
        self.recovered += 1
        self.saved_tokens, self.saved_dollars = self.spent.tokens, self.spent.dollars
        self.saved_unpriced = self.spent.unpriced


def spent_on(models: dict[str, TokenSpending], model: str) -> TokenSpending:
    """What was spent on a model, to be added to; beyond so many models it is that of all others."""
    name = model or "(none named)"
    if name not in models:
        name = name if len(models) < MODELS_KEPT else OTHERS
    return models.setdefault(name, TokenSpending())


def all_spent(agents: Mapping[str, AgentStats]) -> dict[str, TokenSpending]:
    """By model, of all agents together; the dearest first."""
    found: dict[str, TokenSpending] = {}
    for agent in agents.values():
        for model, spent in agent.models.items():
            total = spent_on(found, model)
            for name in TokenSpending.__slots__:
                setattr(total, name, getattr(total, name) + getattr(spent, name))
    return dict(sorted(found.items(), key=lambda each: (-each[1].dollars, -each[1].tokens, each[0])))
