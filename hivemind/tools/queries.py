"""The read-only tools: hm.status and hm.metrics."""

from __future__ import annotations

from hivemind.agent_names import same
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import Usage
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.errors import ToolError, unknown
from hivemind.tools.headroom import headroom
from hivemind.tools.inputs import MetricsInput, StatusInput
from hivemind.tools.outputs import AgentUsage, LaneMetrics, Metrics, ProxyRow, Status, TotalsRow
from hivemind.tools.rows import LANES_SHOWN, agent_row, by_state, cut, in_order, known_as, lane_row, money, task_row
from hivemind.world.snapshot import AgentView, Totals


async def status(proxy: ProxyAccess, caller: Caller, args: StatusInput) -> Status:
    """Return headroom, lanes, agents and tasks."""
    about, world = await proxy.about(), await proxy.world()
    upstreams = [name for name, _ in about.upstreams]
    if args.upstream is not None and args.upstream not in upstreams:
        raise unknown("upstream", args.upstream, upstreams)
    me = known_as(world, args.agent or caller.agent)
    worker = known_as(world, args.task_agent)
    tasks = [
        task
        for task in await proxy.tasks(args.batch)
        if worker is None or same(worker, task.spec.agent or task.spec.id)
        if args.task_state in (None, task.state)
    ]
    views = {view.id: view for view in world.tasks}
    agents, agents_out = cut(sorted(world.agents, key=_busiest), args.limit)
    shown, tasks_out = cut(in_order(tasks), args.limit)
    lanes = [each for each in world.lanes if args.upstream in (None, each.state.upstream)]
    own = next((view for view in world.agents if view.name == me), None)
    return Status(
        headroom=headroom(world, about, me, args.upstream),
        proxy=ProxyRow(
            address=about.address,
            version=about.version,
            mode=world.mode,
            uptime_s=round(world.uptime_s, 1),
            upstreams=upstreams,
            max_agents=about.max_agents,
            read_only=about.read_only,
        ),
        you=None if own is None else agent_row(own),
        lanes=[lane_row(each.state) for each in lanes[:LANES_SHOWN]],
        lanes_left_out=max(0, len(lanes) - LANES_SHOWN),
        agents=[agent_row(view) for view in agents],
        agents_left_out=agents_out,
        tasks=[task_row(task, views.get(task.spec.id)) for task in shown],
        tasks_left_out=tasks_out,
        tasks_by_state=dict(by_state(tasks)),
    )


async def metrics(proxy: ProxyAccess, caller: Caller, args: MetricsInput) -> Metrics:
    """Return usage, costs, retries and waits."""
    world = await proxy.world()
    wanted = known_as(world, args.agent)
    views = [view for view in world.agents if wanted in (None, view.name)]
    if args.agent is not None and not views:
        raise unknown("agent", args.agent, [view.name for view in world.agents])
    shown, left_out = cut(sorted(views, key=lambda view: -_amount(view, args.order)), args.limit)
    return Metrics(
        uptime_s=round(world.uptime_s, 1),
        totals=_totals(world.totals),
        agents=[_usage(view) for view in shown],
        agents_left_out=left_out,
        lanes=[_lane(each.state) for each in world.lanes[:LANES_SHOWN]],
        lanes_left_out=max(0, len(world.lanes) - LANES_SHOWN),
    )


def _busiest(view: AgentView) -> tuple[bool, int, float]:
    return not view.running, -(view.flying + view.queued), view.last_seen_s


def _amount(view: AgentView, order: str) -> float:
    amounts: dict[str, float] = {
        "tokens": view.usage.total,
        "dollars": view.dollars,
        "requests": view.requests,
        "retries": view.retries,
        "waited": view.waited_s,
    }
    if order not in amounts:
        raise ToolError(f"order: must be one of {', '.join(amounts)}")
    return amounts[order]


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _totals(totals: Totals) -> TotalsRow:
    return TotalsRow(
        requests=totals.requests,
        finished=totals.finished,
        failed=totals.failed,
        refused=totals.refused,
        abandoned=totals.abandoned,
        retries=totals.retries,
        rescued=totals.rescued,
        agents_saved=totals.agents_saved,
        wasted_tokens=totals.wasted.total,
        dollars=money(totals.dollars),
        unpriced_tokens=totals.unpriced,
        **_tokens(totals.usage),
    )


def _usage(view: AgentView) -> AgentUsage:
    return AgentUsage(
        agent=view.name,
        requests=view.requests,
        finished=view.finished,
        failed=view.failed,
        retries=view.retries,
        rescued=view.rescued,
        dollars=money(view.dollars),
        unpriced_tokens=view.unpriced,
        waited_s=round(view.waited_s, 2),
        served_s=round(view.served_s, 2),
        first_token_s=None if view.ttft_s is None else round(view.ttft_s, 3),
        **_tokens(view.usage),
    )


def _lane(state: LaneState) -> LaneMetrics:
    return LaneMetrics(
        lane=state.lane,
        active=state.active,
        waiting=state.waiting,
        retrying=state.retrying,
        mean_first_token_s=None if state.mean_ttft_s is None else round(state.mean_ttft_s, 3),
        error_share=round(state.circuit_errors / state.circuit_results, 4) if state.circuit_results else None,
    )
