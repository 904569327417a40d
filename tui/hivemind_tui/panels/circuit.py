"""The circuit breaker and whatever else stands between a request and the upstream."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.scheduler.events import LaneState
from hivemind_tui.format import percent, plural, seconds
from hivemind_tui.glyphs import sign
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.view import View

_MEANS = {
    "closed": "requests flow",
    "open": "nothing is sent upstream",
    "half_open": "one probe decides",
}


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: state and how it is steered, errors against the threshold, a provider's pause."""
    cells, _ = body_size(ink, width, height)
    lane = view.lane
    if lane is None:
        body = [ink.row(cells, ("closed until the first request says otherwise", "dim"))]
        return ink.frame("Circuit", "", body, width, height)
    state = lane.state
    body = [_state(state, cells, ink), _errors(state, cells, ink)]
    if state.parked_for_s > 0:
        spans = [(f"{ink.glyphs.clock} parked {seconds(state.parked_for_s)} more", "wait"), (" by the provider", "dim")]
        body.append(ink.row(cells, *spans, ("  r ends it", "dim")))
    if state.paused:
        body.append(ink.row(cells, (f"{ink.glyphs.stop} admissions paused", "wait"), ("  p resumes", "dim")))
    body.append(ink.row(cells, (_upstream(view, state), "dim")))
    return ink.frame("Circuit", "forced, c changes" if state.circuit_forced else "automatic", body, width, height)


def _state(state: LaneState, width: int, ink: Ink) -> Strip:
    glyph, role = ink.mark(state.circuit)
    spans: list[Span] = [(f"{glyph} {sign(state.circuit).word.upper()}", role)]
    if state.circuit_forced:
        spans.append((" forced", "accent"))
    spans.append((f"  {_MEANS.get(state.circuit, '')}", "dim"))
    if state.circuit_reopens_in_s is not None and state.circuit == "open":
        spans.append((f", probe in {seconds(state.circuit_reopens_in_s)}", "wait"))
    return ink.row(width, *spans)


def _errors(state: LaneState, width: int, ink: Ink) -> Strip:
    share = state.circuit_errors / state.circuit_results if state.circuit_results else 0.0
    role = "bad" if share >= state.circuit_threshold else "wait" if share >= state.circuit_threshold / 2 else "ok"
    figures = f" {plural(state.circuit_errors, 'error')} in {state.circuit_results}"
    limit = f", opens at {percent(state.circuit_threshold, 1)} of {state.circuit_window}"
    bar = max(4, min(20, width - len(figures) - len(limit)))
    return ink.row(width, *ink.gauge(bar, share, role=role), (figures, "text"), (limit, "dim"))


def _upstream(view: View, state: LaneState) -> str:
    url = dict(view.snapshot.upstreams).get(state.upstream, "")
    return f"{state.upstream} {url}" if url else state.upstream
