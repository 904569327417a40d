"""How the screen itself is doing: how long it holds the loop that it shares with the traffic, frames, memory."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.loop.loop_lag import Diagnostics, LoopStep
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Row
from hivemind_tui.state.view import View


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a summary, then the slowest steps."""
    seen = view.inside
    if seen is None:
        return pen.message("Inside", "measuring…", width, height, "i closes")
    body = [*_summary(seen), *(_step(step, seen.report.limit_s) for step in seen.report.worst)]
    return pen.frame("Inside the screen", "i closes", body, width, height)


def _summary(seen: Diagnostics) -> list[Row]:
    report = seen.report
    start = f"{report.first_frame_s:.2f} s" if report.first_frame_s is not None else "—"
    pauses = ", ".join(f"gen {each.generation} {_ms(each.worst_s)}" for each in report.collections if each.count)
    over = f"{report.over} over {_ms(report.limit_s)}, {report.over_cpu} of them by computing"
    fps = f"{seen.fps:.0f} of {seen.wanted_fps:.0f} a second"
    busy = report.busy_s / max(report.for_s, 1e-9)
    facts: tuple[tuple[str, str, str], ...] = (
        ("frames", f"{fps}, {_ms(seen.frame_s)} each; the first after {start}", "text"),
        ("loop", f"{report.steps} steps, p50 {_ms(report.p50_s)}, p99 {_ms(report.p99_s)}, busy {busy:.1%}", "text"),
        ("held", over, "bad" if report.over_cpu else "wait" if report.over else "ok"),
        ("garbage", pauses or "none collected", "text"),
        ("memory", f"{seen.memory_mb:.0f} MiB", "text"),
        ("worst", "" if report.worst else "no step took a millisecond", "text"),
    )
    return [[(fit(label, 10), "dim"), (text, role)] for label, text, role in facts]


def _step(step: LoopStep, limit_s: float) -> Row:
    role = "bad" if step.cpu_s > limit_s else "wait" if step.wall_s > limit_s else "text"
    computing = f" computing {fit(_ms(step.cpu_s), 8, '>')}  "
    return [(fit(_ms(step.wall_s), 9, ">"), role), (computing, "dim"), (step.name, "text")]


def _ms(value_s: float) -> str:
    return f"{value_s * 1000:.1f} ms"
