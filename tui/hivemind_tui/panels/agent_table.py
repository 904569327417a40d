"""The table of agents: who they are, what they are doing, what they used, what was kept from them."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.snapshot import AgentView
from hivemind_tui.format import NOTHING, count, dollars, percent, seconds
from hivemind_tui.glyphs import PRIORITIES, sign
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.table import Column, Rows, Table, render as render_table
from hivemind_tui.view import View, join

WARN_AT = 0.85
"""Share of a budget from which it is shown as nearly gone (the scheduler warns there too)."""


def _state(agent: AgentView, ink: Ink, at: float) -> Span:
    glyph, role = ink.mark(agent.state)
    return f"{glyph} {sign(agent.state).word}", role


def _priority(agent: AgentView, ink: Ink, at: float) -> Span:
    if agent.boosted_for_s > 0:
        return f"{ink.glyphs.boost} {seconds(agent.boosted_for_s)}", "accent"
    return PRIORITIES[agent.priority]


def number(value: int, role: str = "text") -> Span:
    """A count, or a dot where there is nothing to count."""
    return (count(value), role) if value else (".", "rule")


def budget_share(agent: AgentView) -> float | None:
    """How much of its budget an agent has used; None where it has none."""
    if agent.budget_tokens is None:
        return None
    return agent.usage.total / agent.budget_tokens if agent.budget_tokens else 1.0


def _budget(agent: AgentView, ink: Ink, at: float) -> Span:
    share = budget_share(agent)
    if share is None or agent.budget_tokens is None:
        return NOTHING, "rule"
    role = "bad" if share >= 1 else "wait" if share >= WARN_AT else "text"
    cells = min(5, round(share * 5))
    bar = ink.glyphs.full * cells + ink.glyphs.empty * (5 - cells)
    return f"{bar} {percent(share, 1):>4} of {count(agent.budget_tokens)}", role


def _dollars(agent: AgentView, ink: Ink, at: float) -> Span:
    if agent.unpriced:
        return f"{dollars(agent.dollars)}{ink.glyphs.more}", "text"
    return (dollars(agent.dollars), "text") if agent.dollars else (".", "rule")


AGENTS: Table[AgentView] = Table(
    Column("name", "AGENT", 12, 0, lambda a, _i, _t: (a.name, "text"), "<", lambda a: a.name),
    (
        Column("prio", "PRIO", 6, 1, _priority, "<", lambda a: a.priority),
        Column("state", "STATE", 9, 0, _state, "<", lambda a: a.state),
        Column("fly", "FLY", 3, 4, lambda a, _i, _t: number(a.flying), key=lambda a: a.flying),
        Column("wait", "WAIT", 4, 4, lambda a, _i, _t: number(a.queued), key=lambda a: a.queued),
        Column("asked", "ASKED", 5, 6, lambda a, _i, _t: number(a.requests), key=lambda a: a.requests),
        Column("ok", "OK", 5, 7, lambda a, _i, _t: number(a.finished, "ok"), key=lambda a: a.finished),
        Column("fail", "FAIL", 4, 2, lambda a, _i, _t: number(a.failed, "bad"), key=lambda a: a.failed),
        Column("saved", "SAVED", 5, 2, lambda a, _i, _t: number(a.rescued, "recover"), key=lambda a: a.rescued),
        Column("in", "IN", 5, 5, lambda a, _i, _t: number(a.usage.total_input), key=lambda a: a.usage.total_input),
        Column("out", "OUT", 5, 3, lambda a, _i, _t: number(a.usage.output_tokens), key=lambda a: a.usage.output_tokens),
        Column("cost", "COST", 7, 3, _dollars, key=lambda a: a.dollars),
        Column("budget", "BUDGET", 18, 9, _budget, "<", budget_share),
        Column("queued", "WAITED", 6, 8, lambda a, _i, _t: (seconds(a.waited_s), "dim"), key=lambda a: a.waited_s),
        Column("ttft", "TTFT", 5, 8, lambda a, _i, _t: (seconds(a.ttft_s), "text"), key=lambda a: a.ttft_s),
        Column("seen", "SEEN", 6, 10, lambda a, _i, _t: (seconds(a.last_seen_s), "dim"), key=lambda a: a.last_seen_s),
    ),
    rest=Column("error", "LAST ERROR", 14, 0, lambda a, _i, _t: (a.last_error, "dim"), "<"),
)


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: a head and as many agents as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(ink, width, height)
    agents, order = view.agents, view.agents_order
    if not agents:
        note = "No agent fits the filter (esc takes it away)." if order.filter else _NOBODY
        return ink.frame("Agents", _note(view), [ink.row(cells, (note, "dim"))], width, height)
    shown = Rows(
        agents,
        next((i for i, agent in enumerate(agents) if agent is view.agent), 0),
        order.sort,
        order.reverse,
        marked=lambda agent: agent.name in view.marked,
        link=lambda agent: f"app.pick_agent({agent.name!r})",
        sort_link="app.sort_by({})",
    )
    return ink.frame("Agents", _note(view), render_table(AGENTS, shown, view.snapshot.at, cells, rows, ink), width, height)


_NOBODY = "No agent yet. Each appears here with its first request."


def _note(view: View) -> str:
    everybody = view.snapshot.agents
    active = sum(1 for agent in everybody if agent.state in ("streaming", "waiting"))
    marked = f"{len(view.marked)} marked" if view.marked else ""
    shown = f"/{view.agents_order.filter}  {len(view.agents)} of " if view.agents_order.filter else ""
    return join(marked, f"{shown}{len(everybody)} agents, {active} active")
