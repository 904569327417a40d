"""What each tool answers, and its rows as views of the snapshot. A field that says nothing is left out of an answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from hivemind.agent_names import spelled_in
from hivemind.api_types import TaskState
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.world.snapshot import AgentView, Snapshot, TaskView

Rounded = Annotated[float, AfterValidator(lambda value: round(value, 4))]
"""Dollars, seconds or a share, without digits that are noise."""


class Output(BaseModel):
    """An answer, or a part of one."""

    @classmethod
    def of(cls, source: object, **more: object) -> Self:
        """Make it of the fields that the source has under the same names, and of `more`."""
        same = {name: getattr(source, name) for name in cls.model_fields if hasattr(source, name)}
        return cls.model_validate(same | more)


class Headroom(Output):
    """How much more makes sense now."""

    advice: str = Field(description="What to do, in a sentence or two.")
    agents_now: int | None = Field(None, description="More agents that could work at once; absent: no limit is known.")
    requests_now: int | None = Field(None, description="Requests that would start at once; absent: no limit is known.")
    free_slots: int | None = Field(None, description="Of the lane with the most room; absent: no limit.")
    queued: int = Field(0, description="Requests that wait now, of everybody.")
    minute_tokens_left: int | None = Field(None, description="Left in the provider's rate window, where one is known.")
    minute_requests_left: int | None = Field(None, description="Likewise, in requests.")
    budget_tokens_left: int | None = Field(None, description="Left in the tightest budget that holds for you.")
    budget_dollars_left: Rounded | None = Field(None, description="Likewise, in US dollars.")
    typical_request_tokens: int | None = Field(None, description="Of the requests so far, on average.")


class ProxyRow(Output):
    address: str
    version: str
    mode: str = Field(description="serving, paused or draining.")
    uptime_s: Rounded
    upstreams: list[str]
    max_agents: int = Field(0, description="Agents that may run at once; 0: no limit.")
    read_only: bool = Field(False, description="hm.priority, hm.budget and hm.config change nothing.")


class WindowRow(Output):
    counts: str = Field(description="requests, input, output or tokens.")
    models: str = Field(description="The models that share it.")
    limit: int
    remaining: int
    resets_in_s: Rounded | None = None


class LaneRow(Output):
    """An upstream as one credential sees it."""

    lane: str
    upstream: str
    level: float | None = Field(None, description="Requests that may be in flight; absent: no limit.")
    active: int
    waiting: int
    circuit: str
    rate_limited_for_s: Rounded | None = Field(
        None, description="Rate-limited: the provider asked to wait so long (Retry-After)."
    )
    windows: list[WindowRow] = Field(default_factory=list)


class BudgetRow(Output):
    """A budget and how it stands."""

    owner: str | None = Field(None, description="The agent whose it is; absent: all agents share it.")
    covers: str = Field(description="agent, subtree or all.")
    per: str = Field(description="run, day, month or ever.")
    tokens: int | None = Field(None, description="The limit in tokens.")
    dollars: Rounded | None = Field(None, description="The limit in US dollars.")
    used_tokens: int
    used_dollars: Rounded
    in_flight_tokens: int = Field(0, description="Set aside for requests in flight.")
    tokens_left: int | None = None
    dollars_left: Rounded | None = None
    unpriced_tokens: int = Field(0, description="Used of models without a known price; not in the dollars.")
    share: Rounded = Field(description="How much is used, 1 being all.")


class AgentRow(Output):
    agent: str
    state: str
    priority: str
    parent: str | None = None
    task: str | None = None
    in_flight: int = 0
    queued: int = 0
    tokens: int = 0
    dollars: Rounded = 0.0
    budget: BudgetRow | None = None
    exit_code: int | None = None


class TaskRow(Output):
    task: str = Field(description="Its full id.")
    state: str
    priority: str = Field(description="What it counts as: its own, or that of whoever waits for it.")
    agent: str
    after: list[str] = Field(default_factory=list, description="What it waits for, while it does.")
    note: str | None = None
    paused_s: Rounded | None = Field(None, description="Paused for so long, until a plan's window is whole again.")
    attempt: int = Field(0, description="Times it was started.")
    tokens: int | None = Field(None, description="Used so far.")
    dollars: Rounded | None = None


class Status(Output):
    verdict: str = Field(description="How the proxy does, in a word, with the cause and what ends it.")
    headroom: Headroom
    proxy: ProxyRow
    you: AgentRow | None = Field(None, description="The agent that asks, where it is known.")
    lanes: list[LaneRow] = Field(default_factory=list)
    lanes_left_out: int = 0
    agents_by_state: dict[str, int] = Field(default_factory=dict)
    agents: list[AgentRow] = Field(default_factory=list, description="The busiest first.")
    agents_left_out: int = 0
    tasks: list[TaskRow] = Field(default_factory=list, description="Those that run first, then ready, waiting, ended.")
    tasks_left_out: int = 0
    tasks_by_state: dict[str, int] = Field(default_factory=dict, description="Counts of those that fit what was asked.")


class Submitted(Output):
    said: str
    task: TaskRow


class Batch(Output):
    said: str
    batch: str
    tasks: int = Field(description="In the batch now.")
    tasks_by_state: dict[str, int]
    ready: list[str] = Field(description="Those that may start now, the first first.")
    ready_left_out: int = 0


class Prioritised(Output):
    said: str


class Budgets(Output):
    said: str
    budgets: list[BudgetRow]
    budgets_left_out: int = 0


class UsageRow(Output):
    """What was used and how it went."""

    requests: int
    finished: int
    failed: int
    retries: int
    retried_ok: int = Field(description="Requests that succeeded after a failed attempt that nobody saw.")
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    dollars: Rounded
    unpriced_tokens: int = 0


class TotalsRow(UsageRow):
    """Usage of all agents since the start."""

    refused: int
    abandoned: int
    wasted_tokens: int = Field(description="Used by attempts that failed or were left.")
    agents_recovered: int = Field(description="Agents recovered: with a request retried OK, and no failed one.")


class AgentUsage(UsageRow):
    agent: str
    waited_s: Rounded = Field(description="In the queue and between attempts, over all its requests.")
    served_s: Rounded = Field(description="From arrival to the last byte, over its finished requests.")
    ttft_s: Rounded | None = Field(None, description="Of its last answer.")


class LaneMetrics(Output):
    lane: str
    active: int
    waiting: int
    retrying: int
    mean_ttft_s: Rounded | None = None
    error_share: Rounded | None = Field(None, description="Of the latest results.")


class Metrics(Output):
    uptime_s: Rounded
    totals: TotalsRow
    agents: list[AgentUsage]
    agents_left_out: int = 0
    lanes: list[LaneMetrics]
    lanes_left_out: int = 0


class KnobRow(Output):
    knob: str
    values: dict[str, float] = Field(description="By upstream; empty until one was used. 0: no limit, where allowed.")
    lowest: float
    highest: float
    whole: bool = Field(False, description="Whole numbers only.")
    zero_is_none: bool = Field(False, description="0 takes the limit away.")


class Config(Output):
    said: str
    mode: str = Field(description="serving, paused or draining.")
    circuits: dict[str, str] = Field(description="State by lane.")
    knobs: list[KnobRow]
    read_only: bool = False


class SnippetRow(Output):
    """A snippet of configuration to paste."""

    where: str
    text: str


class ClientRow(Output):
    client: str
    title: str
    what: str


class Setup(Output):
    said: str
    clients: list[ClientRow] = Field(default_factory=list)
    snippets: list[SnippetRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


T = TypeVar("T")

ORDER = ("running", "ready", "paused", "blocked", "failed", "waiting", "skipped", "cancelled", "done")
"""Of tasks in a list: states that may need action come first."""
LANES_SHOWN = 10
SUMMARISED = 3
"""Rows of each list in a summary."""
_AFTER_SHOWN = 3
_WINDOWS_SHOWN = 8
_NOTE_SHOWN = 100


def cut(rows: Sequence[T], limit: int) -> tuple[list[T], int]:
    """Return the first rows, and how many are left out."""
    return list(rows[:limit]), max(0, len(rows) - limit)


def lane_row(state: LaneState, windows_shown: int = _WINDOWS_SHOWN) -> LaneRow:
    """Return the row of a lane with the first of its windows."""
    windows = [
        WindowRow.of(
            each,
            counts=each.kind.value,
            models=each.family,
            limit=round(each.limit),
            remaining=max(0, round(each.remaining)),
        )
        for each in state.windows
        if math.isfinite(each.limit) and math.isfinite(each.remaining)
    ]
    return LaneRow.of(
        state,
        level=None if math.isinf(state.level) else round(state.level, 2),
        waiting=state.waiting + state.retrying,
        rate_limited_for_s=state.rate_limited_for_s if state.rate_limited_for_s > 0 else None,
        windows=windows[:windows_shown],
    )


def budget_row(state: BudgetState) -> BudgetRow:
    """Return the row of a budget."""
    tokens_left = None if state.tokens is None else state.tokens - state.used_tokens - state.reserved_tokens
    return BudgetRow.of(
        state,
        in_flight_tokens=state.reserved_tokens,
        tokens_left=None if tokens_left is None else max(0, tokens_left),
        dollars_left=None if state.dollars is None else max(0.0, state.dollars - state.used_dollars),
        unpriced_tokens=state.unpriced,
    )


def known_as(world: Snapshot, name: str | None) -> str | None:
    """Return the agent's name in the proxy's spelling, or as given if the agent isn't known."""
    return None if name is None else spelled_in((view.name for view in world.agents), name)


def agent_row(view: AgentView) -> AgentRow:
    """Return the row of an agent."""
    return AgentRow.of(
        view,
        agent=view.name,
        priority=view.priority.name.lower(),
        tokens=view.usage.total,
        budget=None if view.budget is None else budget_row(view.budget),
    )


def agent_in_short(view: AgentView) -> AgentRow:
    """Return the row of an agent without what only its own account needs."""
    return AgentRow.of(agent_row(view), parent=None, task=None, budget=None)


def task_row(task: TaskState, view: TaskView | None = None) -> TaskRow:
    """Return the row of a task, with its usage if known."""
    after, more = cut(task.spec.after if task.state in ("waiting", "blocked") else (), _AFTER_SHOWN)
    return TaskRow.of(
        task,
        task=task.spec.id,
        priority=task.priority.name.lower(),
        agent=task.spec.agent or task.spec.id,
        after=[*after, f"and {more} more"] if more else after,
        note=task.note[:_NOTE_SHOWN] or None,
        paused_s=task.paused_s or None,
        tokens=view.tokens or None if view is not None else None,
        dollars=view.dollars or None if view is not None else None,
    )


def in_order(tasks: Iterable[TaskState]) -> list[TaskState]:
    """Sort tasks for a list: by state, and ready ones by when they will start."""

    def rank(task: TaskState) -> tuple[int, int, float]:
        ready = task.state == "ready"
        place = ORDER.index(task.state) if task.state in ORDER else len(ORDER)
        return place, task.priority if ready else 0, (task.spec.estimated_tokens or math.inf) if ready else 0

    return sorted(tasks, key=rank)


def by_state(tasks: Iterable[TaskState]) -> dict[str, int]:
    """Return the number of tasks in each state."""
    return dict(Counter(task.state for task in in_order(tasks)))
