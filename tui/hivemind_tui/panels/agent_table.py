"""The table of agents: state, requests, tokens, costs, and why each waits or what failed last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from textual.strip import Strip

from hivemind.records import replace
from hivemind.text.humanise import NOTHING, exit_text, short_count, short_dollars, short_duration, short_plural
from hivemind.text.trees import tree_lines
from hivemind.world.agents import ACTIVITY_STEPS
from hivemind.world.health import STEP_S
from hivemind.world.snapshot import HUNG, AgentView, TicketView
from hivemind_tui.render import wait_reason
from hivemind_tui.render.budgets import ceilings, figures, role_of, share_of
from hivemind_tui.render.format import about, clean, dated
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import Column, Rows, Table, sorted_by
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.lists import AGENT_KEYS, is_lost
from hivemind_tui.state.log_rows import Same
from hivemind_tui.state.tree import DEEPEST, Branch
from hivemind_tui.state.view import View, join

_BAR = 5
_STEPS = 12
"""Steps of activity in a table, and in a wide one."""
_STEPS_WIDE = ACTIVITY_STEPS
_ROOMS = (100, 120, 190)
"""Cells from which activity comes before counts, names and reasons are wider, and twice the activity is shown."""
_RANKS = {("activity", 1): 4, ("activity", 2): 4, ("out", 1): 6, ("out", 2): 4}
"""Ranks of columns where there is room for the first or the second of these."""
_NAME, _REASON = 18, 26
"""Least widths of names and reasons in a table of that many cells."""
UNMETERED = "The recording doesn't hold tokens."
_NO_AGENT = "No agent yet. Each appears here with its first request."
_QUIET = ("idle", "ended", "stopped", "spent")
_WAITING = ("queued", "retry", "held", "spent", "pending")


def state(agent: AgentView, pen: Pen) -> Span:
    """Return the state as a glyph and a word; `lost` if its runner is gone, so that nobody knows how it ended."""
    if is_lost(agent):
        return f"{pen.glyphs.cross} lost", "bad"
    if agent.state == "idle" and agent.running is False:
        return pen.worded(sign("ended"))
    return pen.worded(sign(agent.state))


def _priority(agent: AgentView, pen: Pen) -> Span:
    if agent.boosted_for_s > 0:
        return f"{pen.glyphs.boost}{about(agent.boosted_for_s)}", "accent"
    return PRIORITIES[agent.priority]


def number(value: float, role: str = "text", shown: Callable[[float], str] = short_count) -> Span:
    """Return a figure, or a dot for zero."""
    return (shown(value), role) if value else (".", "rule")


def waits(agent: AgentView, long_s: float) -> Span:
    """Return how long the agent's longest current wait is, marked from `long_s` on; 0: never."""
    return number(agent.waiting_s, "bad" if 0 < long_s <= agent.waiting_s else "wait", short_duration)


def in_flight(agent: AgentView, pen: Pen) -> Span:
    """Return how long the agent's oldest request in flight has been upstream, and how many it has there if several."""
    more = f" {pen.glyphs.plain('×')}{agent.in_flight}" if agent.in_flight > 1 else ""
    shown = short_duration(agent.sent_s) if agent.sent_s else str(agent.in_flight)  # an older proxy tells the number
    return (shown + more, "bad" if agent.state == HUNG else "text") if agent.in_flight else (".", "rule")


def activity(agent: AgentView, pen: Pen, steps: int = _STEPS) -> Span:
    """Return the tokens of the agent's last steps as a trend up to now, which is at the right."""
    used = agent.activity[-steps:]
    if not any(used):
        return f"{'.':>{steps}}", "rule"
    peak, fine = max(used), len(pen.glyphs.row_steps) - 1
    return "".join(pen.glyphs.row_steps[-(-tokens * fine // peak)] for tokens in used).rjust(steps), "info"


def cache(agent: AgentView, _pen: Pen) -> Span:
    """Return whether the agent's last prompt is in the provider's cache, and for how long it stays there."""
    if agent.warm_s is None:
        return ".", "rule"
    return (f"warm {about(agent.warm_s)}", "ok") if agent.warm_s else ("cold", "wait")


def _budget(agent: AgentView, pen: Pen) -> Span:
    share = share_of(agent.budget)
    if share is None:
        return NOTHING, "rule"
    cells = min(_BAR, round(share * _BAR))
    bar = pen.glyphs.full * cells + pen.glyphs.empty * (_BAR - cells)
    return f"{bar} {figures(share):>4}", role_of(share)


def _of(agent: AgentView, pen: Pen) -> Span:
    if agent.budget is None:
        return NOTHING, "rule"
    per = "" if agent.budget.per == "run" else f"/{agent.budget.per}"
    return ceilings(agent.budget)[0].of + per, "dim"


def _dollars(agent: AgentView, _pen: Pen) -> Span:
    return (at_least(agent.dollars), "text") if agent.unpriced else number(agent.dollars, shown=short_dollars)


def at_least(spent: float) -> str:
    """Return a cost that leaves out tokens without a known price: `$2.58+`, no wider than without the sign."""
    return f"${spent:.3f}+" if spent < 0.0995 else f"{short_dollars(spent)}+"


def last_error(agent: AgentView, room: int = 1000) -> Span:
    """Return the error that the agent saw last with its age, bright while nothing of it was answered since."""
    role = "dim" if agent.error_over or not agent.last_error else "bad"
    return dated(clean(agent.last_error), agent.error_s, room), role


def _error(agent: AgentView, room: int) -> Span:
    error, role = last_error(agent, room)
    ended = process(agent)
    if ended is None or ended[1] != "bad":
        return error, role
    how = ended[0].removeprefix("killed by ")  # beside "died" a signal's name says it
    return (f"{how}: {last_error(agent, max(0, room - len(how) - 2))[0]}" if error else how), "bad"


def process(agent: AgentView) -> Span | None:
    """Return the process's state: `runs`, `exit code 1`, `killed by SIGKILL`; None where the runner didn't start it."""
    code = agent.exit_code
    if agent.running is None:
        return None
    if agent.running:
        return "runs", "ok"
    if code is None:
        return "lost with its runner", "bad"
    role = "dim" if code == 0 or agent.state == "ended" else "bad"  # ended: an operator asked for it
    return exit_text(code), role


_WHY: Column[AgentView] = Column("why", "WAIT / ERROR", 13, 3, lambda a, _: _error(a, 13), "<")
AGENTS: Table[AgentView] = Table(
    Column("name", "AGENT", 10, 0, lambda a, _: (a.name, "text"), "<", is_name=True),
    (
        Column("prio", "PRIO", 4, 2, _priority, "<"),
        Column("state", "STATE", 9, 0, state, "<"),
        Column("waits", "WAITS", 6, 2, lambda a, _: waits(a, 0.0)),
        Column("in_flight", "IN FLIGHT", 8, 2, lambda a, pen: in_flight(a, pen)),
        Column("queue", "QUEUE", 5, 10, lambda a, _: number(a.queued, "wait")),
        Column("asked", "REQS", 5, 10, lambda a, _: number(a.requests)),
        Column("ok", "OK", 5, 11, lambda a, _: number(a.finished, "ok")),
        Column("fail", "FAIL", 4, 1, lambda a, _: number(a.failed, "bad")),
        Column("refused", "REFUSED", 7, 1, lambda a, _: number(a.refused, "wait")),
        Column("retried_ok", "RETRIED OK", 9, 6, lambda a, _: number(a.retried_ok, "recover")),
        Column("in", "IN", 5, 6, lambda a, _: number(a.usage.total_input)),
        Column("out", "OUT", 5, 5, lambda a, _: number(a.usage.output_tokens)),
        Column("cost", "COST", 7, 3, _dollars),
        Column("cache", "CACHE", 10, 3, cache, "<"),
        Column("budget", "BUDGET", 10, 5, _budget, "<"),
        Column("of", "OF", 8, 10, _of),
        Column("activity", "", _STEPS, 9, activity, "<"),
        Column("ttft", "1ST TOKEN", 9, 8, lambda a, _: (short_duration(a.ttft_s), "text")),
        Column("seen", "SEEN", 6, 12, lambda a, _: (short_duration(a.last_seen_s), "dim")),
        Column("client", "CLIENT", 14, 13, lambda a, _: (a.client or NOTHING, "dim"), "<"),
        Column("machine", "MACHINE", 14, 3, lambda a, _: (", ".join(a.machines), "info"), "<"),
    ),
    rest=_WHY,
    sortable=AGENT_KEYS,
)


COLUMNS = tuple(column.id for column in AGENTS.columns)
"""Those that can be chosen."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a head and as many agents as fit, scrolled so that the selected one is among them."""
    cells, rows = pen.body_size(width, height)
    agents, order = view.agents, view.agents_order
    if not agents:
        note = "No agent matches the filter (esc clears it)." if order.filter else _NO_AGENT
        if view.machine and not order.filter:
            note = f"{view.machine} has no agent, or hasn't shown it yet (esc goes back to the fleet)."
        return pen.message("Agents", note, width, height, _note(view))
    branches, picked = view.branches, view.agent
    items = [branches[agent.name].total or agent if agent.name in branches else agent for agent in agents]
    shown = Rows(
        items,
        next((item for item, agent in zip(items, agents, strict=True) if agent is picked), None),
        order.sort,
        order.reverse,
        marked=lambda agent: agent.name in view.marked,
        pinned=lambda agent: agent.name in view.pinned,
        link=lambda agent: call("app.pick_agent", agent.name),
    )
    table = _table(view, cells)
    placed = table.placed(cells - 1)  # the list may have a scrollbar
    room = next((each.width for each in placed if each.column is table.rest), 0)
    rest = replace(table.rest or _WHY, cell=_reasons(view.snapshot.queue, view.snapshot.slots, room))
    table = replace(table, name=replace(table.name, cell=_names(branches)), rest=rest)
    body = render_table(table, shown, cells, rows, pen)
    title = f"Agents on {view.machine}" if view.machine else "Agents of all machines" if view.everywhere else "Agents"
    return pen.frame(title, join(sorted_by(AGENTS, order.sort), _note(view)), body, width, height)


def _table(view: View, cells: int) -> Table[AgentView]:
    """Return the columns that have a use now, in the widths for so many cells."""
    room, long_s = sum(cells >= least for least in _ROOMS), view.snapshot.alert_limits.wait_s
    by_id = {column.id: _suited(column, room, long_s) for column in AGENTS.columns}
    for column in view.unrecorded_columns & by_id.keys():
        del by_id[column]
    if _chosen:
        chosen = (name for name in _chosen if name in by_id)
        columns = [replace(by_id[name], rank=rank) for rank, name in enumerate(chosen, 1)]
    else:
        used = _columns_used(Same(view.snapshot.agents))
        out = {"budget", "of", "machine", "refused", "cache"} - used
        if "refused" in used:  # for which a narrow screen leaves out times in flight rather than costs
            by_id["in_flight"] = replace(by_id["in_flight"], rank=4)
        columns = [column for name, column in by_id.items() if name not in out]
    if room < 2:
        return replace(AGENTS, columns=tuple(columns))
    name, rest = replace(AGENTS.name, width=_NAME), replace(_WHY, width=_REASON)
    return replace(AGENTS, name=name, columns=tuple(columns), rest=rest)


def _suited(column: Column[AgentView], room: int, long_s: float) -> Column[AgentView]:
    """The column as it is in a table with that room: activity has as many steps as fit, and its head how much time they
    are."""
    column = replace(column, rank=_RANKS.get((column.id, min(room, 2)), column.rank))
    if column.id == "waits":
        return replace(column, cell=lambda agent, _: waits(agent, long_s))
    if column.id != "activity":
        return column
    steps = _STEPS_WIDE if room > 2 else _STEPS
    head = f"TOKENS {steps * STEP_S / 60:.0f} min"
    return replace(column, head=head, width=steps, cell=lambda agent, pen: activity(agent, pen, steps))


@lru_cache(maxsize=4)
def _columns_used(agents: Same[AgentView]) -> frozenset[str]:
    """Return those of the columns that most runs have no use for which these agents have one for."""
    used = set[str]()
    for agent in agents.items:
        if agent.budget is not None:
            used |= {"budget", "of"}
        if agent.refused:
            used.add("refused")
        if agent.machines:
            used.add("machine")
        if agent.warm_s is not None:
            used.add("cache")
    return frozenset(used)


_chosen: list[str] = []


def choose(columns: Sequence[str]) -> None:
    """Show these columns after the name in this process's screens, the last ones only where there is room; none: the
    usual ones."""
    _chosen[:] = columns


def _names(branches: Mapping[str, Branch]) -> Callable[[AgentView, Pen], Span]:

    def name(agent: AgentView, pen: Pen) -> Span:
        branch = branches.get(agent.name, Branch())
        lines = tree_lines(branch.lasts, pen.glyphs.tree, DEEPEST)
        more = f" {pen.glyphs.closed}{branch.hidden}" if branch.hidden else ""
        own = agent.name
        if branch.lasts:
            # The name of a sub-agent or of a batch's agent begins with its parent's, which stands above it.
            own = own.removeprefix(f"{agent.parent}/").removeprefix(f"{agent.parent}.")
        return f"{lines}{own}{more}", "dim" if agent.state in _QUIET else "text"

    return name


def _reasons(queue: Sequence[TicketView], slots: Sequence[TicketView], room: int) -> Callable[[AgentView, Pen], Span]:
    waiting = wait_reason.first_of_each(queue)
    hung = {ticket.agent: ticket for ticket in slots if ticket.state == HUNG}

    def reason(agent: AgentView, _: Pen) -> Span:
        if agent.state == HUNG and agent.name in hung:
            return f"silent {short_duration(hung[agent.name].silent_s)}", "bad"
        ticket = waiting.get(agent.name) if agent.state in _WAITING else None
        if ticket is None:
            behind = wait_reason.far_back(agent.state, queue)
            return (behind, "wait") if behind else _error(agent, room)
        return wait_reason.short(ticket, room), gate_sign(ticket.gate).role

    return reason


def _note(view: View) -> str:
    agents = view.snapshot.agents
    in_flight = sum(agent.in_flight for agent in agents)
    waiting = sum(agent.queued for agent in agents)
    stopped = sum(1 for agent in agents if agent.stopped)
    marked = f"{len(view.marked)} marked" if view.marked else ""
    shown = f"/{view.agents_order.filter}  {len(view.agents)} of " if view.agents_order.filter else ""
    counts = [f"{shown}{short_plural(len(agents), 'agent')}", f"{in_flight} in flight", f"{waiting} queued"]
    kept = "order kept while you choose" if view.order_kept else ""
    return join(kept, marked, _caches(view), ", ".join([*counts, f"{stopped} stopped"] if stopped else counts))


def _caches(view: View) -> str:
    """Return how many agents' prompts are in the provider's cache, and what the order of requests has saved."""
    warm = [agent.warm_s > 0 for agent in view.snapshot.agents if agent.warm_s is not None and agent.state != "ended"]
    if not warm:
        return ""
    saved = view.snapshot.totals.order_saved
    return f"{sum(warm)} warm, {len(warm) - sum(warm)} cold" + (f", {short_dollars(saved)} saved" if saved else "")
