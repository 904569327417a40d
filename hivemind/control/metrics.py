"""`/metrics` for Prometheus: the snapshot as counters and gauges.

Counters count from the proxy's start. Of the agents at most :data:`AGENTS_SHOWN` have series of their own, those seen
last: an agent's name may be a session's, and there can be thousands. The totals have no such label, so they are
complete; the counters of an agent that returns continue.

The text is written here: the usual library took several times as long, 30 ms for a hundred agents, which streams waited
for. Tests read the page with that library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from msgspec import Struct

from hivemind import __version__
from hivemind.control.proof import API
from hivemind.scheduler.admission.long_windows import REJECTED
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.scheduler.tasks import TASK_STATES
from hivemind.scheduler.types import Usage, Utilisation
from hivemind.world.health import BOUNDS_S, VERDICTS, Histogram
from hivemind.world.snapshot import AGENT_STATES, Snapshot
from hivemind.world.verdict import CODES

AGENTS_SHOWN = 100
LANES_SHOWN = 50
"""A renewed credential makes a new lane, so old idle ones are left out."""
_MODES = ("serving", "paused", "draining")
_FLEET_STATES = ("connecting", "idle", "joining", "leased", "learning", "safe", "alone")
_CIRCUITS = ("closed", "half_open", "open")

OPEN_METRICS = "application/openmetrics-text"
CONTENT_TYPES = {
    False: "text/plain; version=0.0.4; charset=utf-8",
    True: f"{OPEN_METRICS}; version=1.0.0; charset=utf-8",
}
"""By whether it is OpenMetrics."""
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Rows = Iterable[tuple[str, float]]
"""A series each: its labels as they are written (of a histogram's, what its name has in addition before them), and its
value."""


class Metric(Struct, frozen=True):
    """A metric and its series."""

    name: str
    kind: str
    help: str
    rows: Rows

    def text(self, *, open_metrics: bool) -> str:
        """Return it in the text format 0.0.4 or in OpenMetrics 1.0, which differ in the head of a counter.

        https://prometheus.io/docs/instrumenting/exposition_formats/
        """
        name = f"hivemind_{self.name}"
        head = name.removesuffix("_total") if open_metrics else name
        rows = [f"{name}{labels} {+value}\n" for labels, value in self.rows]  # +True is 1
        return f"# HELP {head} {self.help}\n# TYPE {head} {self.kind}\n{''.join(rows)}"


def rendered(snapshot: Snapshot, tasks: Iterable[str], loop_tasks: int, *, open_metrics: bool) -> Iterator[str]:
    """Yield the page in pieces, between which other work can go on. `tasks` are the states of all tasks, `loop_tasks`
    is how many the event loop runs."""
    for metric in _metrics(snapshot, tasks, loop_tasks):
        yield metric.text(open_metrics=open_metrics)
    if open_metrics:
        yield "# EOF\n"


def _metrics(snapshot: Snapshot, tasks: Iterable[str], loop_tasks: int) -> Iterator[Metric]:
    yield _gauge("event_loop_tasks", "Tasks of the proxy's event loop.", _one(loop_tasks))
    for group in (_proxy, _totals, _vitals, _agents, _lanes, _budgets, _journal, _fleet):
        yield from group(snapshot)
    states = Counter(tasks)
    yield _gauge("tasks", "Tasks by state.", _each("state", {each: states[each] for each in TASK_STATES}))


def _proxy(world: Snapshot) -> Iterator[Metric]:
    labels = labels_of(version=__version__, api=str(API))
    yield _gauge("info", "Version of HiveMind, and of these names.", [(labels, 1)])
    yield _gauge("uptime_seconds", "Since the proxy's start.", _one(world.uptime_s))
    yield _gauge("mode", "1 for the proxy's mode.", _each("mode", {m: m == world.mode for m in _MODES}))
    yield _gauge("queue_length", "Requests in the queue.", _one(world.queued))
    states = {each: each == world.verdict.state for each in VERDICTS}
    yield _gauge("verdict", "1 for how the proxy is doing.", _each("state", states))
    text = "What was found for the verdict, by its kind: how many lanes, agents and parts of the proxy it is about."
    yield _gauge("findings", text, _each("code", {code: world.verdict.counts.get(code, 0) for code in CODES}))
    broken = Counter(alarm.rule for alarm in world.alarms)
    yield _gauge("alarms", "Invariants that are broken, by rule.", _each("rule", broken))
    yield _gauge("in_flight", "Requests at an upstream.", _one(world.in_flight))


def _journal(world: Snapshot) -> Iterator[Metric]:
    recording = world.recording
    if recording is not None:
        yield _counter("journal_bytes", "Written to the journal.", _one(recording.bytes))
        yield _counter("journal_events_lost", "Events that are missing in the journal.", _one(recording.lost))
        yield _gauge("journal_failing", "1 while the journal can't be written.", _one(bool(recording.failing)))


def _fleet(world: Snapshot) -> Iterator[Metric]:
    fleet = world.fleet
    if fleet is None:
        return
    states = {each: each == fleet.state for each in _FLEET_STATES}
    yield _gauge("fleet_state", "1 for how the proxy stands to its fleet.", _each("state", states))
    yield _gauge("fleet_lanes", "Lanes that are shared.", _one(fleet.lanes))
    yield _gauge("fleet_members", "The most proxies that share one of them.", _one(fleet.members))
    yield _gauge("fleet_lease_age_seconds", "Age of the oldest lease in force.", _one(_or_nan(fleet.lease_age_s)))
    yield _counter("fleet_syncs", "Exchanges with the fleet's store.", _one(fleet.syncs))
    yield _counter("fleet_sync_seconds", "Time that the answered ones took.", _one(fleet.sync_s))
    yield _counter("fleet_reports", "Reports of lanes in them.", _one(fleet.reports))
    yield _counter("fleet_errors", "Failed exchanges, by kind.", _each("kind", fleet.errors))


_COUNTS = (
    ("requests", "Requests seen.", "requests"),
    ("requests_finished", "Requests answered by an upstream.", "finished"),
    ("requests_failed", "Requests that ended in an error for the agent.", "failed"),
    ("requests_refused", "Requests that HiveMind refused.", "refused"),
    ("retries", "Failed attempts that were retried.", "retries"),
    ("requests_retried_ok", "Requests that succeeded after a failed attempt.", "retried_ok"),
    ("cost_dollars", "Cost of the usage, by public prices.", "dollars"),
    ("cache_saved_dollars", "Not spent, since prompts were read thanks to the order.", "order_saved"),
    ("cache_expired_waiting_dollars", "For prompts that expired while they waited here.", "expired_waiting"),
    ("cache_expired_before_dollars", "For those that had expired before.", "expired_thinking"),
    ("cache_switched_dollars", "For those in another model's or upstream's cache.", "switched"),
)
"""What is counted of each agent, as `agent_NAME`, and of all, and its field in :class:`.Tally`."""


def _totals(world: Snapshot) -> Iterator[Metric]:
    totals = world.totals
    for name, help_text, field in _COUNTS:
        yield _counter(name, help_text, _one(getattr(totals, field)))
    yield _counter("requests_abandoned", "Requests whose client left.", _one(totals.abandoned))
    yield _counter("tokens", "Tokens used, by kind.", _by_kind("", totals.usage))
    wasted = "Tokens used by attempts that failed or that a client left, by kind."
    yield _counter("tokens_wasted", wasted, _by_kind("", totals.wasted))
    # No counter: it falls once prices are loaded.
    yield _gauge("tokens_unpriced", "Tokens of models without a known price.", _one(totals.unpriced))


def _vitals(world: Snapshot) -> Iterator[Metric]:
    """Yield the histograms since the start, and the rates and quantiles of the last minute, NaN where unknown."""
    vitals, minute = world.vitals, "over the last minute"
    yield _histogram(
        "wait_seconds", "Before each attempt: since the request's arrival or its last failed attempt.", vitals.waits
    )
    yield _histogram("ttft_seconds", "From an attempt's start to its first token.", vitals.ttfts)
    for name, help_text, value in (
        ("requests_per_second", f"Requests that ended, {minute}.", vitals.requests_per_s),
        ("tokens_per_minute", f"Tokens used, {minute}.", vitals.tokens_per_min),
        ("tokens_per_minute_limit", "Tokens that the rate windows of all lanes allow.", vitals.tokens_limit),
        ("error_share", f"Of the attempts those that failed, {minute}.", vitals.error_share),
        ("failed_share", f"Of the requests those whose agent saw an error, {minute}.", vitals.failed_share),
        ("cost_dollars_per_hour", f"Cost of the usage, {minute}.", vitals.dollars_per_hour),
        ("tasks_done_in_seconds", "Until the task graph is done, as foreseen.", world.forecast.tasks_done_in_s),
    ):
        yield _gauge(name, help_text, _one(_or_nan(value)))
    for name, help_text, p50_s, p95_s in (
        ("recent_wait_seconds", "Waits before an attempt", vitals.wait_p50_s, vitals.wait_p95_s),
        ("recent_ttft_seconds", "Times to first token", vitals.ttft_p50_s, vitals.ttft_p95_s),
    ):
        rows = _each("quantile", {"0.5": _or_nan(p50_s), "0.95": _or_nan(p95_s)})
        yield _gauge(name, f"{help_text} {minute}, by quantile.", rows)


def _histogram(name: str, help_text: str, found: Histogram) -> Metric:
    bounds = [*(str(float(bound)) for bound in BOUNDS_S), "+Inf"]
    numbers = [*accumulate(found.bins)]
    rows = [(f"_bucket{labels_of(le=bound)}", number) for bound, number in zip(bounds, numbers, strict=True)]
    return Metric(name, "histogram", help_text, [*rows, ("_count", numbers[-1]), ("_sum", found.sum_s)])


def _by_kind(labels: str, usage: Usage) -> list[tuple[str, float]]:
    """Return a series for each kind of tokens, whose labels are `labels` and the kind."""
    start = f"{labels[:-1]}," if labels else "{"
    return [
        (f'{start}kind="input"}}', usage.input_tokens),
        (f'{start}kind="cache_read"}}', usage.cache_read_tokens),
        (f'{start}kind="cache_write"}}', usage.cache_write_tokens),
        (f'{start}kind="output"}}', usage.output_tokens),
    ]


def _agents(world: Snapshot) -> Iterator[Metric]:
    states = Counter(agent.state for agent in world.agents) + Counter(world.left_out)
    yield _gauge("agents", "Agents known, by state.", _each("state", {each: states[each] for each in AGENT_STATES}))
    running = sum(agent.running is True for agent in world.agents) + world.left_out_running
    yield _gauge("agents_processes", "Agents whose process runs, started by a runner.", _one(running))
    shown = sorted(world.agents, key=lambda agent: agent.last_seen_s)[:AGENTS_SHOWN]
    left_out = states.total() - len(shown)
    yield _gauge("agents_left_out", "Agents without series of their own, seen longest ago.", _one(left_out))
    labelled = [(labels_of(agent=agent.name), agent) for agent in shown]
    for name, help_text, field in (*_COUNTS, *_TIMES):
        yield _counter(f"agent_{name}", help_text, [(labels, getattr(agent, field)) for labels, agent in labelled])
    tokens = [row for labels, agent in labelled for row in _by_kind(labels, agent.usage)]
    yield _counter("agent_tokens", "Tokens used, by agent and kind.", tokens)
    unpriced = [(labels, agent.unpriced) for labels, agent in labelled]
    yield _gauge("agent_tokens_unpriced", "Tokens of models without a known price.", unpriced)


_TIMES = (
    ("wait_seconds", "Waited in the queue and between attempts, all requests.", "waited_s"),
    ("served_seconds", "From arrival to last byte, over its finished requests.", "served_s"),
)


def _lanes(world: Snapshot) -> Iterator[Metric]:
    busy_first = sorted((view.state for view in world.lanes), key=lambda lane: not (lane.active or lane.waiting))
    lanes = busy_first[:LANES_SHOWN]
    labelled = [({"upstream": lane.upstream, "lane": lane.lane}, lane) for lane in lanes]
    rows = [(labels_of(**labels), lane) for labels, lane in labelled]
    for name, help_text, read in _OF_A_LANE:
        yield _gauge(name, help_text, [(labels, read(lane)) for labels, lane in rows])
    circuits = [
        (labels_of(**labels, state=each), each == lane.circuit) for labels, lane in labelled for each in _CIRCUITS
    ]
    yield _gauge("lane_circuit", "1 for the circuit's state.", circuits)
    windows = [
        (labels_of(**labels, models=w.family, kind=w.kind.value), w) for labels, lane in labelled for w in lane.windows
    ]
    yield _gauge("window_limit", "Allowance of a rate window.", [(each, w.limit) for each, w in windows])
    yield _gauge("window_remaining", "What is left of it.", [(each, w.remaining) for each, w in windows])
    plans = [
        (labels_of(**labels, provider=lane.provider, window=w.name, model=w.model), w)
        for labels, lane in labelled
        for w in lane.plan
    ]
    for name, help_text, state in _OF_A_LONG_WINDOW:
        yield _gauge(name, help_text, [(each, state(w)) for each, w in plans])


_OF_A_LONG_WINDOW: tuple[tuple[str, str, Callable[[Utilisation], float]], ...] = (
    ("long_window_used_share", "Used of a plan's long window, 1 for all of it.", lambda window: window.used),
    ("long_window_reset_seconds", "Until it is whole again.", lambda window: _or_nan(window.reset_in_s)),
    ("long_window_exhausted", "1 while it is used up.", lambda window: window.used >= 1 or window.status == REJECTED),
)


_OF_A_LANE: tuple[tuple[str, str, Callable[[LaneState], float]], ...] = (
    ("lane_level", "Requests that may be in flight at once now.", lambda lane: lane.level),
    ("lane_ceiling", "Max concurrency: the most that the level may be.", lambda lane: lane.ceiling),
    ("lane_active", "Requests in flight.", lambda lane: lane.active),
    ("lane_waiting", "Requests in the queue.", lambda lane: lane.waiting),
    ("lane_retrying", "Requests between two attempts.", lambda lane: lane.retrying),
    ("lane_rate_limited_seconds", "Until the end of its pause (Retry-After).", lambda lane: lane.rate_limited_for_s),
    ("lane_ttft_mean_seconds", "Mean of the last times to first token.", lambda lane: _or_nan(lane.mean_ttft_s)),
)


def _budgets(world: Snapshot) -> Iterator[Metric]:
    """Yield the budgets; the pool's has no agent's name, and covers all."""
    pool = [] if world.pool is None else [world.pool]
    owned = [agent for agent in world.agents if agent.budget is not None]
    shown = sorted(owned, key=lambda agent: agent.last_seen_s)[:AGENTS_SHOWN]
    budgets: list[BudgetState] = [*pool, *(agent.budget for agent in shown if agent.budget is not None)]
    for unit in ("tokens", "dollars"):
        limited = [
            (labels_of(agent=each.owner or "", covers=each.covers, per=each.per), each)
            for each in budgets
            if getattr(each, unit) is not None
        ]
        for name, help_text, field in (
            ("limit", "A budget's limit.", ""),
            ("used", "Used of it in its period, by all proxies that share it.", "used_"),
            ("here", "Of that, by this proxy.", "here_"),
        ):
            rows = [(labels, _amount(each, field, unit)) for labels, each in limited]
            yield _gauge(f"budget_{name}_{unit}", help_text, rows)


def _amount(state: BudgetState, field: str, unit: str) -> float:
    found: float | None = getattr(state, field + unit)
    used: float = getattr(state, "used_" + unit)
    return used if found is None else found  # of a budget that isn't shared, all is used here


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _gauge(name: str, help_text: str, rows: Rows) -> Metric:
    return Metric(name, "gauge", help_text, rows)


def _counter(name: str, help_text: str, rows: Rows) -> Metric:
    return Metric(f"{name}_total", "counter", help_text, rows)


def _one(value: float) -> Rows:
    """Return the only series of a metric without labels."""
    return (("", value),)


def _each(label: str, numbers: Mapping[str, float]) -> Rows:
    """Return a series for each value of a label."""
    return [(labels_of(**{label: value}), number) for value, number in numbers.items()]


def labels_of(**labels: str) -> str:
    """Return labels as they are written."""
    return "{" + ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()]) + "}"
