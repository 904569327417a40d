"""The pages: which panels each has, how they are nested, and how many rows those have use for that can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.panels import (
    agent_page,
    agent_table,
    comparison,
    connect,
    cost_table,
    fleet_page,
    gantt,
    knobs,
    lanes,
    limits,
    log,
    request_page,
    request_table,
    slots,
    task_page,
    vitals,
)
from hivemind_tui.panels.curve import CurvePanel
from hivemind_tui.render.glyphs import TASK_SIGNS
from hivemind_tui.widgets.box import Horizontal, Vertical
from hivemind_tui.widgets.line_table import Panel, Render

if TYPE_CHECKING:
    from textual.widget import Widget

    from hivemind_tui.plots.process import PlotProcess
    from hivemind_tui.render.pen import Pen
    from hivemind_tui.state.view import View

AROUND = 3
"""Rows of a list beside its items: head and box."""


def pages(plots: PlotProcess | None) -> Mapping[str, Callable[[], Widget]]:
    """Return what makes each page, by name. The style sheet (pages.tcss) says which panels a layout shows."""

    def leading(name: str, render: Render, id: str) -> Panel:
        """Return a panel with the key of the page that has more of it, or of what it steers."""
        key = BY_ID[name]
        return Panel(render, id=id, key=key.shown, action=f"app.{key.action}", steers=bool(key.live))

    def curve(id: str) -> Panel:
        """Return the curve with the keys that move the level's upper end; a click leads to all knobs."""
        action = f"app.{BY_ID['tuning'].action}"
        return CurvePanel(plots, id=id, key=BY_ID["less"].pair, action=action, steers=True)

    def newest(id: str) -> Panel:
        return leading("log", log.render_newest, id)

    return {
        "overview": lambda: Vertical(
            Panel(vitals.render, id="vitals"),
            Panel(lanes.render, id="lanes"),
            Horizontal(leading("requests", slots.render, "slots"), curve("curve"), id="top"),
            Horizontal(
                Panel(limits.render_windows, id="windows"),
                leading("circuit", limits.render_circuit, "circuit"),
                id="middle",
            ),
            leading("agents", agent_table.render, "agents"),
            newest("events"),
        ),
        "start": lambda: Vertical(Panel(connect.render, id="start")),
        "agents": lambda: Horizontal(
            Vertical(
                Panel(agent_table.render, id="agents-all"),
                leading("open", request_table.render_of_agent, "agents-requests"),
                newest("agents-events"),
                id="agents-left",
            ),
            Vertical(
                Panel(agent_page.render_card, id="agent-card"),
                Panel(cost_table.render_models, id="models"),
                id="agents-right",
            ),
        ),
        "requests": lambda: Vertical(
            Panel(request_table.render, id="requests"), Panel(request_page.render_card, id="request-card")
        ),
        "tuning": lambda: Horizontal(
            Vertical(Panel(knobs.render, id="knobs"), newest("tuning-events"), id="tuning-left"),
            Vertical(
                curve("tuning-curve"),
                Panel(limits.render_windows, id="tuning-windows"),
                leading("circuit", limits.render_circuit, "tuning-circuit"),
                id="tuning-right",
            ),
        ),
        "log": lambda: Horizontal(
            Panel(log.render, id="log"),
            Vertical(
                Panel(log.render_event, id="log-event"),
                Panel(limits.render_windows, id="log-windows"),
                leading("circuit", limits.render_circuit, "log-circuit"),
                curve("log-curve"),
                id="log-right",
            ),
        ),
        "tasks": lambda: Horizontal(
            Vertical(
                Panel(task_page.render, id="tasks-all"),
                Panel(gantt.render, id="gantt"),
                newest("tasks-events"),
                id="tasks-left",
            ),
            Vertical(Panel(task_page.render_card, id="task-card"), curve("tasks-curve"), id="tasks-right"),
        ),
        "fleet": lambda: Vertical(
            Panel(fleet_page.render, id="fleet"),
            Horizontal(newest("fleet-events"), curve("fleet-curve"), id="fleet-below"),
        ),
        "cost": lambda: Horizontal(
            Panel(cost_table.render, id="costs"),
            Vertical(Panel(vitals.render_spend, id="cost-trends"), curve("cost-curve"), id="cost-right"),
        ),
        "whatif": lambda: Horizontal(
            Panel(knobs.render_what_if, id="whatif-settings"),
            Vertical(
                Panel(comparison.render, id="comparison"),
                Panel(comparison.render_chart, id="courses"),
                id="whatif-right",
            ),
        ),
        "agent": lambda: Vertical(
            Horizontal(
                Panel(agent_page.render_card, id="agent-facts"),
                Panel(agent_page.render_tokens, id="agent-tokens"),
                id="agent-top",
            ),
            Panel(request_table.render_waterfall, id="waterfall"),
            Horizontal(
                Vertical(Panel(log.render_of_agent, id="agent-own-events"), newest("agent-events"), id="agent-log"),
                curve("agent-curve"),
                id="agent-bottom",
            ),
        ),
        "request": lambda: Horizontal(
            Vertical(
                Panel(request_page.render_timeline, id="request-course"),
                Panel(request_table.render_around, id="request-around"),
                Panel(log.render_around, id="request-events"),
                id="request-left",
            ),
            Vertical(
                Panel(agent_page.render_card, id="request-agent"),
                Panel(request_page.render_decisions, id="decisions"),
                Panel(request_page.render_headers, id="headers"),
                curve("request-curve"),
                id="request-right",
            ),
        ),
    }


def rows_wanted(view: View, width_of: Callable[[str], int], alone: bool, pen: Pen) -> Mapping[str, int | None]:
    """Return by id the panels of the page whose number of rows is known, and that number, beside :data:`AROUND`; None:
    as many as there are. `width_of` tells how wide a panel is, `alone` whether there is no fleet.
    """
    match view.page:
        case "agents":
            return {
                "agents-all": len(view.agents),
                "models": cost_table.rows_wanted(view, width_of("models"), pen) - AROUND,
            }
        case "tasks":
            none = not view.snapshot.tasks
            return {
                "tasks-all": task_page.rows_wanted(view, width_of("tasks-all"), pen),
                "gantt": -AROUND if none else len(view.tasks),
                "task-card": len(TASK_SIGNS) - 1 if none else None,
            }
        case "agent":
            own_events = max(0, len(log.lines_of_agent(view)) - 1)
            return {"waterfall": len(view.listed), "agent-own-events": own_events}
        case "request":
            return {
                "request-course": request_page.timeline_rows(view) - 1,
                "decisions": request_page.decision_rows(view, width_of("decisions"), pen) - 1,
                "headers": request_page.header_rows(view, width_of("headers"), pen) - 1,
            }
        case "fleet":
            rows = fleet_page.rows_alone(view, width_of("fleet"), pen) - AROUND
            return {"fleet": rows if alone else None}
    return {}
