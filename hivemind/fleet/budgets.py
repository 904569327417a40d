"""The messages about a fleet's budgets: what a member reports of its accounts, and what the store answers.

A member tells what its ledger has used in all, not what was used since: a report that comes twice counts once, and a
lost state is rebuilt from the next reports. What a member may use beyond that (its *chunk*) is set aside for it, so the
sum of all exceeds the budget only by what requests in flight turn out larger than estimated. Among N members it is at
most a 2N-th of what is left, unless a larger request waits. There is no share to go on with while the store is away:
it would be spent twice where only one proxy is cut off. `budgets.lua`, which the store runs, decides it.
"""

from __future__ import annotations

from msgspec import Struct, field

PROTOCOL = 2
KEY = "hm:budget"
"""A hash: `state`, `decided|NAME`, `order|REVISION` and `account|COVERS|PERIOD|NAME`. It never expires."""
CHANNEL = "hm:kick:budget"
"""Members sync at once when something comes over it."""
CHUNK_S = 120.0
"""How long a silent member's chunk is kept."""


class BudgetDecision(Struct, omit_defaults=True):
    """A budget that was decided, for an agent's name or (empty) for all agents. The highest (version, by) holds."""

    version: int
    """One above the highest that was known where it was decided; 0: before that proxy joined, so any other wins."""
    by: str
    """The ledger."""
    tokens: int | None = None
    dollars: float | None = None
    """None: no ceiling of that kind."""
    per: str = "run"
    covers: str = "agent"
    who: str = ""
    rev: int = 0
    """Of the state that has it."""


class Defaults(Struct, omit_defaults=True):
    """A member's settings of budgets, where nothing was decided."""

    tokens: int | None = None
    dollars: float | None = None
    pool_tokens: int | None = None
    pool_dollars: float | None = None
    per: str = "run"


class Amount(Struct, omit_defaults=True):
    """Tokens and dollars."""

    tokens: float = 0.0
    dollars: float = 0.0


class Demand(Struct, omit_defaults=True):
    """One account of a member."""

    account: str
    """`COVERS|PERIOD|NAME`: agent, subtree or all; run, ever or day:DATE; the agent, empty for all."""
    limit: dict[str, float] = field(default_factory=dict)
    """The budget's ceilings, by `tokens` and `dollars`."""
    default: bool = False
    """Nothing was decided about it."""
    used: Amount = field(default_factory=Amount)
    """In the period, by this ledger."""
    unpriced: int = 0
    elsewhere: Amount = field(default_factory=Amount)
    """By the others, as last answered."""
    run: str = ""
    """Tells a run from earlier ones of this ledger."""
    open: bool = False
    """The run goes on."""
    active: bool = False
    """It wants a chunk."""
    in_flight: int = 0
    """Requests in flight."""
    reserved: Amount = field(default_factory=Amount)
    """Their estimate."""
    chunk: Amount = field(default_factory=Amount)
    """What it may use beyond `used`, as last answered."""
    alone: bool = False
    """As last answered: :attr:`BudgetPart.alone`."""
    first: Amount = field(default_factory=Amount)
    """Estimate of the smallest request that waits for more."""
    ask: Amount = field(default_factory=Amount)
    """Of all that do."""


class BudgetReport(Struct, omit_defaults=True):
    """What a member tells."""

    protocol: int
    ledger: str
    """Random, kept with the proxy's state."""
    member: str
    """Random, of one process."""
    seq: int
    """Rises with each report; an earlier one that comes late changes nothing."""
    epoch: str = ""
    version: int = 0
    """Highest version of the state that it has seen."""
    rev: int = 0
    """All decisions up to this revision are in force there."""
    accounts: list[Demand] = field(default_factory=list)
    decided: dict[str, BudgetDecision] = field(default_factory=dict)
    defaults: Defaults | None = None
    leaving: bool = False


class BudgetPart(Struct, omit_defaults=True):
    """The answer for one account."""

    account: str
    used: Amount = field(default_factory=Amount)
    """By all members."""
    unpriced: int = 0
    chunk: Amount = field(default_factory=Amount)
    """What the member may use beyond what it reported as used. Of a kind without a ceiling it is 0."""
    alone: bool = False
    """Nobody else has a request in flight or may begin one: one may begin, however large."""
    members: int = 1
    """Those that want a part of it."""


class BudgetReply(Struct, omit_defaults=True):
    """What a member may use."""

    epoch: str
    version: int
    rev: int = 0
    """:attr:`decided` holds all changes up to this one."""
    learning: bool = False
    accounts: list[BudgetPart] = field(default_factory=list)
    decided: dict[str, BudgetDecision] = field(default_factory=dict)
    defaults: list[Defaults] = field(default_factory=list)
    """Of all members that haven't left."""
    again: bool = False
    """Something was taken away that others wait for, or there are further changes: sync again at once."""
    kick: bool = False
    """The store has told the others to sync at once."""
