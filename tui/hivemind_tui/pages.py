"""The pages: which panels each has, how they are nested, and how many rows those have use for that can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

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
    models,
    request_page,
    request_table,
    slots,
    task_page,
    trends,
    vitals,
)
from hivemind_tui.panels.curve import CurvePanel
from hivemind_tui.render.glyphs import TASK_SIGNS
from hivemind_tui.widgets.box import Container, Horizontal, Vertical
from hivemind_tui.widgets.line_table import Panel

if TYPE_CHECKING:
    from textual.widget import Widget

    from hivemind_tui.plots.process import PlotProcess
    from hivemind_tui.render.pen import Pen
    from hivemind_tui.state.view import View

AROUND = 3
"""Rows of a list beside its items: head and box."""
_BOTTOM = 15
"""Rows that agents and events have at least where they stand side by side."""


def pages(plots: PlotProcess | None) -> Mapping[str, Widget]:
    """Return the pages by name. The style sheet (pages.tcss) says which panels are shown in which layout."""

    def curve(id: str) -> Panel:
        return CurvePanel(plots, id=id)

    return {
        "overview": Vertical(
            Panel(vitals.render, id="vitals"),
            Panel(lanes.render, id="lanes"),
            Horizontal(
                Vertical(
                    Panel(slots.render, id="slots"),
                    Panel(models.render, id="overview-models"),
                    Panel(gantt.render, id="overview-tasks"),
                    Panel(trends.render_times, id="overview-times"),
                    id="top-left",
                ),
                curve("curve"),
                id="top",
            ),
            Horizontal(
                Panel(limits.render_windows, id="windows"), Panel(limits.render_circuit, id="circuit"), id="middle"
            ),
            Container(Panel(agent_table.render, id="agents"), Panel(log.render_newest, id="events"), id="bottom"),
        ),
        "start": Vertical(Panel(connect.render, id="start")),
        "agents": Horizontal(
            Vertical(
                Panel(agent_table.render, id="agents-all"),
                Panel(request_table.render_of_agent, id="agents-requests"),
                Horizontal(
                    Vertical(
                        Panel(log.render_newest, id="agents-events"),
                        Panel(slots.render, id="agents-slots"),
                        id="agents-log",
                    ),
                    Panel(trends.render, id="agents-trends"),
                    id="agents-below",
                ),
                id="agents-left",
            ),
            Vertical(
                Panel(agent_page.render_card, id="agent-card"),
                Panel(models.render, id="models"),
                Panel(trends.render_times, id="agents-times"),
                curve("agents-curve"),
                id="agents-right",
            ),
        ),
        "requests": Horizontal(
            Vertical(
                Panel(request_table.render, id="requests"),
                Panel(request_page.render_card, id="request-card"),
                Panel(log.render_newest, id="requests-events"),
                id="requests-left",
            ),
            Vertical(
                Panel(agent_page.render_card, id="requests-agent"),
                Panel(trends.render_times, id="requests-times"),
                curve("requests-curve"),
                id="requests-right",
            ),
        ),
        "tuning": Horizontal(
            Vertical(Panel(knobs.render, id="knobs"), Panel(log.render_newest, id="tuning-events"), id="tuning-left"),
            Vertical(
                Container(curve("tuning-curve"), Panel(trends.render, id="tuning-trends"), id="tuning-plots"),
                Container(
                    Panel(limits.render_windows, id="tuning-windows"),
                    Panel(limits.render_circuit, id="tuning-circuit"),
                    id="tuning-lane",
                ),
                id="tuning-right",
            ),
        ),
        "log": Horizontal(
            Vertical(
                Panel(log.render, id="log"), Panel(request_table.render_at_event, id="log-requests"), id="log-left"
            ),
            Container(
                Vertical(
                    Panel(log.render_event, id="log-event"),
                    Panel(log.render_kinds, id="log-kinds"),
                    Panel(limits.render_windows, id="log-windows"),
                    Panel(limits.render_circuit, id="log-circuit"),
                    Panel(trends.render_times, id="log-times"),
                    Panel(slots.render, id="log-slots"),
                    id="log-facts",
                ),
                Vertical(curve("log-curve"), Panel(trends.render, id="log-trends"), id="log-plots"),
                id="log-right",
            ),
        ),
        "tasks": Horizontal(
            Vertical(
                Panel(task_page.render, id="tasks-all"),
                Panel(gantt.render, id="gantt"),
                Horizontal(
                    Vertical(
                        Panel(log.render_newest, id="tasks-events"),
                        Panel(slots.render, id="tasks-slots"),
                        id="tasks-log",
                    ),
                    Panel(trends.render, id="tasks-trends"),
                    id="tasks-below",
                ),
                id="tasks-left",
            ),
            Vertical(
                Panel(task_page.render_card, id="task-card"),
                Panel(trends.render_times, id="tasks-times"),
                curve("tasks-curve"),
                id="tasks-right",
            ),
        ),
        "fleet": Vertical(
            Panel(fleet_page.render, id="fleet"),
            Horizontal(
                Vertical(
                    Panel(log.render_newest, id="fleet-events"), Panel(slots.render, id="fleet-slots"), id="fleet-log"
                ),
                Container(curve("fleet-curve"), Panel(trends.render, id="fleet-trends"), id="fleet-plots"),
                id="fleet-below",
            ),
        ),
        "cost": Horizontal(
            Panel(cost_table.render, id="costs"),
            Vertical(Panel(trends.render_spend, id="cost-trends"), curve("cost-curve"), id="cost-right"),
        ),
        "whatif": Horizontal(
            Panel(knobs.render_what_if, id="whatif-settings"),
            Vertical(
                Panel(comparison.render, id="comparison"),
                Panel(comparison.render_chart, id="courses"),
                id="whatif-right",
            ),
        ),
        "agent": Vertical(
            Horizontal(
                Panel(agent_page.render_facts, id="agent-facts"),
                Panel(agent_page.render_tokens, id="agent-tokens"),
                Panel(trends.render_own_times, id="agent-times"),
                id="agent-top",
            ),
            Panel(request_table.render_waterfall, id="waterfall"),
            Horizontal(
                Vertical(
                    Panel(log.render_of_agent, id="agent-own-events"),
                    Panel(log.render_newest, id="agent-events"),
                    Panel(slots.render, id="agent-slots"),
                    id="agent-log",
                ),
                Container(curve("agent-curve"), Panel(trends.render, id="agent-trends"), id="agent-plots"),
                id="agent-bottom",
            ),
        ),
        "request": Horizontal(
            Vertical(
                Panel(request_page.render_timeline, id="request-course"),
                Panel(request_table.render_around, id="request-around"),
                Panel(log.render_around, id="request-events"),
                id="request-left",
            ),
            Container(
                Vertical(
                    Panel(agent_page.render_card, id="request-agent"),
                    Panel(agent_page.render_tokens, id="request-tokens"),
                    Panel(trends.render, id="request-trends"),
                    id="request-whose",
                ),
                Vertical(
                    Panel(request_page.render_decisions, id="decisions"),
                    Panel(request_page.render_headers, id="headers"),
                    curve("request-curve"),
                    id="request-why",
                ),
                id="request-right",
            ),
        ),
    }


def rows_wanted(
    view: View, width_of: Callable[[str], int], has_class: Callable[[str], bool], pen: Pen
) -> Mapping[str, int | None]:
    """Return by id the panels of the page whose number of rows is known, and that number, beside :data:`AROUND`; None:
    as many as there are. The slots aren't among them, as their panel only grows. `width_of` tells how wide a panel is,
    `has_class` which layout is shown.
    """
    wide, high = has_class("wide"), has_class("high")
    match view.page:
        case "overview":
            of_models = models.rows_wanted(view, width_of("overview-models"), pen) - AROUND
            tasks, tall = bool(view.snapshot.tasks), has_class("tall")
            return {
                "bottom": max(_BOTTOM - AROUND, len(view.agents)) if wide else None,
                "overview-models": of_models if tall else -AROUND if tasks else None,
                "overview-tasks": len(view.snapshot.tasks) if tall else None if tasks else -AROUND,
                "overview-times": trends.times_rows(view) if tasks else None,
            }
        case "agents":
            agent = view.agent
            own = sum(agent is not None and each.agent == agent.name for each in view.requests)
            return {
                "agents-all": len(view.agents),
                "agents-requests": max(1, own) if wide else None,
                "models": models.rows_wanted(view, width_of("models"), pen) - AROUND,
                "agents-times": trends.times_rows(view),
            }
        case "requests":
            return {"requests": len(view.listed) if high else None, "requests-times": trends.times_rows(view)}
        case "log":
            return {
                "log": len(view.log_rows) - 1 if wide else None,
                "log-kinds": len(log.kinds_of(view)),
                "log-times": trends.times_rows(view),
            }
        case "tasks":
            rows = task_page.rows_wanted(view, width_of("tasks-all"), pen)
            none = not view.snapshot.tasks
            return {
                "tasks-all": rows,
                "gantt": -AROUND if none else len(view.tasks),
                "task-card": len(TASK_SIGNS) - 1 if none else None,
                "tasks-times": trends.times_rows(view),
                **({} if none else {"tasks-slots": -AROUND}),
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
            return {"fleet": rows if has_class("alone") else None}
    return {}
