"""How the screen itself is doing: how long it holds the loop that it shares with the traffic, frames, memory."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.loop.loop_lag import Diagnostics, Step
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.state.view import View


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a summary, then the slowest steps."""
    cells, rows = pen.body_size(width, height)
    seen = view.inside
    if seen is None:
        return pen.frame("Inside", "i closes", [pen.row(cells, ("measuring…", "dim"))], width, height)
    body = [pen.row(cells, *spans) for spans in _summary(seen)]
    body += [_step(step, seen.report.limit_s, cells, pen) for step in seen.report.worst]
    return pen.frame("Inside the screen", "i closes", body[:rows], width, height)


def _summary(seen: Diagnostics) -> list[list[Span]]:
    report = seen.report
    start = f"{report.first_frame_s:.2f} s" if report.first_frame_s is not None else "—"
    pauses = ", ".join(f"gen {each.generation} {_ms(each.worst_s)}" for each in report.collections if each.count)
    over = f"{report.over} over {_ms(report.limit_s)}, {report.over_cpu} of them by computing"
    return [
        [
            ("frames    ", "dim"),
            (f"{seen.fps:.0f} of {seen.wanted_fps:.0f} a second", "strong"),
            (f", {_ms(seen.frame_s)} each; the first after {start}", "text"),
        ],
        [
            ("loop      ", "dim"),
            (f"{report.steps} steps, p50 {_ms(report.p50_s)}, p99 {_ms(report.p99_s)}", "text"),
            (f", busy {report.busy_s / max(report.for_s, 1e-9):.1%}", "text"),
        ],
        [("held      ", "dim"), (over, "bad" if report.over_cpu else "wait" if report.over else "ok")],
        [("garbage   ", "dim"), (pauses or "none collected", "text")],
        [("memory    ", "dim"), (f"{seen.memory_mb:.0f} MiB", "text")],
        [("worst     ", "dim"), ("" if report.worst else "no step took a millisecond", "text")],
    ]


def _step(step: Step, limit_s: float, width: int, pen: Pen) -> Strip:
    role = "bad" if step.cpu_s > limit_s else "wait" if step.wall_s > limit_s else "text"
    spans: list[Span] = [
        (fit(_ms(step.wall_s), 9, ">"), role),
        (f" computing {fit(_ms(step.cpu_s), 8, '>')}  ", "dim"),
        (step.name, "text"),
    ]
    return pen.row(width, *spans)


def _ms(value_s: float) -> str:
    return f"{value_s * 1000:.1f} ms"
