"""Where the panels stand: header, one page of panels, bottom row, in the layout that the terminal's size allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size

from hivemind_tui.keys.footers import footer
from hivemind_tui.panels import (
    agent_card,
    agent_facts,
    agent_table,
    agent_tokens,
    circuit,
    comparison,
    comparison_chart,
    connect,
    diagnostics,
    header,
    knobs,
    log,
    request_card,
    request_page,
    request_table,
    slots,
    task_card,
    task_table,
    timeline_strip,
    windows,
)
from hivemind_tui.panels.curve import CurvePanel
from hivemind_tui.panels.timeline_strip import Scrubber
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.glyphs import Glyphs
from hivemind_tui.render.layout import COMPACT, layout_for
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.state.view import View
from hivemind_tui.widgets.panel import Panel
from hivemind_tui.widgets.prompt import BottomRow

_TURNS = 2
"""Frames in which every panel of a page is drawn once."""


class Board(Vertical):
    """All that is drawn, but for what lies over it."""

    def __init__(self, glyphs: Glyphs, plots: PlotProcess | None) -> None:
        super().__init__(id="board")
        self.pen = Pen(glyphs=glyphs)
        self.bottom = BottomRow(id="footer")
        self._header = Panel(header.render, id="header")
        self._inside = Panel(diagnostics.render, id="inside")
        self._timeline = Scrubber(timeline_strip.render, id="timeline")
        self._pages: Mapping[str, Sequence[Panel]] = {
            "start": (Panel(connect.render, id="start"),),
            "overview": (
                Panel(slots.render, id="slots"),
                CurvePanel(plots, id="curve"),
                Panel(windows.render, id="windows"),
                Panel(circuit.render, id="circuit"),
                Panel(agent_table.render, id="agents"),
                Panel(log.render_newest, id="events"),
            ),
            "agents": (Panel(agent_table.render, id="agents-all"), Panel(agent_card.render, id="agent-card")),
            "requests": (Panel(request_table.render, id="requests"), Panel(request_card.render, id="request-card")),
            "tuning": (
                Panel(knobs.render, id="knobs"),
                CurvePanel(plots, id="tuning-curve"),
                Panel(windows.render, id="tuning-windows"),
                Panel(circuit.render, id="tuning-circuit"),
                Panel(log.render_newest, id="tuning-events"),
            ),
            "log": (Panel(log.render, id="log"),),
            "tasks": (Panel(task_table.render, id="tasks-all"), Panel(task_card.render, id="task-card")),
            "whatif": (
                Panel(knobs.render_what_if, id="whatif-settings"),
                Panel(comparison.render, id="comparison"),
                Panel(comparison_chart.render, id="courses"),
            ),
            "agent": (
                Panel(agent_facts.render, id="agent-facts"),
                Panel(agent_tokens.render, id="agent-tokens"),
                Panel(request_table.render_waterfall, id="waterfall"),
            ),
            "request": (
                Panel(request_page.render_timeline, id="request-course"),
                Panel(request_page.render_decisions, id="decisions"),
                Panel(request_page.render_headers, id="headers"),
            ),
        }
        self._page = "overview"
        self._recorded = False
        self._turn = 0
        self._due: list[Panel] = []
        self._news = asyncio.Event()
        self._view: View | None = None

    def compose(self) -> ComposeResult:
        """Header, the pages of which one is shown, the bottom row."""
        yield self._header
        pages = self._pages
        slots_, curve, windows_, circuit_, agents, events_ = pages["overview"]
        top, middle = Horizontal(slots_, curve, id="top"), Horizontal(windows_, circuit_, id="middle")
        yield Vertical(top, middle, agents, events_, id="page-overview", classes="page")
        yield Vertical(*pages["start"], id="page-start", classes="page")
        yield Horizontal(*pages["agents"], id="page-agents", classes="page")
        yield Vertical(*pages["requests"], id="page-requests", classes="page")
        knobs_, curve, windows_, circuit_, events_ = pages["tuning"]
        right = Vertical(curve, windows_, circuit_, events_, id="tuning-right")
        yield Horizontal(knobs_, right, id="page-tuning", classes="page")
        yield Vertical(*pages["log"], id="page-log", classes="page")
        yield Horizontal(*pages["tasks"], id="page-tasks", classes="page")
        settings, compared, over_time = pages["whatif"]
        answer = Vertical(compared, over_time, id="whatif-right")
        yield Horizontal(settings, answer, id="page-whatif", classes="page")
        facts, tokens, falls = pages["agent"]
        yield Vertical(Horizontal(facts, tokens, id="agent-top"), falls, id="page-agent", classes="page")
        course, decided, heads = pages["request"]
        yield Vertical(course, Horizontal(decided, heads, id="request-bottom"), id="page-request", classes="page")
        yield self._inside
        yield self._timeline
        yield self.bottom

    def restyle(self, variables: Mapping[str, str], size: Size) -> None:
        """Take the theme's colours and the layout for this size."""
        layout = layout_for(size)
        self.set_class(layout != "full", "compact")
        self.set_class(layout == "tiny", "tiny")
        self.pen = Pen.themed(variables, self.pen.glyphs, boxed=layout == "full")

    def turn_to(self, page: str) -> None:
        """Show this page instead."""
        self._page = page
        self._timeline.display = self._recorded and page != "whatif"  # which is about all of it, and needs the rows
        for name in self._pages:
            self.query_one(f"#page-{name}").display = name == page

    def show_inside(self, shown: bool) -> None:
        """How the screen is doing, in a corner, or not."""
        self._inside.display = shown

    def show_timeline(self) -> None:
        """From now on, as this is a recording."""
        self._recorded = self._timeline.display = True

    def draw_turn(self, view: View) -> None:
        """Draw the next part of the page: panels take turns, so that no frame delays the traffic by all of them."""
        self._turn = (self._turn + 1) % _TURNS
        self._draw(view, self._shown()[self._turn :: _TURNS])

    def draw_all(self, view: View) -> None:
        """Draw every panel of the page now, one after the other."""
        self._draw(view, self._shown())

    def _shown(self) -> list[Panel]:
        shown = [self._header, *self._pages[self._page], self._timeline, self._inside]
        return [panel for panel in shown if panel.display]

    def _draw(self, view: View, panels: Sequence[Panel]) -> None:
        self._view = view
        self.set_class(view.what_if.choosing, "choosing")
        self._due += [panel for panel in panels if panel not in self._due]
        self._news.set()

    async def paint(self) -> None:
        """Draw what is to be drawn, for ever, one panel a round of the loop: between two of them the traffic has its
        turn."""
        while True:
            await self._news.wait()
            while self._due and self._view is not None:
                self._due.pop(0).show(self._view, self.pen)
                await asyncio.sleep(0)
            self._news.clear()

    def draw_footer(self, view: View, size: Size, note: str) -> None:
        """The keys that fit, and a note at the right."""
        hint = f"more at {COMPACT.width}x{COMPACT.height}" if layout_for(size) == "tiny" else ""
        notes: list[Span] = [(f" {text} ", "dim") for text in (note, hint) if text]
        room = size.width - sum(len(text) for text, _ in notes) - 1
        chunks = footer(view)
        keys = fitting(room - 1, chunks)
        left = sum(len(text) for text, _ in keys)
        self.bottom.show([(" ", "text"), *keys, (" " * max(0, room - left), "text"), *notes], self.pen)
