"""The tools that only read: hm.status, hm.metrics and hm.setup."""

from __future__ import annotations

from dataclasses import asdict

from hivemind.agent_names import BadName, normalised, same
from hivemind.scheduler.gauges import LaneState
from hivemind.setup.clients import CLIENTS, instructions
from hivemind.setup.reach import is_loopback
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.headroom import headroom
from hivemind.tools.inputs import MetricsInput, SetupInput, StatusInput
from hivemind.tools.outputs import (
    LANES_SHOWN,
    AgentUsage,
    ClientRow,
    LaneMetrics,
    Metrics,
    ProxyRow,
    Setup,
    SnippetRow,
    Status,
    TotalsRow,
    agent_row,
    by_state,
    cut,
    in_order,
    known_as,
    lane_row,
    task_row,
)
from hivemind.tools.tool import ToolError, tool, unknown
from hivemind.world.snapshot import AgentView


@tool("Headroom, lanes, agents and tasks", read_only=True, idempotent=True)
async def status(proxy: ProxyAccess, caller: Caller, args: StatusInput) -> Status:
    """How much more work makes sense now (headroom, with advice), and what goes on: lanes with their limits, agents,
    and tasks. Ask before you start several agents or many requests at once, and again between steps.
    """
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
        proxy=ProxyRow.of(about, mode=world.mode, uptime_s=world.uptime_s, upstreams=upstreams),
        you=None if own is None else agent_row(own),
        lanes=[lane_row(each.state) for each in lanes[:LANES_SHOWN]],
        lanes_left_out=max(0, len(lanes) - LANES_SHOWN),
        agents=[agent_row(view) for view in agents],
        agents_left_out=agents_out,
        tasks=[task_row(task, views.get(task.spec.id)) for task in shown],
        tasks_left_out=tasks_out,
        tasks_by_state=by_state(tasks),
    )


@tool("Usage, costs, retries and waits", read_only=True, idempotent=True)
async def metrics(proxy: ProxyAccess, caller: Caller, args: MetricsInput) -> Metrics:
    """What was used and what it cost, in total and by agent: tokens by kind, dollars at public prices, retries,
    requests that succeeded after a retry, waits.
    """
    world = await proxy.world()
    wanted = known_as(world, args.agent)
    views = [view for view in world.agents if wanted in (None, view.name)]
    if args.agent is not None and not views:
        raise unknown("agent", args.agent, [view.name for view in world.agents])
    shown, left_out = cut(sorted(views, key=lambda view: -_amount(view, args.order)), args.limit)
    totals = world.totals
    return Metrics(
        uptime_s=world.uptime_s,
        totals=TotalsRow.of(
            totals, wasted_tokens=totals.wasted.total, unpriced_tokens=totals.unpriced, **asdict(totals.usage)
        ),
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
    return amounts[order]


def _usage(view: AgentView) -> AgentUsage:
    return AgentUsage.of(
        view, agent=view.name, unpriced_tokens=view.unpriced, first_token_s=view.ttft_s, **asdict(view.usage)
    )


def _lane(state: LaneState) -> LaneMetrics:
    share = state.circuit_errors / state.circuit_results if state.circuit_results else None
    return LaneMetrics.of(state, mean_first_token_s=state.mean_ttft_s, error_share=share)


@tool("How to point a client at the proxy", read_only=True, idempotent=True)
async def setup(proxy: ProxyAccess, caller: Caller, args: SetupInput) -> Setup:
    """The lines to paste so that a client (Claude Code, Codex, Gemini CLI, an SDK ...) sends its requests through this
    proxy under a name of its own; for `mcp` how to add these tools to it.
    """
    if args.client is None:
        rows = [ClientRow.of(each, client=each.name, what=each.summary) for each in CLIENTS.values()]
        return Setup(said="Ask again with one of these as client.", clients=rows)
    if args.client not in CLIENTS:
        raise unknown("client", args.client, CLIENTS)
    client = CLIENTS[args.client]
    agent = client.agent if args.agent is None else _checked(args.agent)
    about = await proxy.about()
    token = about.agents_token or not is_loopback(about.address)
    found = instructions(client, about.address, agent, token, shell=args.shell)
    return Setup(
        said=f"{client.title}, as the agent {agent}: paste one of these; the first is the shortest.",
        snippets=[SnippetRow.of(each) for each in (*found.steps.snippets, found.check, found.steps.undo)],
        notes=[*found.steps.limits, *(f"{label}: {text}" for label, text in found.facts)],
    )


def _checked(name: str) -> str:
    try:
        return normalised(name)
    except BadName as error:
        raise ToolError(f"agent: {error}") from None
