"""Where the panels stand: header, panels and footer, in the layout that the terminal's size allows."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size

from . import keymap
from .glyphs import Glyphs
from .ink import Ink, Span, fitting
from .panels import agents, circuit, header, slots, windows
from .panels import events as log_lines
from .plots.process import PlotProcess
from .view import View
from .widgets.curve_panel import CurvePanel
from .widgets.line_table import LineTable
from .widgets.panel import Panel

FULL = Size(140, 36)
"""Boxes, and all panels side by side."""
COMPACT = Size(80, 24)
"""One column under rules; smaller than this there is one panel and a hint."""


def layout_for(size: Size) -> str:
    """`full`, `compact` or `tiny`."""
    if size.width >= FULL.width and size.height >= FULL.height:
        return "full"
    return "compact" if size.width >= COMPACT.width and size.height >= COMPACT.height else "tiny"


class Board(Vertical):
    """All that is drawn, but for what lies over it."""

    def __init__(self, glyphs: Glyphs, plots: PlotProcess | None) -> None:
        super().__init__(id="board")
        self.ink = Ink(glyphs=glyphs)
        self._header = Panel(header.render, id="header")
        self._slots = Panel(slots.render, id="slots")
        self._curve = CurvePanel(plots, id="curve")
        self._windows = Panel(windows.render, id="windows")
        self._circuit = Panel(circuit.render, id="circuit")
        self._agents = Panel(agents.render, id="agents")
        self._events = Panel(log_lines.render, id="events")
        self._footer = LineTable(id="footer")
        self._turns: tuple[tuple[Panel, ...], ...] = (
            (self._header, self._slots, self._curve),
            (self._agents, self._windows, self._circuit, self._events),
        )
        self._turn = 0

    def compose(self) -> ComposeResult:
        """Header, panels, footer."""
        yield self._header
        with Vertical(id="stack"):
            yield Horizontal(self._slots, self._curve, id="top")
            yield Horizontal(self._windows, self._circuit, id="middle")
            yield self._agents
            yield self._events
        yield self._footer

    def restyle(self, variables: Mapping[str, str], size: Size) -> None:
        """Take the theme's colours and the layout for this size."""
        layout = layout_for(size)
        self.set_class(layout != "full", "compact")
        self.set_class(layout == "tiny", "tiny")
        self.ink = Ink.themed(variables, self.ink.glyphs, boxed=layout == "full")

    def draw_turn(self, view: View) -> None:
        """Draw the next group of panels: they take turns, so that no frame delays the traffic by all of them."""
        self._turn = (self._turn + 1) % len(self._turns)
        self._draw(view, self._turns[self._turn])

    def draw_all(self, view: View) -> None:
        """Draw every panel now."""
        self._draw(view, tuple(panel for turn in self._turns for panel in turn))

    def _draw(self, view: View, panels: tuple[Panel, ...]) -> None:
        with self.app.batch_update():
            for panel in panels:
                panel.show(view, self.ink)

    def draw_footer(self, size: Size, note: str) -> None:
        """The keys that fit, and a note at the right."""
        hint = f"more at {COMPACT.width}x{COMPACT.height}" if layout_for(size) == "tiny" else ""
        notes: list[Span] = [(f" {text} ", "dim") for text in (note, hint) if text]
        room = size.width - sum(len(text) for text, _ in notes) - 1
        keys: list[Span] = [(" ", "text"), *fitting(room - 1, keymap.footer())]
        left = self.ink.row(max(0, room), *keys)
        right = self.ink.row(size.width - left.cell_length, *notes)
        self._footer.set_rows([left.join([left, right])])
