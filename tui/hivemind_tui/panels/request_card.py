"""The selected request below the table: its phases on one bar and in words, why it waits, its usage."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_dollars
from hivemind.world.request_view import RequestView
from hivemind.world.snapshot import TicketView
from hivemind_tui.render.bars import bar, beginning, rounded
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.render.phases import described, phases_of, summarised
from hivemind_tui.render.wait_reason import far_back, lane_of, sentence
from hivemind_tui.render.wrapping import flowed
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
    error: list[Span] = [("last error ", "dim"), (request.last_error, "text")] if request.last_error else []
    why = reason(view, request, pen) or error
    others = [*([why] if why else []), fitting(cells, _facts(request, pen))]
    words = flowed(described(request, made, pen), cells)
    if len(words) > min(2, rows - 1 - len(others)):
        words = flowed(summarised(request, made, pen), cells)[:2]
    body = [pen.row(cells, *spans) for spans in (*words, *others)]
    if len(body) < rows:
        axis = beginning(made[0].start_at, made[-1].end_at, cells - _SCALE)
        body.insert(0, pen.row(cells, *bar(made, axis, pen), (f"{rounded(axis.span_s):>{_SCALE}}", "dim")))
    arrived = clock(request.arrived_at + view.snapshot.wall - view.snapshot.at)
    return pen.frame(f"#{request.ticket} of {request.agent}", f"arrived {arrived}", body, width, height)


def waiting(view: View, request: RequestView) -> TicketView | None:
    """Return its ticket if it waits and is among the tickets that the queue is shown with."""
    return next((ticket for ticket in view.snapshot.queue if ticket.ticket == request.ticket and ticket.gate), None)


def reason(view: View, request: RequestView, pen: Pen) -> list[Span]:
    """Return why it waits, in a sentence; nothing if it doesn't."""
    ticket = waiting(view, request)
    if ticket is None:
        behind = far_back(request.state, view.snapshot.queue)
        return [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")] if behind else []
    shown = gate_sign(ticket.gate)
    agent = next((agent for agent in view.snapshot.agents if agent.name == ticket.agent), None)
    said = sentence(ticket, lane_of(view.snapshot.lanes, ticket), agent)
    return [(f"{getattr(pen.glyphs, shown.glyph)} ", shown.role), (said, "text")]


def _facts(request: RequestView, pen: Pen) -> list[tuple[int, list[Span]]]:
    word, role = PRIORITIES[request.priority]
    facts: list[tuple[int, list[Span]]] = [
        (0, [(shortened(request.model, 40, pen), "strong")]),
        (5, [("lane ", "dim"), (request.lane, "text")]),
    ]
    facts.append((4, [("priority ", "dim"), (word, role)]))
    usage = request.usage
    if usage is None:
        so_far = f"{pen.glyphs.about}{short_count(request.output_tokens)}" if request.output_tokens else ""
        facts += [(2, [("out ", "dim"), (so_far, "text"), (" so far", "dim")])] if so_far else []
        facts.append(
            (3, [("estimated ", "dim"), (f"{pen.glyphs.about}{short_count(request.estimated_tokens)} tokens", "text")])
        )
    else:
        cached = f" ({short_count(usage.cache_read_tokens)} cached)" if usage.cache_read_tokens else ""
        facts.append((1, [("in ", "dim"), (short_count(usage.total_input), "text"), (cached, "dim")]))
        facts.append((1, [("out ", "dim"), (short_count(usage.output_tokens), "text")]))
    if request.dollars is not None:
        facts.append((2, [("cost ", "dim"), (short_dollars(request.dollars), "text")]))
    if not request.stream:
        facts.append((6, [("not streamed", "dim")]))
    return facts


def shortened(text: str, width: int, pen: Pen) -> str:
    """Return the text in at most so many cells."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return text
    return fit(text, max(0, width), ellipsis=pen.glyphs.ellipsis).rstrip()
