"""`/metrics` for Prometheus: the snapshot as counters and gauges.

Counters count from the proxy's start. Of the agents at most :data:`AGENTS_SHOWN` have series of their own, those seen
last: an agent's name may be a session's, and there can be thousands. The totals have no such label, so they are
complete; the counters of an agent that returns continue.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hivemind import __version__
from hivemind.control.proof import API
from hivemind.scheduler.admission.long_windows import REJECTED
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.scheduler.tasks import TASK_STATES
from hivemind.scheduler.types import Usage, Utilisation
from hivemind.world.health import BOUNDS_S, VERDICTS, Histogram
from hivemind.world.snapshot import AGENT_STATES, Snapshot
from hivemind.world.verdict import CODES

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

AGENTS_SHOWN = 100
LANES_SHOWN = 50
"""A renewed credential makes a new lane, so old idle ones are left out."""
_MODES = ("serving", "paused", "draining")
_FLEET_STATES = ("connecting", "idle", "joining", "leased", "learning", "safe", "alone")
_CIRCUITS = ("closed", "half_open", "open")

Rows = Iterable[tuple[Sequence[str], float]]
Encoder = Callable[[Any], bytes]


def encoder_for(accept: str) -> tuple[Encoder, str]:
    """Return the encoder for the format of `accept` (text or OpenMetrics), and its content type. The first call imports
    a library, which is slow."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode, content_type


def rendered(snapshot: Snapshot, tasks: Iterable[str], loop_tasks: int, encode: Encoder) -> Iterator[bytes]:
    """Yield the metrics in pieces, each of which takes about a millisecond to make. `tasks` are the states of all
    tasks, `loop_tasks` is how many the event loop runs."""
    end = encode(SimpleNamespace(collect=tuple))
    for metric in _metrics(snapshot, tasks, loop_tasks):
        yield encode(SimpleNamespace(collect=lambda metric=metric: (metric,))).removesuffix(end)
    yield end


def _metrics(snapshot: Snapshot, tasks: Iterable[str], loop_tasks: int) -> Iterator[Metric]:
    yield _gauge("event_loop_tasks", "Tasks of the proxy's event loop.", (), [((), loop_tasks)])
    for group in (_proxy, _totals, _vitals, _agents, _lanes, _budgets, _journal, _fleet):
        yield from group(snapshot)
    states = Counter(tasks)
    yield _gauge("tasks", "Tasks by state.", ("state",), [((state,), states[state]) for state in TASK_STATES])


def _proxy(world: Snapshot) -> Iterator[Metric]:
    labels = ("version", "api")
    yield _gauge("info", "Version of HiveMind, and of these names.", labels, [((__version__, str(API)), 1)])
    yield _gauge("uptime_seconds", "Since the proxy's start.", (), [((), world.uptime_s)])
    yield _gauge("mode", "1 for the proxy's mode.", ("mode",), [((m,), m == world.mode) for m in _MODES])
    yield _gauge("queue_length", "Requests in the queue.", (), [((), world.queued)])
    states = [((each,), each == world.verdict.state) for each in VERDICTS]
    yield _gauge("verdict", "1 for how the proxy is doing.", ("state",), states)
    text = "What was found for the verdict, by its kind: how many lanes, agents and parts of the proxy it is about."
    yield _gauge("findings", text, ("code",), [((code,), world.verdict.counts.get(code, 0)) for code in CODES])
    broken = Counter(alarm.rule for alarm in world.alarms)
    yield _gauge("alarms", "Invariants that are broken, by rule.", ("rule",), [((r,), n) for r, n in broken.items()])
    yield _gauge("in_flight", "Requests at an upstream.", (), [((), len(world.slots))])


def _journal(world: Snapshot) -> Iterator[Metric]:
    recording = world.recording
    if recording is not None:
        yield _counter("journal_bytes", "Written to the journal.", (), [((), recording.bytes)])
        yield _counter("journal_events_lost", "Events that are missing in the journal.", (), [((), recording.lost)])
        yield _gauge("journal_failing", "1 while the journal can't be written.", (), [((), bool(recording.failing))])


def _fleet(world: Snapshot) -> Iterator[Metric]:
    fleet = world.fleet
    if fleet is None:
        return
    states = [((each,), each == fleet.state) for each in _FLEET_STATES]
    yield _gauge("fleet_state", "1 for how the proxy stands to its fleet.", ("state",), states)
    yield _gauge("fleet_lanes", "Lanes that are shared.", (), [((), fleet.lanes)])
    yield _gauge("fleet_members", "The most proxies that share one of them.", (), [((), fleet.members)])
    yield _gauge("fleet_lease_age_seconds", "Age of the oldest lease in force.", (), [((), _or_nan(fleet.lease_age_s))])
    yield _counter("fleet_syncs", "Exchanges with the fleet's store.", (), [((), fleet.syncs)])
    yield _counter("fleet_sync_seconds", "Time that the answered ones took.", (), [((), fleet.sync_s)])
    yield _counter("fleet_reports", "Reports of lanes in them.", (), [((), fleet.reports)])
    errors = [((kind,), number) for kind, number in fleet.errors.items()]
    yield _counter("fleet_errors", "Failed exchanges, by kind.", ("kind",), errors)


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
        yield _counter(name, help_text, (), [((), getattr(totals, field))])
    yield _counter("requests_abandoned", "Requests whose client left.", (), [((), totals.abandoned)])
    yield _counter("tokens", "Tokens used, by kind.", ("kind",), _by_kind((), totals.usage))
    wasted = "Tokens used by attempts that failed or that a client left, by kind."
    yield _counter("tokens_wasted", wasted, ("kind",), _by_kind((), totals.wasted))
    # No counter: it falls once prices are loaded.
    yield _gauge("tokens_unpriced", "Tokens of models without a known price.", (), [((), totals.unpriced)])


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
        yield _gauge(name, help_text, (), [((), _or_nan(value))])
    for name, help_text, p50_s, p95_s in (
        ("recent_wait_seconds", "Waits before an attempt", vitals.wait_p50_s, vitals.wait_p95_s),
        ("recent_ttft_seconds", "Times to first token", vitals.ttft_p50_s, vitals.ttft_p95_s),
    ):
        rows = [(("0.5",), _or_nan(p50_s)), (("0.95",), _or_nan(p95_s))]
        yield _gauge(name, f"{help_text} {minute}, by quantile.", ("quantile",), rows)


def _histogram(name: str, help_text: str, found: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    bounds = [*(str(float(bound)) for bound in BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, accumulate(found.bins), strict=True))
    made: Metric = HistogramMetricFamily("hivemind_" + name, help_text, buckets=buckets, sum_value=found.sum_s)
    return made


def _by_kind(labels: tuple[str, ...], usage: Usage) -> list[tuple[tuple[str, ...], float]]:
    return [
        ((*labels, "input"), usage.input_tokens),
        ((*labels, "cache_read"), usage.cache_read_tokens),
        ((*labels, "cache_write"), usage.cache_write_tokens),
        ((*labels, "output"), usage.output_tokens),
    ]


def _agents(world: Snapshot) -> Iterator[Metric]:
    states = Counter(agent.state for agent in world.agents)
    yield _gauge("agents", "Agents known, by state.", ("state",), [((s,), states[s]) for s in AGENT_STATES])
    running = sum(agent.running is True for agent in world.agents)
    yield _gauge("agents_processes", "Agents whose process runs, started by a runner.", (), [((), running)])
    shown = sorted(world.agents, key=lambda agent: agent.last_seen_s)[:AGENTS_SHOWN]
    left_out = len(world.agents) - len(shown)
    yield _gauge("agents_left_out", "Agents without series of their own, seen longest ago.", (), [((), left_out)])
    for name, help_text, field in (*_COUNTS, *_TIMES):
        yield _counter(
            f"agent_{name}", help_text, ("agent",), [((agent.name,), getattr(agent, field)) for agent in shown]
        )
    tokens = [row for agent in shown for row in _by_kind((agent.name,), agent.usage)]
    yield _counter("agent_tokens", "Tokens used, by agent and kind.", ("agent", "kind"), tokens)
    unpriced = [((agent.name,), agent.unpriced) for agent in shown]
    yield _gauge("agent_tokens_unpriced", "Tokens of models without a known price.", ("agent",), unpriced)


_TIMES = (
    ("wait_seconds", "Waited in the queue and between attempts, all requests.", "waited_s"),
    ("served_seconds", "From arrival to last byte, over its finished requests.", "served_s"),
)


def _lanes(world: Snapshot) -> Iterator[Metric]:
    busy_first = sorted((view.state for view in world.lanes), key=lambda lane: not (lane.active or lane.waiting))
    lanes = busy_first[:LANES_SHOWN]
    labels = ("upstream", "lane")
    for name, help_text, read in _OF_A_LANE:
        yield _gauge(name, help_text, labels, [((lane.upstream, lane.lane), read(lane)) for lane in lanes])
    circuits = [((lane.upstream, lane.lane, each), each == lane.circuit) for lane in lanes for each in _CIRCUITS]
    yield _gauge("lane_circuit", "1 for the circuit's state.", (*labels, "state"), circuits)
    windows = [((lane.upstream, lane.lane, w.family, w.kind.value), w) for lane in lanes for w in lane.windows]
    names = (*labels, "models", "kind")
    yield _gauge("window_limit", "Allowance of a rate window.", names, [(each, w.limit) for each, w in windows])
    yield _gauge("window_remaining", "What is left of it.", names, [(each, w.remaining) for each, w in windows])
    plans = [((lane.upstream, lane.lane, lane.provider, w.name, w.model), w) for lane in lanes for w in lane.plan]
    for name, help_text, state in _OF_A_LONG_WINDOW:
        yield _gauge(name, help_text, (*labels, "provider", "window", "model"), [(each, state(w)) for each, w in plans])


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
        limited = [each for each in budgets if getattr(each, unit) is not None]
        for name, help_text, field in (
            ("limit", "A budget's limit.", ""),
            ("used", "Used of it in its period, by all proxies that share it.", "used_"),
            ("here", "Of that, by this proxy.", "here_"),
        ):
            rows = [((each.owner or "", each.covers, each.per), _amount(each, field, unit)) for each in limited]
            yield _gauge(f"budget_{name}_{unit}", help_text, ("agent", "covers", "per"), rows)


def _amount(state: BudgetState, field: str, unit: str) -> float:
    found: float | None = getattr(state, field + unit)
    used: float = getattr(state, "used_" + unit)
    return used if found is None else found  # of a budget that isn't shared, all is used here


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _gauge(name: str, help_text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily("hivemind_" + name, help_text, labels=labels), rows)


def _counter(name: str, help_text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily("hivemind_" + name, help_text, labels=labels), rows)


def _filled(family: Any, rows: Rows) -> Metric:
    for labels, value in rows:
        family.add_metric(labels, float(value))
    made: Metric = family
    return made
