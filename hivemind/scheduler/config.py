"""The scheduler's configuration: one frozen value per part, checked by :mod:`hivemind.settings` beforehand."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class AimdConfig(Struct, frozen=True):
    """AIMD backpressure (paper, equation 2)."""

    alpha: float = 0.5  # added to the level a step
    beta: float = 0.5  # the level is multiplied by this on congestion
    window: int = 20  # latency samples in the mean (W)
    update_interval_s: float = 0.1
    """Shortest time between two steps; a step also waits a mean latency, the time a change needs to show its effect."""
    floor: float = 1.0  # C_min
    latency_target_s: float = 2.0  # L_target


class CircuitConfig(Struct, frozen=True):
    """Circuit breaker (paper, equation 3)."""

    window: int = 20  # results looked at (N)
    threshold: float = 0.5  # share of errors that opens it (tau)
    cooldown_s: float = 10.0  # from open to the probe (T_cool)
    when_open: Literal["hold", "refuse"] = "hold"
    """Hold requests that can wait for it, or fail them all fast as the paper does."""


class RetryConfig(Struct, frozen=True):
    """Transparent retry (paper, equation 4)."""

    base_s: float = 1.0  # d_base
    max_s: float = 30.0  # d_max
    max_attempts: int = 10  # attempts a request, the first included; 1 turns retry off
    deadline_s: float = 600.0  # from arrival; no attempt starts later
    budget_ratio: float = 0.2  # retries earned by each request
    # The following are no settings: budget_ratio decides how many retries there are, these only how they begin.
    budget_reserve: float = 20.0
    """Retries that may be made before any were earned, and the most that can be saved up. That is a burst's worth."""
    budget_rate_per_s: float = 1.0
    """Retries earned a second, whatever the traffic, so that one agent alone is retried too; a retry over budget
    waits."""
    stagger_s: float = 0.05
    """Between grants when a lane starts again after a pause of the provider's: too short to be noticed, and enough
    that it meets no wave."""


class QueueConfig(Struct, frozen=True):
    """The queue in front of the gate."""

    max_depth: int = 25_000  # waiting tickets of all lanes together; each takes about 16 KB with its connection
    max_wait_s: float = 600.0  # longest wait for a grant before the request is refused
    ageing_s: float = 30.0
    """A priority class that waited this long without a grant competes one class higher."""
    fairness: Literal["roots", "agents"] = "roots"
    """Who has equal shares within a class: agents that none started, each with all that it started; or all agents."""
    max_passes: int = 24
    """Grants in a row that may pass a waiting class by. No setting: `ageing_s` says how long a class may wait, this
    bounds it where grants are quick."""


class Pace(Struct, frozen=True):
    """How fast the long windows of a plan may be used; without either, as it comes."""

    even: bool = False
    """No faster than time passes: the class LOW is held first, NORMAL later, others never."""
    reserve: float = 0.0
    """Share of each window, 0 to 1, that LOW doesn't use, and NORMAL only the first half of."""

    @property
    def paces(self) -> bool:
        """Whether it holds any request."""
        return self.even or self.reserve > 0


class LaneConfig(Struct, frozen=True):
    """A lane as its provider's profile and the user's settings make it."""

    upstream: str  # name of the upstream, for people
    provider: str
    max_concurrency: int = 5  # C_max; 0: no limit
    rpm: int = 60  # requests a minute until headers say better; 0: no limit of ours
    tpm: int = 100_000  # tokens a minute, likewise
    grows: bool = False  # rpm and tpm are only where it begins: they grow until the upstream refuses
    begin_at: int = 0  # the concurrency level at first; 0: C_max
    rpm_binding: bool = False  # the user set it, so it holds whatever the headers say
    tpm_binding: bool = False
    reserve_max_tokens: bool = False
    """The provider charges the larger of max_tokens and its estimate at the start (OpenAI)."""
    count_cache_reads: bool = True  # whether cache reads count toward the input limit (not Anthropic's)
    max_concurrency_per_upstream: int = 0
    """Most requests in flight in all lanes of the upstream together; 0: no limit."""
    aimd: AimdConfig = field(default_factory=AimdConfig)
    circuit: CircuitConfig = field(default_factory=CircuitConfig)


class BudgetConfig(Struct, frozen=True):
    """Ceilings that hold until others are set (paper, Token Budget Management)."""

    tokens: int | None = None  # of each agent
    dollars: float | None = None
    pool_tokens: int | None = None  # of all agents together
    pool_dollars: float | None = None
    per: Literal["run", "day", "month", "ever"] = "run"  # the period of budgets that name none
    unpriced: Literal["estimate", "count", "refuse"] = "estimate"
    """A model without a known price, under a budget in dollars: price it as the dearest one of its provider, if that is
    known; else, or always, report it and count its tokens; or refuse it."""


class SchedulerConfig(Struct, frozen=True):
    """Everything that isn't configured by lane."""

    queue: QueueConfig = field(default_factory=QueueConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    max_agents: int = 0  # live agents at once; 0: no limit
    agent_idle_s: float = 300.0  # an agent without a request in this time isn't live
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    pace: Pace = field(default_factory=Pace)
    admission: bool = True  # False lifts the concurrency limit (ablation)
    rate_windows: bool = True  # False ignores rate windows (ablation)
    backpressure: bool = True  # False turns AIMD and the circuit off (ablation)
