"""Draw what `benchmarks.perf --json FILE` measured: `python -m benchmarks.plot FILE FOLDER`.

Writes `performance.svg` and, as tables for the manual, `performance-figures.md` into the folder.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

import msgspec

_NAMES = {"direct": "direct", "nginx": "nginx", "hivemind": "HiveMind", "portkey": "Portkey", "litellm": "LiteLLM"}
_PANELS = ("cpu 16", "rate 16", "p50 1", "event 500", "event 20")
_GOALS = {
    "cpu 16": "CPU per request, 16 clients",
    "p50 1": "added p50, 1 client",
    "event 500": "CPU per event, 500 streams",
}
"""The goals of `benchmarks.perf.verdicts` that are marked in a panel."""
_WIDTH, _ROW, _PANEL_TOP, _LEFT, _RIGHT = 720, 24, 58, 96, 96
_STYLE = """\
text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}.s{fill:#59636e;font-size:12px}
.g{stroke:#d1d9e0}.b{stroke-width:10;stroke:#8c959f}.o{stroke:#0969da}"""
"""On a card of its own colour, so that it can be read on light pages and on dark ones."""

Seen = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of several targets: the medians over the rounds, by target."""

    what: str
    unit: str
    values: Mapping[str, float]

    def shown(self, target: str) -> str:
        """Return the figure with its unit, in three digits; a dash if it wasn't measured."""
        value = self.values.get(target)
        if value is None:
            return "–"
        digits = 2 - math.floor(math.log10(abs(value))) if value else 0
        return f"{round(value, digits):,.{max(0, min(digits, 5))}f} {self.unit}".rstrip()


def rows_of(rounds: Sequence[Sequence[Seen]]) -> dict[str, Row]:
    """Return the figures of the data plane, by their keys."""
    rows = {}
    for clients in (1, 16, 128):
        load = "1 client" if clients == 1 else f"{clients} clients"
        rows[f"rate {clients}"] = _row(rounds, load, f"Requests per second, {load}", "/s", lambda seen: seen["per_s"])
        rows[f"cpu {clients}"] = _row(rounds, load, f"CPU per request, {load}", "µs", lambda seen: seen["cpu_us"])
        rate = rows[f"rate {clients}"].values
        if "nginx" in rate:
            over = {target: each / rate["nginx"] for target, each in rate.items()}
            rows[f"share {clients}"] = Row(f"Requests per second over nginx's, {load}", "", over)
        for key in ("p50", "p99"):
            rows[f"{key} {clients}"] = _added(rounds, load, f"Added {key}, {load}", key)
    for streams in (20, 100, 500):
        load = f"{streams} streams"
        rows[f"event {streams}"] = _row(rounds, load, f"CPU per event, {load}", "µs", lambda seen: seen["cpu_us"])
        for key in ("p50", "p99"):
            rows[f"{key} of {streams}"] = _added(rounds, load, f"Added {key} of an event, {load}", key)
    return {key: row for key, row in rows.items() if row.values}


def _row(
    rounds: Sequence[Sequence[Seen]], load: str, what: str, unit: str, figure: Callable[[Seen], float | None]
) -> Row:
    found: dict[str, list[float]] = {}
    for one in rounds:
        for seen in _of(one, load):
            if "p50_ms" in seen and (value := figure(seen)) is not None:
                found.setdefault(seen["target"], []).append(value)
    return Row(what, unit, {target: median(values) for target, values in found.items()})


def _added(rounds: Sequence[Sequence[Seen]], load: str, what: str, key: str) -> Row:
    """The difference to the direct connection in the same round."""
    found: dict[str, list[float]] = {}
    for one in rounds:
        seen = {each["target"]: each[f"{key}_ms"] for each in _of(one, load) if "p50_ms" in each}
        for target in seen if "direct" in seen else ():
            if target != "direct":
                found.setdefault(target, []).append(seen[target] - seen["direct"])
    return Row(what, "ms", {target: median(values) for target, values in found.items()})


def _of(one: Sequence[Seen], load: str) -> list[Seen]:
    return [seen for seen in one if seen["load"] == load and seen["target"] in _NAMES]


# --- The plot ---------------------------------------------------------------------------------------------------------


def svg(rows: Mapping[str, Row], goals: Mapping[str, float], note: str) -> str:
    """Return the plot: a panel for each figure with a bar for each target; `goals` are marked in their panels."""
    shown = [(rows[key], goals.get(key)) for key in _PANELS if key in rows]
    parts, y = [], 34
    for row, goal in shown:
        panel, height = _panel(row, goal, y)
        parts.append(panel)
        y += height
    head = f"HiveMind between its neighbours: {note}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" aria-label="{escape(head)}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{_WIDTH}" height="{y}" rx="8" fill="#f6f8fa"/>\n'
        f'<text class="s" x="16" y="24">{escape(note)}; logarithmic scales</text>\n' + "".join(parts) + "</svg>\n"
    )


def _panel(row: Row, goal: float | None, top: int) -> tuple[str, int]:
    targets = [target for target in _NAMES if row.values.get(target, 0) > 0]
    values = [row.values[target] for target in targets] + ([goal] if goal else [])
    low, high = math.floor(math.log10(min(values)) - 0.3), math.ceil(math.log10(max(values)))
    bottom = top + _PANEL_TOP + _ROW * len(targets) - 14

    def x(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    parts = [f'<text class="t" x="16" y="{top + 20}">{escape(row.what)}</text>\n']
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<path class="g" d="M{at:.1f} {top + 44}V{bottom}"/>')
        parts.append(f'<text class="s" x="{at:.1f}" y="{top + 39}" text-anchor="middle">{10.0**power:,.10g}</text>\n')
    if goal:
        at = x(goal)
        parts.append(f'<path d="M{at:.1f} {top + 44}V{bottom}" stroke="#bf3989" stroke-dasharray="4 3"/>')
        parts.append(f'<text class="s" x="{at:.1f}" y="{bottom + 12}" text-anchor="middle">goal</text>\n')
    for number, target in enumerate(targets):
        y = top + _PANEL_TOP + number * _ROW
        kind = "b o" if target == "hivemind" else "b"
        at = x(row.values[target])
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_NAMES[target]}</text>')
        parts.append(f'<path class="{kind}" d="M{_LEFT} {y}H{at:.1f}"/>')
        parts.append(f'<text x="{at + 6:.1f}" y="{y + 4}">{escape(row.shown(target))}</text>\n')
    return "".join(parts), bottom - top + 20


# --- The tables -------------------------------------------------------------------------------------------------------


def tables(rows: Mapping[str, Row], found: Mapping[str, Any]) -> str:
    """Return the figures and the goals as Markdown."""
    targets = [target for target in _NAMES if any(target in row.values for row in rows.values())]
    versions = found["programs"]
    names = [" ".join((_NAMES[target], versions.get(target, ""))).strip() for target in targets]
    lines = ["| |" + "|".join(f" {name} " for name in names) + "|", "|---|" + "---:|" * len(names)]
    for row in rows.values():
        lines.append(f"| {row.what} |" + "|".join(f" {row.shown(target)} " for target in targets) + "|")
    lines += ["", "| goal | bound | median | lowest | highest | |", "|---|---|---:|---:|---:|---|"]
    for goal in found["goals"]:
        if goal["measured"] is None:
            continue
        figures = (f"{goal[key]:,.4g}" for key in ("measured", "low", "high"))
        lines.append(f"| {goal['what']} | {goal['goal']} | {' | '.join(figures)} | {goal['verdict']} |")
    unmeasured = {
        (seen["target"], seen["load"], seen["why"]) for one in found["rounds"] for seen in one if "why" in seen
    }
    lines += ["", *(f"{_NAMES[target]} doesn't carry {load} here: {why}." for target, load, why in sorted(unmeasured))]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Read the measurements, and write the plot and the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.plot", description=__doc__)
    parser.add_argument("measured", type=Path, help="what benchmarks.perf --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    namespace = parser.parse_args()
    found = msgspec.json.decode(namespace.measured.read_bytes())
    rows = rows_of(found["rounds"])
    note = (
        f"{found['processors']} processors, {found['system']}, Python {found['python']}, medians over rounds in turns"
    )
    limits = {goal["what"]: float(goal["goal"].split()[1]) for goal in found["goals"]}
    goals = {key: limits[what] for key, what in _GOALS.items() if what in limits}
    (namespace.folder / "performance.svg").write_text(svg(rows, goals, note), "utf-8")
    (namespace.folder / "performance-figures.md").write_text(f"{note}.\n\n{tables(rows, found)}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
