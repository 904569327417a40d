"""The table of agents: who they are, what they are doing, what they used, what was kept from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.strip import Strip

from hivemind.snapshot import AgentView
from hivemind_tui.format import NOTHING, count, fit, percent, seconds
from hivemind_tui.glyphs import PRIORITIES, sign
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.view import View


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of the highest `rank` go first where the table is narrow."""

    head: str
    width: int
    rank: int
    cell: Callable[[AgentView, Ink], Span]
    align: str = ">"


def _state(agent: AgentView, ink: Ink) -> Span:
    glyph, role = ink.mark(agent.state)
    return f"{glyph} {sign(agent.state).word}", role


def _priority(agent: AgentView, ink: Ink) -> Span:
    return PRIORITIES[agent.priority]


def _number(value: int, role: str = "text") -> Span:
    return (count(value), role) if value else (".", "rule")


def _budget(agent: AgentView, ink: Ink) -> Span:
    if agent.budget_tokens is None:
        return NOTHING, "rule"
    share = agent.usage.total / agent.budget_tokens if agent.budget_tokens else 1.0
    role = "bad" if share >= 1 else "wait" if share >= 0.9 else "text"
    return f"{percent(share, 1)} of {count(agent.budget_tokens)}", role


COLUMNS = (
    Column("PRIO", 4, 1, _priority, "<"),
    Column("STATE", 8, 0, _state, "<"),
    Column("FLY", 3, 3, lambda a, _: _number(a.flying)),
    Column("WAIT", 4, 3, lambda a, _: _number(a.queued)),
    Column("ASKED", 5, 4, lambda a, _: _number(a.requests)),
    Column("OK", 5, 4, lambda a, _: _number(a.finished, "ok")),
    Column("FAIL", 4, 2, lambda a, _: _number(a.failed, "bad")),
    Column("RETRY", 5, 5, lambda a, _: _number(a.retries, "recover")),
    Column("SAVED", 5, 2, lambda a, _: _number(a.rescued, "recover")),
    Column("TTFT", 6, 6, lambda a, _: (seconds(a.ttft_s), "text")),
    Column("IN", 6, 5, lambda a, _: _number(a.usage.total_input)),
    Column("OUT", 6, 3, lambda a, _: _number(a.usage.output_tokens)),
    Column("BUDGET", 12, 7, _budget),
    Column("QUEUED", 6, 8, lambda a, _: (seconds(a.waited_s), "dim")),
    Column("SEEN", 6, 9, lambda a, _: (seconds(a.last_seen_s), "dim")),
)
_ERROR_WIDTH = 14


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: a head and as many agents as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(ink, width, height)
    agents = view.snapshot.agents
    if not agents:
        body = [ink.row(cells, ("No agent yet. Each appears here with its first request.", "dim"))]
        return ink.frame("Agents", "", body, width, height)
    columns, name = layout(cells, any(agent.budget_tokens is not None for agent in agents))
    index = next((i for i, agent in enumerate(agents) if agent is view.agent), 0)
    room = max(0, rows - 1)
    first = scroll(index, len(agents), room)
    body = [_head(columns, name, cells, ink)]
    body += [_row(agent, agent is view.agent, columns, name, cells, ink) for agent in agents[first : first + room]]
    return ink.frame("Agents", _note(agents, first, room), body, width, height)


def layout(width: int, budgets: bool) -> tuple[Sequence[Column], int]:
    """The columns that fit beside a name, and the cells left for the name. Where nobody has a budget there is no column
    for it."""
    columns = [column for column in COLUMNS if budgets or column.head != "BUDGET"]
    while columns and 2 + 12 + sum(column.width + 2 for column in columns) > width:
        columns.remove(max(columns, key=lambda column: column.rank))
    left = width - 2 - sum(column.width + 2 for column in columns)
    return columns, max(4, min(20, left))


def scroll(index: int, total: int, room: int) -> int:
    """The first row shown so that row `index` is near the middle, and no row is left empty that could be filled."""
    return max(0, min(index - room // 2, total - room))


def _note(agents: tuple[AgentView, ...], first: int, room: int) -> str:
    active = sum(1 for agent in agents if agent.state in ("streaming", "waiting"))
    shown = f"{first + 1}-{min(len(agents), first + room)} of " if room < len(agents) else ""
    return f"{shown}{len(agents)} agents, {active} active"


def _head(columns: Sequence[Column], name: int, width: int, ink: Ink) -> Strip:
    spans: list[Span] = [("  " + fit("AGENT", name), "dim")]
    spans += [("  " + fit(column.head, column.width, column.align), "dim") for column in columns]
    return ink.row(width, *spans, ("  LAST ERROR", "dim") if _has_error_column(columns, name, width) else ("", "dim"))


def _row(agent: AgentView, selected: bool, columns: Sequence[Column], name: int, width: int, ink: Ink) -> Strip:
    cursor = ink.glyphs.cursor if selected else " "
    spans: list[Span] = [(f"{cursor} ", "accent"), (fit(agent.name, name), "strong" if selected else "text")]
    for column in columns:
        text, role = column.cell(agent, ink)
        spans.append(("  " + fit(text, column.width, column.align), role))
    if _has_error_column(columns, name, width):
        left = width - 4 - name - sum(column.width + 2 for column in columns)
        spans.append(("  " + fit(agent.last_error, left), "dim"))
    return ink.row(width, *spans, selected=selected)


def _has_error_column(columns: Sequence[Column], name: int, width: int) -> bool:
    return width - 2 - name - sum(column.width + 2 for column in columns) >= _ERROR_WIDTH
