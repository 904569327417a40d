"""`python -m benchmarks.fleet.figures FILE FOLDER`: what `make fleet` found, as tables of the manual.

Writes `fleet-measured-figures.md` into the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

Found = Mapping[str, Any]

_STEADY = {
    "fleet": "with `--fleet`",
    "fleet, nothing stated": "with `--fleet`, no headers",
    "apart": "without",
    "apart, nothing stated": "without, no headers",
}
_CRITICAL = {"critical, slots": "10 slots in flight", "critical, requests": "600 requests a minute"}


def text_of(found: Found) -> str:
    """Return all tables of these results."""
    runs = found["runs"]
    where = "each in a network namespace of its own" if found["namespaces"] else "on one loopback interface"
    parts = [f"Measured on {found['cores']} cores, version {found['version']}; the proxies ran {where}.\n"]
    if steady := {title: runs[name] for name, title in _STEADY.items() if name in runs}:
        parts.append("### Steady load\n\n" + _steady(steady))
    if "tokens" in runs:
        parts.append("### A limit of input tokens\n\n" + _tokens(runs["tokens"]))
    if asked := {title: runs[name] for name, title in _CRITICAL.items() if name in runs}:
        parts.append("### A critical request beside fifty low ones\n\n" + _critical(asked))
    if "faults" in runs:
        parts.append("### Faults\n\n" + _faults(runs["faults"]))
    if "crowd" in runs:
        parts.append("### Twenty proxies on one Redis\n\n" + _crowd(runs["crowd"]))
    if "overhead" in runs:
        parts.append("### A request's way\n\n" + _overhead(runs["overhead"]))
    return "\n".join(parts)


def _steady(runs: Mapping[str, Found]) -> str:
    rows: Sequence[tuple[str, Callable[[Found], str]]] = (
        ("requests answered", lambda run: f"{run['answered']:,}"),
        ("wall time, s", lambda run: f"{run['wall_s']:.0f}"),
        ("attempts at the provider", lambda run: f"{run['attempts']:,}"),
        ("fullest 60 s, of the limit", lambda run: _percent(run["worst_window"])),
        ("used of the limit, after the first minute", lambda run: _percent(run["used"])),
        ("429 from the provider", lambda run: f"{run['refused']:,}"),
        ("of these after the first minute", lambda run: f"{run['refused_later']:,}"),
        ("dead agents", lambda run: f"{run['dead']:,}"),
        ("farthest from a due share, in any phase", lambda run: _percent(run["worst_share"])),
        ("the same over all phases", lambda run: _percent(run["worst_share_whole"])),
        ("wait p50 / p95 / longest, s", lambda run: _waits(run["waits"])),
    )
    return _table(("", *runs), ((name, *map(cell, runs.values())) for name, cell in rows))


def _tokens(run: Found) -> str:
    head = (
        "fullest 60 s, of the limit",
        "used",
        "429 after the first minute",
        "dead agents",
        "wait p50 / p95 / longest, s",
    )
    cells = (
        *(_percent(run["worst_window"]), _percent(run["used"]), f"{run['refused_later']}", f"{run['dead']}"),
        _waits(run["waits"]),
    )
    return _table(head, [cells], left=0)


def _critical(runs: Mapping[str, Found]) -> str:
    head = (
        *("what binds", "critical: wait p50 / p95 / longest, s", "low: wait p50 / p95 / longest, s"),
        *("used of it", "dead agents"),
    )
    rows = (
        (
            *(name, _waits(run["critical"]), _waits(run["low"])),
            *(_percent(run.get("slots_used", run["used"])), f"{run['dead']}"),
        )
        for name, run in runs.items()
    )
    return _table(head, rows)


def _faults(run: Found) -> str:
    head = (
        *("fault", "lasted, s", "fullest 60 s, of the limit", "used meanwhile", "used in the 75 s after"),
        *("429", "lost", "lost with the killed proxy", "full use again after, s", "least use from 10 s after"),
    )
    rows = (
        (
            *(name, f"{each['lasted_s']:.1f}", _percent(each["worst_window"]), _percent(each["used_meanwhile"])),
            *(_percent(each["used_after"]), f"{each['refused']}", f"{each['lost']}", f"{each['excused']}"),
            "never" if each["back_s"] is None else f"{each['back_s']:.1f}",
            _percent(each["least_later"]),
        )
        for name, each in run["faults"].items()
    )
    return _table(head, rows)


def _crowd(run: Found) -> str:
    rows = (
        ("proxies", f"{run['proxies']}"),
        ("requests a minute, the limit", f"{run['limit']:,.0f}"),
        ("fullest 60 s, of the limit", _percent(run["worst_window"])),
        ("429 from the provider", f"{run['refused']}"),
        ("syncs a second, in all", f"{run['syncs_per_s']:.0f}"),
        ("processor time of Redis for a sync, µs", f"{run['redis_us']:.0f}"),
        ("Redis, of one core", _percent(run["redis_cpu_share"])),
        ("Redis, memory in MiB", f"{run['redis_mb']:.0f}"),
        ("a proxy, of one core", _percent(run["proxy_cpu_share"])),
        ("a proxy, memory in MiB", f"{run['proxy_mb']:.0f}"),
        ("one sync as a proxy sees it, mean, ms", f"{run['sync_ms']:.1f}"),
    )
    return _table(("", "figure"), rows)


def _overhead(run: Found) -> str:
    head = (
        *("clients", "p50 with, ms", "p50 without, ms", "ratio of p50", "of two without"),
        *("ratio of processor time", "of two without"),
    )
    rows = (
        (
            *(clients, f"{each['with_ms']:.3f}", f"{each['without_ms']:.3f}"),
            *(f"{each[name]:.3f}" for name in ("p50_ratio", "p50_noise", "cpu_ratio", "cpu_noise")),
        )
        for clients, each in run["clients"].items()
    )
    return _table(head, rows, left=0) + f"\nMedians of {run['rounds']} rounds, turn and turn about.\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.1f} %"


def _waits(found: Mapping[str, float]) -> str:
    return " / ".join(f"{found[name]:.2f}" for name in ("p50", "p95", "most")) if found else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    marks = ["---" if index < left else "--:" for index in range(len(head))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, marks, *rows))


def main() -> int:
    """Read the results, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.figures", description=__doc__)
    parser.add_argument("found", type=Path, help="what benchmarks.fleet --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    namespace = parser.parse_args()
    found = msgspec.json.decode(namespace.found.read_bytes())
    (namespace.folder / "fleet-measured-figures.md").write_text(text_of(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
