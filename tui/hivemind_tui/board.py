"""The layout of the panels: header, one page, bottom row, as the terminal's size allows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.geometry import Size
from textual.widget import Widget

from hivemind_tui.keys.keymap import footer
from hivemind_tui.panels import (
    agent_page,
    agent_table,
    comparison,
    connect,
    diagnostics,
    fleet_page,
    gantt,
    header,
    knobs,
    lanes,
    limits,
    log,
    models,
    request_page,
    request_table,
    slots,
    task_page,
    vitals,
)
from hivemind_tui.panels.curve import CurvePanel
from hivemind_tui.panels.timeline_strip import Scrubber
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.glyphs import Glyphs
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.state.view import View
from hivemind_tui.widgets.box import Container, Horizontal, Vertical
from hivemind_tui.widgets.line_table import Panel
from hivemind_tui.widgets.prompt import BottomRow

_TURNS = 2
"""Calls of :meth:`Board.draw_turn` in which every panel of a page is drawn once, all from the same view."""

FULL = Size(140, 36)
"""Boxes, and all panels side by side."""
WIDE = 190
"""Columns from which agents and events stand side by side."""
TALL = 66
"""Rows from which, on so wide a screen, both tasks and models have a place below the slots."""
_BOTTOM = 15
"""Rows that agents and events have at least where they stand side by side."""
_SLOTS_STEP = 4
"""Rows by which the slots' panel grows, never to shrink again: each change is a layout."""
_AROUND = 3
"""Rows of a list beside its items: head and box."""
LANES_SHOWN = 2
"""Lanes in sight on the smallest screen of a layout; one more for every six rows."""
ROOMY = Size(160, 45)
"""Vitals have three rows."""
COMPACT = Size(80, 24)
"""One column under rules; smaller than this there is one panel and a hint."""


def layout_for(size: Size) -> str:
    """Return the layout for a terminal of this size: `full`, `compact` or `tiny`."""
    if size.width >= FULL.width and size.height >= FULL.height:
        return "full"
    return "compact" if size.width >= COMPACT.width and size.height >= COMPACT.height else "tiny"


def _classes_at(size: Size) -> Mapping[str, bool]:
    """Return the board's classes by the size of the terminal."""
    layout = layout_for(size)
    return {
        "compact": layout != "full",
        "tiny": layout == "tiny",
        "wide": layout == "full" and size.width >= WIDE,
        "tall": layout == "full" and size.width >= WIDE and size.height >= TALL,
        "roomy": size.width >= ROOMY.width and size.height >= ROOMY.height,
    }


def _classes_of(view: View, size: Size) -> Mapping[str, bool]:
    """Return those by what there is to show; a class that changes styles all panels again, so only where it matters."""
    return {
        "choosing": view.what_if.choosing,
        "several": len(view.snapshot.lanes) > 1,
        "alone": not view.fleet.store,
        "planned": size.width >= WIDE and bool(view.snapshot.tasks),
    }


class Board(Vertical):
    """Everything on the screen except what lies over it."""

    def __init__(self, glyphs: Glyphs, plots: PlotProcess | None) -> None:
        super().__init__(id="board")
        self.pen = Pen(glyphs=glyphs)
        self.bottom = BottomRow(id="footer")
        self._header = Panel(header.render, id="header")
        self._lanes = Panel(lanes.render, id="lanes")
        self._every_agent = Panel(agent_table.render, id="agents-all")
        self._models = Panel(models.render, id="models")
        self._gantt = Panel(gantt.render, id="gantt")
        self._every_task = Panel(task_page.render, id="tasks-all")
        self._bottom = Container(
            Panel(agent_table.render, id="agents"), Panel(log.render_newest, id="events"), id="bottom"
        )
        self._own_events = Panel(log.render_of_agent, id="agent-own-events")
        self._slots = Panel(slots.render, id="slots")
        self._fleet = Panel(fleet_page.render, id="fleet")
        self._request_top = Horizontal(
            Panel(request_page.render_timeline, id="request-course"),
            Panel(agent_page.render_card, id="request-agent"),
            id="request-top",
        )
        self._waterfall = Panel(request_table.render_waterfall, id="waterfall")
        self._inside = Panel(diagnostics.render, id="inside")
        self._timeline = Scrubber(id="timeline")
        self._pages: Mapping[str, Widget] = {
            "overview": Vertical(
                Panel(vitals.render, id="vitals"),
                self._lanes,
                Horizontal(
                    Vertical(
                        self._slots,
                        Panel(models.render, id="overview-models"),
                        Panel(gantt.render, id="overview-tasks"),
                        id="top-left",
                    ),
                    CurvePanel(plots, id="curve"),
                    id="top",
                ),
                Horizontal(
                    Panel(limits.render_windows, id="windows"), Panel(limits.render_circuit, id="circuit"), id="middle"
                ),
                self._bottom,
            ),
            "start": Vertical(Panel(connect.render, id="start")),
            "agents": Horizontal(
                Vertical(
                    self._every_agent,
                    Panel(request_table.render_of_agent, id="agents-requests"),
                    Panel(log.render_newest, id="agents-events"),
                    id="agents-left",
                ),
                Vertical(
                    Panel(agent_page.render_card, id="agent-card"),
                    self._models,
                    CurvePanel(plots, id="agents-curve"),
                    id="agents-right",
                ),
            ),
            "requests": Vertical(
                Panel(request_table.render, id="requests"), Panel(request_page.render_card, id="request-card")
            ),
            "tuning": Horizontal(
                Vertical(
                    Panel(knobs.render, id="knobs"), Panel(log.render_newest, id="tuning-events"), id="tuning-left"
                ),
                Vertical(
                    CurvePanel(plots, id="tuning-curve"),
                    Panel(limits.render_windows, id="tuning-windows"),
                    Panel(limits.render_circuit, id="tuning-circuit"),
                    id="tuning-right",
                ),
            ),
            "log": Horizontal(
                Panel(log.render, id="log"),
                Vertical(
                    CurvePanel(plots, id="log-curve"),
                    Panel(limits.render_windows, id="log-windows"),
                    Panel(limits.render_circuit, id="log-circuit"),
                    id="log-right",
                ),
            ),
            "tasks": Horizontal(
                Vertical(self._every_task, self._gantt, Panel(log.render_newest, id="tasks-events"), id="tasks-left"),
                Vertical(
                    Panel(task_page.render_card, id="task-card"), CurvePanel(plots, id="tasks-curve"), id="tasks-right"
                ),
            ),
            "fleet": Vertical(
                self._fleet,
                Horizontal(
                    Panel(log.render_newest, id="fleet-events"), CurvePanel(plots, id="fleet-curve"), id="fleet-below"
                ),
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
                    id="agent-top",
                ),
                self._waterfall,
                Horizontal(
                    Vertical(
                        self._own_events,
                        Panel(log.render_newest, id="agent-events"),
                        id="agent-log",
                    ),
                    CurvePanel(plots, id="agent-curve"),
                    id="agent-bottom",
                ),
            ),
            "request": Vertical(
                self._request_top,
                Horizontal(
                    Panel(request_table.render_around, id="request-around"),
                    CurvePanel(plots, id="request-curve"),
                    id="request-middle",
                ),
                Horizontal(
                    Vertical(
                        Panel(request_page.render_decisions, id="decisions"),
                        Panel(log.render_newest, id="request-events"),
                        id="request-left",
                    ),
                    Panel(request_page.render_headers, id="headers"),
                    id="request-bottom",
                ),
            ),
        }
        for name, page in self._pages.items():
            page.id = f"page-{name}"
            page.add_class("page")
        self._panels: list[Panel] = []
        """The panels of the page shown."""
        self._slots_rows = 0
        """The most that the slots' panel has had use for."""
        self._recorded = False
        self._size = Size(0, 0)
        self._rows: dict[Widget, int | None] = {}
        """The rows that panels were last given, of which more would stay empty; None: any number."""
        self._turn = 0
        self._waiting: list[Panel] = []
        """The panels of the frame that is being drawn."""
        self._due: list[Panel] = []
        self._unshown = False
        """Whether those that are due complete a frame."""
        self._wake = asyncio.Event()
        self._view: View | None = None

    def begin(self, size: Size, view: View) -> None:
        """Take the layout for this size and view before the first panel is there: each change of it later on styles
        all of them again."""
        self.update_classes({**_classes_at(size), **_classes_of(view, size)}, update=False)

    def compose(self) -> ComposeResult:
        yield self._header
        yield from self._pages.values()
        yield self._inside
        yield self._timeline
        yield self.bottom

    def restyle(self, variables: Mapping[str, str], size: Size) -> None:
        """Take the theme's colours and the layout for this size."""
        self._size = size
        self._slots_rows = 0
        self.update_classes(_classes_at(size))
        self._keep_clear()
        self.pen = Pen.themed(variables, self.pen.glyphs, boxed=layout_for(size) == "full")

    def turn_to(self, page: str) -> None:
        """Show another page."""
        self._timeline.display = self._recorded and page != "whatif"  # which is about all of it, and needs the rows
        for name, each in self._pages.items():
            each.display = name == page
        self._panels = [*self._pages[page].query(Panel)]
        self._keep_clear()

    def show_inside(self, shown: bool) -> None:
        """Show or hide the diagnostics in a corner."""
        self._inside.display = shown

    def show_timeline(self) -> None:
        """Show the timeline of a recording from now on."""
        self._recorded = self._timeline.display = True
        self._keep_clear()

    def _keep_clear(self) -> None:
        """Tell the style sheet how many rows above the footer no notification may cover."""
        rows = 1 if self.has_class("tiny") else 2 if self.has_class("compact") else 4
        for count in (1, 2, 4):
            self.screen.set_class(bool(self._timeline.display) and count == rows, f"timeline-{count}")

    @property
    def between_frames(self) -> bool:
        """Whether the next turn begins a frame, and so wants a new view."""
        return self._turn == 0

    def draw_turn(self, view: View) -> None:
        """Draw the next part of the page: panels take turns, so that no frame delays the traffic by all of them. Those
        of one frame draw the view of its first turn, and are shown together after its last."""
        if self._unshown:
            return  # a key's frame comes first
        if self._turn == 0:
            self._view, self._waiting = view, self._shown()
        share = self._waiting[self._turn :: _TURNS]
        self._turn = (self._turn + 1) % _TURNS
        self._draw(share, last=self._turn == 0)

    def draw_all(self, view: View) -> None:
        """Draw every panel of the page now, one after the other, and then show them together."""
        self._view, self._turn, self._due = view, 0, []
        self._draw(self._shown(), last=True)

    def _shown(self) -> list[Panel]:
        shown = [self._header, *self._panels, self._timeline, self._inside]
        return [panel for panel in shown if panel.display]

    def _draw(self, panels: Sequence[Panel], *, last: bool) -> None:
        assert self._view is not None
        self._make_room(self._view)
        self._due += [panel for panel in panels if panel not in self._due]
        self._unshown = last
        self._wake.set()

    def _make_room(self, view: View) -> None:
        """Give the panels whose number of rows is known as many as they have use for."""
        self.update_classes(_classes_of(view, self._size))
        count, full = len(view.snapshot.lanes), not self.has_class("compact")
        most = LANES_SHOWN + max(0, self._size.height - (FULL if full else COMPACT).height) // 6
        rows = min(count, most) + (3 if full else 2)
        if full:
            rows += min(count, most) * lanes.more_rows(count, self._size.height)
        # Only of the page shown: each change is a layout of all.
        for panel, items in (*self._lists(view), (self._lanes, rows - _AROUND)):
            # Lists longer than the screen get all that there is, however long.
            wanted = None if items is None else min(items, self._size.height) + _AROUND
            if not full and panel is not self._lanes:
                wanted = None
            if wanted != self._rows.get(panel):
                self._rows[panel] = wanted
                if panel in (self._lanes, self._slots):
                    panel.styles.height = wanted
                else:
                    panel.styles.max_height = wanted

    def _lists(self, view: View) -> Sequence[tuple[Widget, int | None]]:
        """Return those of the page's panels whose number of rows is known, and that number, beside head and box; None:
        as many as there are."""
        wide = self.has_class("wide")
        match view.page:
            case "overview":
                bottom = max(_BOTTOM - _AROUND, len(view.agents)) if wide else None
                return ((self._bottom, bottom), (self._slots, self._rows_of_slots(view) if wide else None))
            case "agents":
                return ((self._every_agent, len(view.agents)), (self._models, models.rows_wanted(view) - _AROUND))
            case "tasks":
                return ((self._every_task, len(view.tasks)), (self._gantt, len(view.tasks)))
            case "agent":
                own = None if log.lines_of_agent(view) else 0
                return ((self._waterfall, len(view.listed) + 1), (self._own_events, own))
            case "request":
                return ((self._request_top, request_page.timeline_rows(view) - 1),)
            case "fleet":
                alone = fleet_page.rows_alone(view, self._size.width, self.pen) - _AROUND
                return ((self._fleet, alone if self.has_class("alone") else None),)
        return ()

    def _rows_of_slots(self, view: View) -> int:
        wanted = slots.rows_wanted(view)
        if wanted > self._slots_rows:
            self._slots_rows = math.ceil(wanted / _SLOTS_STEP) * _SLOTS_STEP
        return min(self._slots_rows, self._size.height // 3 - _AROUND)

    async def paint(self) -> None:
        """Draw the panels that are due, for ever, one in each turn of the loop, with turns for the traffic between."""
        drawn: list[Panel] = []
        while True:
            await self._wake.wait()
            while self._due and self._view is not None:
                panel = self._due.pop(0)
                panel.prepare(self._view, self.pen)
                drawn.append(panel)
                await asyncio.sleep(0)
            if self._unshown:
                for panel in drawn:
                    panel.commit()
                drawn.clear()
                self._unshown = False
            self._wake.clear()

    def draw_footer(self, view: View, size: Size, note: str) -> None:
        """Draw the keys that fit, and a note at the right."""
        hint = f"more at {COMPACT.width}x{COMPACT.height}" if layout_for(size) == "tiny" else ""
        notes: list[Span] = [(f" {text} ", "dim") for text in (note, hint) if text]
        room = size.width - sum(len(text) for text, _ in notes) - 1
        keys = fitting(room - 1, footer(view))
        left = sum(len(text) for text, _ in keys)
        self.bottom.show([(" ", "text"), *keys, (" " * max(0, room - left), "text"), *notes], self.pen)
