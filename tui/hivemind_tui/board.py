"""The layout of the panels: header, one page, bottom row, as the terminal's size allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.geometry import Size
from textual.widget import Widget

from hivemind_tui.keys.keymap import footer, parsed
from hivemind_tui.pages import AROUND, pages, rows_wanted
from hivemind_tui.panels import diagnostics, header
from hivemind_tui.panels.timeline_strip import Scrubber
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.glyphs import Glyphs
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.state.view import View
from hivemind_tui.widgets.box import Vertical
from hivemind_tui.widgets.line_table import Panel
from hivemind_tui.widgets.prompt import BottomRow

_TURNS = 2
"""Calls of :meth:`Board.draw_turn` in which every panel of a page is drawn once, all from the same view."""

FULL = Size(140, 36)
"""Boxes, and all panels side by side, made for 160x45; larger screens have more of the same."""
COMPACT = Size(80, 24)
"""One column under rules; smaller than this it is cut off."""
LANES_SHOWN = 2
"""Lanes in sight on the smallest screen of a layout; one more for every six rows."""


def is_full(size: Size) -> bool:
    """Return whether a terminal of this size has the full layout; otherwise it has the compact one."""
    return size.width >= FULL.width and size.height >= FULL.height


def _classes_of(view: View) -> Mapping[str, bool]:
    """Return the board's classes by what there is to show; a class that changes styles all panels again, so only where
    it matters."""
    return {
        "choosing": view.what_if.choosing,
        "several": len(view.snapshot.lanes) > 1,
        "alone": not view.fleet.store,
        "slow": header.is_slow(view),
    }


class Board(Vertical):
    """Everything on the screen except what lies over it."""

    def __init__(self, glyphs: Glyphs, plots: PlotProcess | None) -> None:
        super().__init__(id="board")
        self.pen = Pen(glyphs=glyphs)
        self.bottom = BottomRow(id="footer")
        self._header = Panel(header.render, id="header")
        self._inside = Panel(diagnostics.render, id="inside")
        self._timeline = Scrubber(id="timeline")
        self._made = pages(plots)
        self._pages: dict[str, Widget] = {}
        """Those that were shown, by name."""
        self._page = ""
        self._panels: dict[str | None, Panel] = {}
        """The panels of the page shown, by id."""
        self._recorded = False
        self._size = Size(0, 0)
        self._rows: dict[Panel, int | None] = {}
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
        self.update_classes({"compact": not is_full(size), **_classes_of(view)}, update=False)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._inside
        yield self._timeline
        yield self.bottom

    def restyle(self, variables: Mapping[str, str], size: Size) -> None:
        """Take the theme's colours and the layout for this size."""
        self._size = size
        self.set_class(not is_full(size), "compact")
        self._keep_clear()
        self.pen = Pen.themed(variables, self.pen.glyphs, boxed=is_full(size))

    def turn_to(self, page: str) -> None:
        """Show another page."""
        self._timeline.display = self._recorded and page != "whatif"  # which is about all of it, and needs the rows
        self._page = page
        if page not in self._pages:
            made = self._pages[page] = self._made[page]()
            made.id = f"page-{page}"
            self.mount(made.add_class("page"), before=self._inside)
        self.call_next(self._show, page)  # once it is mounted, so that no empty page is shown
        self._panels = {panel.id: panel for panel in self._pages[page].query(Panel)}
        self._keep_clear()

    def _show(self, page: str) -> None:
        if page == self._page:  # else a key turned on meanwhile
            for name, each in self._pages.items():
                each.display = name == page

    def show_inside(self, shown: bool) -> None:
        """Show or hide the diagnostics in a corner."""
        self._inside.display = shown

    def show_timeline(self) -> None:
        """Show the timeline of a recording from now on."""
        self._recorded = self._timeline.display = True
        self._keep_clear()

    def _keep_clear(self) -> None:
        """Tell the style sheet how many rows above the footer no notification may cover."""
        rows = 2 if self.has_class("compact") else 4
        for count in (2, 4):
            self.screen.set_class(bool(self._timeline.display) and count == rows, f"timeline-{count}")

    def columns(self) -> Sequence[str]:
        """Return the columns that the page's list can be sorted by: those whose heads are shown, from the left."""
        for panel in self._panels.values():
            heads = [part for row in panel.rows[:2] for part in row] if panel.is_on_screen else []
            actions = [str(part.style.meta.get("@click", "")) for part in heads if part.style is not None]
            if found := [str(parsed(each)[1][0]) for each in actions if each.startswith("app.sort_by(")]:
                return found
        return ()

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
        return [each for each in (self._header, *self._panels.values(), self._timeline, self._inside) if each.display]

    def _draw(self, panels: Sequence[Panel], *, last: bool) -> None:
        assert self._view is not None
        self._make_room(self._view)
        self._due += [panel for panel in panels if panel not in self._due]
        self._unshown = last
        self._wake.set()

    def _make_room(self, view: View) -> None:
        """Give the panels whose number of rows is known as many as they have use for."""
        self.update_classes(_classes_of(view))
        if not self._panels:
            return  # nothing is mounted yet
        full = not self.has_class("compact")
        # Only of the page shown: each change is a layout of all.
        wanted = rows_wanted(view, lambda name: self._panels[name].size.width, self.has_class("alone"), self.pen)
        for name, items in wanted.items():
            # Lists longer than the screen get all that there is, however long.
            rows = None if items is None or not full else min(items, self._size.height) + AROUND
            self._give(name, rows, most=True)
        if view.page == "overview":
            self._give("lanes", self._rows_of_lanes(view), most=False)

    def _give(self, name: str, rows: int | None, *, most: bool) -> None:
        """Give a part of the page so many rows, or at most so many."""
        part = self._panels[name]
        if rows != self._rows.get(part):
            self._rows[part] = rows
            if most:
                part.styles.max_height = rows
            else:
                part.styles.height = rows

    def _rows_of_lanes(self, view: View) -> int:
        count, full = len(view.snapshot.lanes), not self.has_class("compact")
        most = LANES_SHOWN + max(0, self._size.height - (FULL if full else COMPACT).height) // 6
        return min(count, most) + (3 if full else 2)

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
        small = size.width < COMPACT.width or size.height < COMPACT.height
        hint = f"needs {COMPACT.width}x{COMPACT.height}" if small else ""
        notes: list[Span] = [(f" {text} ", "dim") for text in (note, hint) if text]
        room = size.width - sum(len(text) for text, _ in notes) - 1
        keys = fitting(room - 1, footer(view))
        left = sum(len(text) for text, _ in keys)
        self.bottom.show([(" ", "text"), *keys, (" " * max(0, room - left), "text"), *notes], self.pen)
