"""The table of agents: who they are, what they do or wait for, what they used, what was kept from them."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import AgentView, TicketView
from hivemind_tui.render import wait_reason as why
from hivemind_tui.render.budgets import ceilings, figures, role_of, share_of
from hivemind_tui.render.format import about
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Span, body_size, call
from hivemind_tui.render.table import Column, Rows, Table, hidden_order
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.tree import DEEPEST, Branch
from hivemind_tui.state.view import View, join

_BAR = 5
_ROOMY = 120
_NAME, _REASON = 18, 26
"""Least for names and for reasons in a table of so many cells."""
_QUIET = ("idle", "stopped", "spent")
_WAITING = ("queued", "retry", "paused", "spent", "pending")


def _name(agent: AgentView, pen: Pen, at: float) -> Span:
    return agent.name, "dim" if agent.state in _QUIET else "text"


def _state(agent: AgentView, pen: Pen, at: float) -> Span:
    return state(agent, pen)


def state(agent: AgentView, pen: Pen) -> Span:
    """Its state as a glyph and a word; of one that has nothing more to ask, how its process ended."""
    if agent.state == "idle" and agent.running is False:
        code = agent.exit_code
        if code == 0:
            return f"{pen.glyphs.good} ended", "dim"
        return f"{pen.glyphs.cross} {'lost' if code is None else 'killed' if code < 0 else 'failed'}", "bad"
    glyph, role = pen.mark(agent.state)
    return f"{glyph} {sign(agent.state).word}", role


def _priority(agent: AgentView, pen: Pen, at: float) -> Span:
    if agent.boosted_for_s > 0:
        return f"{pen.glyphs.boost}{about(agent.boosted_for_s)}", "accent"
    word, role = PRIORITIES[agent.priority]
    return word + nudged(agent, pen), role


def nudged(agent: AgentView, pen: Pen) -> str:
    """That dynamic priority counts it more urgent than it is, or less."""
    return "" if not agent.nudge else pen.glyphs.descending if agent.nudge > 0 else pen.glyphs.ascending


def number(value: int, role: str = "text") -> Span:
    """A count, or a dot where there is nothing to count."""
    return (short_count(value), role) if value else (".", "rule")


def _budget(agent: AgentView, pen: Pen, at: float) -> Span:
    share = share_of(agent.budget)
    if share is None:
        return NOTHING, "rule"
    cells = min(_BAR, round(share * _BAR))
    bar = pen.glyphs.full * cells + pen.glyphs.empty * (_BAR - cells)
    return f"{bar} {figures(share):>4}", role_of(share)


def _of(agent: AgentView, pen: Pen, at: float) -> Span:
    """The ceiling that is nearest, and its period where it isn't the run."""
    if agent.budget is None:
        return NOTHING, "rule"
    per = "" if agent.budget.per == "run" else f"/{agent.budget.per}"
    return ceilings(agent.budget)[0].of + per, "dim"


def _dollars(agent: AgentView, pen: Pen, at: float) -> Span:
    if agent.unpriced:
        return at_least(agent.dollars), "text"
    return (short_dollars(agent.dollars), "text") if agent.dollars else (".", "rule")


def at_least(spent: float) -> str:
    """Money where some tokens have no known price: `$2.58+`, in as many cells as without."""
    return f"${spent:.3f}+" if spent < 0.0995 else f"{short_dollars(spent)}+"


def _out(agent: AgentView, pen: Pen, at: float) -> Span:
    return number(agent.usage.output_tokens)


def _wait(agent: AgentView, pen: Pen, at: float) -> Span:
    return (short_duration(agent.waited_s), "text") if agent.waited_s else (".", "rule")


def _error(agent: AgentView, pen: Pen, at: float) -> Span:
    error, role = agent.last_error, "bad" if agent.failed else "dim"
    ended = process(agent)
    if ended is None or ended[1] != "bad":
        return error, role
    return (f"{ended[0]}: {error}" if error else ended[0]), "bad"


def process(agent: AgentView) -> Span | None:
    """How its process is doing: `runs`, `exit 1`, `killed (SIGKILL)`; None where the runner didn't start it."""
    code = agent.exit_code
    if agent.running is None:
        return None
    if agent.running:
        return "runs", "ok"
    if code is None:
        return "lost with its runner", "bad"
    if code >= 0:
        return f"exit {code}", "bad" if code else "dim"
    return f"killed ({_SIGNALS.get(-code, f'signal {-code}')})", "bad"


_SIGNALS = {each.value: each.name for each in signal.Signals}


AGENTS: Table[AgentView] = Table(
    Column("name", "AGENT", 12, 0, _name, "<", lambda a: a.name),
    (
        Column("prio", "PRIO", 5, 2, _priority, "<", lambda a: a.priority),
        Column("state", "STATE", 9, 0, _state, "<", lambda a: a.state),
        Column("fly", "FLY", 3, 9, lambda a, _i, _t: number(a.flying), key=lambda a: a.flying),
        Column("queue", "WAIT", 4, 9, lambda a, _i, _t: number(a.queued, "wait"), key=lambda a: a.queued),
        Column("asked", "ASKED", 5, 10, lambda a, _i, _t: number(a.requests), key=lambda a: a.requests),
        Column("ok", "OK", 5, 11, lambda a, _i, _t: number(a.finished, "ok"), key=lambda a: a.finished),
        Column("fail", "FAIL", 4, 1, lambda a, _i, _t: number(a.failed, "bad"), key=lambda a: a.failed),
        Column("saved", "SAVED", 5, 3, lambda a, _i, _t: number(a.rescued, "recover"), key=lambda a: a.rescued),
        Column("in", "IN", 5, 6, lambda a, _i, _t: number(a.usage.total_input), key=lambda a: a.usage.total_input),
        Column(
            "out", "OUT", 5, 4, lambda a, _i, _t: number(a.usage.output_tokens), key=lambda a: a.usage.output_tokens
        ),
        Column("cost", "COST", 7, 5, _dollars, key=lambda a: a.dollars),
        Column("budget", "BUDGET", 10, 6, _budget, "<", lambda a: share_of(a.budget)),
        Column("of", "OF", 8, 10, _of),
        Column("waited", "WAITED", 6, 7, _wait, key=lambda a: a.waited_s),
        Column("ttft", "TTFT", 5, 8, lambda a, _i, _t: (short_duration(a.ttft_s), "text"), key=lambda a: a.ttft_s),
        Column(
            "seen", "SEEN", 6, 12, lambda a, _i, _t: (short_duration(a.last_seen_s), "dim"), key=lambda a: a.last_seen_s
        ),
        Column("client", "CLIENT", 14, 13, lambda a, _i, _t: (a.client or NOTHING, "dim"), "<", lambda a: a.client),
    ),
    rest=Column("why", "WAITS OR ERROR", 14, 3, _error, "<"),
)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: a head and as many agents as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(pen, width, height)
    agents, order = view.agents, view.agents_order
    if not agents:
        note = "No agent fits the filter (esc takes it away)." if order.filter else _NOBODY
        return pen.frame("Agents", _note(view), [pen.row(cells, (note, "dim"))], width, height)
    picked = view.agent
    branches = view.branches
    shown = Rows(
        [(branches[a.name].total or a) if a.name in branches else a for a in agents] if branches else agents,
        next((i for i, agent in enumerate(agents) if agent is picked), 0),
        order.sort,
        order.reverse,
        marked=lambda agent: agent.name in view.marked,
        link=lambda agent: call("app.pick_agent", agent.name),
        sort_link="app.sort_by({})",
    )
    limited = any(agent.budget is not None for agent in view.snapshot.agents)
    table = _TABLES[limited, cells >= _ROOMY]
    columns, _, room = table.layout(cells - 1)  # the list may have a scrollbar
    table = _with_reasons(table, view.snapshot.queue, room)
    if branches:
        table = _with_branches(table, branches)
    body = render_table(table, shown, view.snapshot.at, cells, rows, pen)
    by = hidden_order(AGENTS, order.sort, columns)
    return pen.frame("Agents", join(by, _note(view)), body, width, height)


_NOBODY = "No agent yet. Each appears here with its first request."


def _variant(limited: bool, roomy: bool) -> Table[AgentView]:
    """For agents of which some have a budget, or none; with more room for names and reasons, or less."""
    columns = tuple(column for column in AGENTS.columns if limited or column.id not in ("budget", "of"))
    assert AGENTS.rest is not None
    if not roomy:
        return replace(AGENTS, columns=columns)
    return Table(replace(AGENTS.name, width=_NAME), columns, replace(AGENTS.rest, width=_REASON))


_TABLES = {(limited, roomy): _variant(limited, roomy) for limited in (False, True) for roomy in (False, True)}


def _with_branches(table: Table[AgentView], branches: Mapping[str, Branch]) -> Table[AgentView]:
    """The table whose names stand under those that started them."""

    def name(agent: AgentView, pen: Pen, at: float) -> Span:
        branch = branches.get(agent.name, Branch())
        lines = "".join(f"{' ' if last else pen.glyphs.trunk} " for last in branch.lasts[:-1][:DEEPEST])
        if branch.lasts:
            lines += f"{pen.glyphs.bend if branch.lasts[-1] else pen.glyphs.branch} "
        more = f" {pen.glyphs.closed}{branch.hidden}" if branch.hidden else ""
        own = agent.name
        if branch.lasts:
            # That of a sub-agent, and of a batch's, begins with its parent's, which stands above it.
            own = own.removeprefix(f"{agent.parent}/").removeprefix(f"{agent.parent}.")
        return f"{lines}{own}{more}", _name(agent, pen, at)[1]

    return replace(table, name=replace(table.name, cell=name))


def _with_reasons(table: Table[AgentView], queue: Sequence[TicketView], room: int) -> Table[AgentView]:
    """The table that tells of each agent that waits what holds it, of the others their last error."""
    assert table.rest is not None
    waiting = why.first_of_each(queue)

    def reason(agent: AgentView, pen: Pen, at: float) -> Span:
        ticket = waiting.get(agent.name) if agent.state in _WAITING else None
        if ticket is None:
            behind = why.far_back(agent.state, queue)
            return (behind, "wait") if behind else _error(agent, pen, at)
        return why.short(ticket, room), gate_sign(ticket.gate).role

    return replace(table, rest=replace(table.rest, cell=reason))


def _note(view: View) -> str:
    everybody = view.snapshot.agents
    flying = sum(1 for agent in everybody if agent.flying)
    waiting = sum(1 for agent in everybody if agent.queued and not agent.flying)
    stopped = sum(1 for agent in everybody if agent.stopped)
    marked = f"{len(view.marked)} marked" if view.marked else ""
    shown = f"/{view.agents_order.filter}  {len(view.agents)} of " if view.agents_order.filter else ""
    counts = [f"{shown}{short_plural(len(everybody), 'agent')}", f"{flying} in flight", f"{waiting} waiting"]
    return join(marked, ", ".join([*counts, f"{stopped} stopped"] if stopped else counts))
