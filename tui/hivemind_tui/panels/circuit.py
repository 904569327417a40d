"""The circuit breaker, and other reasons why a lane sends nothing."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.scheduler.gauges import LaneState
from hivemind.text.humanise import short_duration
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit, percent
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Chunk, Pen, Span, fitting
from hivemind_tui.state.view import View, join

_BAR = 24
_LABEL = 8


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: state and mode, errors against the threshold, probe, pauses, last event, upstream."""
    cells, _ = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Circuit", "No lane yet: the circuit is closed.", width, height)
    state = lane.state
    shown = sign(state.circuit)
    glyph, role = pen.sign(shown)
    forced = " forced" if state.circuit_forced else ""
    head = [(f"{glyph} {shown.word.upper()}", role), (forced, "accent"), (f"  {shown.meaning}", "dim")]
    facts = (
        ("errors", _errors(state, cells, pen)),
        ("probe", _probe(state, cells, pen)),
        ("limited", _limited(view, state, pen)),
        _paused(view, state, pen),
        ("last", _last(view, state)),
        ("to", [(f"{state.upstream} {dict(view.snapshot.upstreams).get(state.upstream, '')}", "dim")]),
    )
    body = [head, *([(fit(label, _LABEL), "dim"), *spans] for label, spans in facts if spans)]
    note = join("forced, c changes" if state.circuit_forced else "automatic", view.lane_note())
    return pen.frame("Circuit", note, body, width, height)


def summary(state: LaneState, width: int, pen: Pen) -> list[Span]:
    """Return the state and what comes next, in one line."""
    word, role = pen.worded(sign(state.circuit))
    forced = " forced" if state.circuit_forced else ""
    chunks: list[Chunk] = [(0, [("circuit ", "text"), (word + forced, role)])]
    if state.circuit == "open" and state.circuit_reopens_in_s is not None:
        chunks.append((1, [(f"probe in {short_duration(state.circuit_reopens_in_s)}", "wait")]))
    if state.parked_for_s > 0:
        chunks.append((1, [(f"{pen.glyphs.clock} rate-limited {short_duration(state.parked_for_s)}", "wait")]))
    if state.circuit == "closed":
        chunks.append((2, [(f"{state.circuit_errors} of {state.circuit_results} failed", "dim")]))
    return fitting(width, chunks)


def _errors(state: LaneState, width: int, pen: Pen) -> list[Span]:
    """Return the error rate, on a bar that also shows the threshold."""
    errors, results = state.circuit_errors, state.circuit_results
    share = errors / results if results else 0.0
    full = results >= state.circuit_window
    role = "bad" if share >= state.circuit_threshold else "wait" if share >= state.circuit_threshold / 2 else "ok"
    figures = f" {fit(percent(errors, results), 4, '>')}, {errors} of {results}"
    limit = f", opens at {percent(state.circuit_threshold, 1)}{'' if full else f' of {state.circuit_window}'}"
    bar = max(4, min(_BAR, width - _LABEL - len(figures) - len(limit)))
    cells = round(min(1.0, share) * bar) or int(errors > 0)
    at = min(bar - 1, round(state.circuit_threshold * bar))
    glyphs = pen.glyphs
    drawn: list[Span] = [(glyphs.full, role) if n < cells else (glyphs.empty, "rule") for n in range(bar)]
    drawn[at] = (glyphs.frame[5], "strong")
    return [*drawn, (figures, "text"), (limit, "dim")]


def _probe(state: LaneState, width: int, pen: Pen) -> list[Span]:
    """Return the countdown to the probe, or the probe's progress."""
    if state.circuit == "half_open":
        under_way = "in flight, its result decides" if state.active else "the next request"
        return [(f"{pen.glyphs.half} {under_way}", "recover")]
    if state.circuit != "open":
        return []
    left = state.circuit_reopens_in_s
    if left is None:
        return [("none while forced open; c changes that", "wait")]
    cooldown = state.knobs.get("circuit.cooldown_s") or left or 1.0
    gauge = pen.gauge(max(4, min(_BAR, width - _LABEL - 10)), 1 - left / cooldown, role="wait")
    return [*gauge, (f" in {short_duration(left)}", "wait")]


def _limited(view: View, state: LaneState, pen: Pen) -> list[Span]:
    if state.parked_for_s <= 0:
        return []
    left = f"{pen.glyphs.clock} paused by the provider, {short_duration(state.parked_for_s)} left"
    return [(left, "wait"), ("; r ends it" if view.live else "", "dim")]


def _paused(view: View, state: LaneState, pen: Pen) -> tuple[str, list[Span]]:
    """Return why nothing is admitted, after its label."""
    if view.snapshot.mode == "draining":
        label, what, key = "drain", f"{pen.glyphs.half} new requests are refused", "; D ends it"
    elif state.paused or view.snapshot.mode == "paused":
        label, what, key = "paused", f"{pen.glyphs.pause} no admissions", "; p resumes"
    else:
        return "", []
    return label, [(what, "wait"), (key if view.live else "", "dim")]


def _last(view: View, state: LaneState) -> list[Span]:
    """Return the newest log line about this circuit."""
    line = next((line for line in reversed(view.snapshot.lines) if _about(line, state.lane)), None)
    if line is None:
        return []
    by = "you: " if line.tag == "you" else ""
    return [(f"{clock(line.wall)} ", "dim"), (f"{by}{line.text}", "text")]


def _about(line: Line, lane: str) -> bool:
    if line.who not in (lane, "all"):
        return False
    return line.tag == "circuit" or (line.tag in ("you", "other") and line.text.startswith("circuit "))
