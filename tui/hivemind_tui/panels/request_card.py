"""The selected request below the table: its phases on one bar and in words, why it waits, its usage."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_dollars
from hivemind.world.request_view import RequestView
from hivemind_tui.render.bars import bar, beginning, rounded
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, fitting
from hivemind_tui.render.phases import described, phases_of, summarised
from hivemind_tui.render.rows import flowed, named
from hivemind_tui.render.wait_reason import far_back, lane_of, sentence
from hivemind_tui.state.view import View

_SCALE = 6
"""Cells for the length of the bar's axis."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, without the bar where they are too few."""
    cells, rows = pen.body_size(width, height)
    request = view.request
    if request is None:
        return pen.message("Request", "The selected request is shown here.", width, height)
    made = phases_of(request, view.snapshot.at)
    why = reason(view, request, pen) or (named("last error", request.last_error) if request.last_error else [])
    others = [*([why] if why else []), fitting(cells, _facts(request, pen))]
    words = flowed(described(request, made, pen), cells)
    if len(words) > min(2, rows - 1 - len(others)):
        words = flowed(summarised(request, made, pen), cells)[:2]
    body: list[Row] = [*words, *others]
    if len(body) < rows:
        axis = beginning(made[0].start_at, made[-1].end_at, cells - _SCALE)
        body.insert(0, [*bar(made, axis, pen), (f"{rounded(axis.span_s):>{_SCALE}}", "dim")])
    arrived = clock(request.arrived_at + view.snapshot.wall - view.snapshot.at)
    return pen.frame(f"#{request.ticket} of {request.agent}", f"arrived {arrived}", body, width, height)


def reason(view: View, request: RequestView, pen: Pen) -> list[Span]:
    """Return why it waits, in a sentence; nothing if it doesn't."""
    queue = view.snapshot.queue
    ticket = next((ticket for ticket in queue if ticket.ticket == request.ticket and ticket.gate), None)
    if ticket is None:
        behind = far_back(request.state, queue)
        return [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")] if behind else []
    glyph, role = pen.sign(gate_sign(ticket.gate))
    agent = next((agent for agent in view.snapshot.agents if agent.name == ticket.agent), None)
    return [(f"{glyph} ", role), (sentence(ticket, lane_of(view.snapshot.lanes, ticket), agent), "text")]


def _facts(request: RequestView, pen: Pen) -> list[Chunk]:
    about, usage = pen.glyphs.about, request.usage
    facts: list[Chunk] = [
        (0, [(shortened(request.model, 40, pen), "strong")]),
        (5, named("lane", request.lane)),
        (4, named("priority", *PRIORITIES[request.priority])),
    ]
    if usage is None:
        if request.output_tokens:
            facts.append((2, [*named("out", f"{about}{short_count(request.output_tokens)}"), (" so far", "dim")]))
        facts.append((3, named("estimated", f"{about}{short_count(request.estimated_tokens)} tokens")))
    else:
        cached = f" ({short_count(usage.cache_read_tokens)} cached)" if usage.cache_read_tokens else ""
        facts.append((1, [*named("in", short_count(usage.total_input)), (cached, "dim")]))
        facts.append((1, named("out", short_count(usage.output_tokens))))
    if request.dollars is not None:
        facts.append((2, named("cost", short_dollars(request.dollars))))
    return facts if request.stream else [*facts, (6, [("not streamed", "dim")])]


def shortened(text: str, width: int, pen: Pen) -> str:
    """Return the text in at most so many cells."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return text
    return fit(text, max(0, width), ellipsis=pen.glyphs.ellipsis).rstrip()
