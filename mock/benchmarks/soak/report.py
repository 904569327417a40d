"""The figures of a soak, or of crowds, as a table: `python -m benchmarks.soak.report FILE PAGE` writes it between the
marks of that page."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benchmarks.soak.watching import Sample, windows

_CROWD = ("crowd", "files, soft / hard", "came", "held at once", "became of them", "others served", "refused")
_WORDS = {"200": "answered", "left": "left"}
_CROWD_MORE = ("`/_health`, p50 and p99 in ms", "MiB before, then, after", "files before, then, after")


def rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was measured and its figure."""
    outcomes, upstream = found["outcomes"], found["upstream"]
    samples = msgspec.convert(found["samples"], list[Sample])
    faults = sum(upstream["faults"].values()) + upstream["over_capacity"]
    table = [
        ("length", f"{found['load_s'] / 60:.0f} minutes"),
        ("requests", f"{found['requests']:,}"),
        ("answered to the end", f"{outcomes.get('answered', 0):,}"),
        ("their own client went away", f"{outcomes.get('left', 0):,}"),
        ("one well-formed error in place of an answer", f"{outcomes.get('refused', 0):,}"),
        ("one well-formed error at the end of a stream", f"{outcomes.get('error_event', 0):,}"),
        ("cut in the middle, as the upstream's answer was", f"{outcomes.get('cut', 0):,}"),
        ("lost, answered twice, or not its own", f"{outcomes.get('broken', 0) + outcomes.get('none', 0):,}"),
        ("attempts upstream", f"{found['attempts']:,}"),
        ("faults of the upstream", f"{faults:,}"),
        ("decisions of the operator", f"{sum(found['commands'].values()):,}"),
        ("alarms of the proxy", f"{len(found['alarms']):,}"),
    ]
    for name, what, of in (
        ("rss_mb", "memory in MiB, median", median),
        ("files", "open files, least", min),
        ("tasks", "tasks, least", min),
    ):
        if found_in := windows(samples, name, of):
            table.append((f"{what} of each eighth after the warm-up", ", ".join(f"{each:.0f}" for each in found_in)))
    if samples:
        used = samples[-1].cpu_s - samples[0].cpu_s
        count = samples[-1].requests - samples[0].requests
        table.append(("processor time of the proxy for a request", f"{used / max(1, count) * 1e6:.0f} µs"))
    table.append(("promises broken", f"{len(found['broken'])}"))
    return table


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return the table for a terminal."""
    table = rows(found)
    width = max(len(what) for what, _ in table)
    return [f"{what.ljust(width)}  {figure}" for what, figure in table]


def crowd_rows(crowds: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the table of what crowds did, its head first."""
    return [
        (*_CROWD, *_CROWD_MORE),
        *(
            (
                each["what"],
                each["limit"],
                f"{each['asked']:,}",
                f"{each['held']:,}",
                ", ".join(f"{count:,} {_WORDS.get(what, what)}" for what, count in sorted(each["outcomes"].items())),
                f"{each['served']}",
                f"{each['refused']}",
                f"{each['health_p50_ms']:.0f}, {each['health_p99_ms']:.0f}",
                f"{each['rss_before_mb']:.0f}, {each['rss_peak_mb']:.0f}, {each['rss_after_mb']:.0f}",
                f"{each['files_before']}, {each['files_peak']:,}, {each['files_after']}",
            )
            for each in crowds
        ),
    ]


def page(text: str, found: Mapping[str, Any]) -> str:
    """Return a page with the table between its marks: those of a soak, or of crowds."""
    if "crowds" in found:
        head, *body = crowd_rows(found["crowds"])
        name, table = "crowds", [head, ("---", "---", *("--:" for _ in head[2:])), *body]
        intro = f"HiveMind {found['version']}:\n"
    else:
        name, table = "soak", [("", ""), ("---", "--:"), *rows(found)]
        intro = f"HiveMind {found['version']}, seed {found['seed']}:\n"
    lines_of = [intro, *("| " + " | ".join(row) + " |" for row in table)]
    marks = re.compile(rf"(<!-- {name}: begin[^>]*-->\n).*?(\n<!-- {name}: end -->)", re.DOTALL)
    return marks.sub(lambda found_marks: found_marks[1] + "\n".join(lines_of) + found_marks[2], text)


def main(argv: Sequence[str]) -> int:
    """Write the table of that JSON file into that page."""
    source, target = map(Path, argv)
    found = msgspec.json.decode(source.read_bytes())
    target.write_text(page(target.read_text("utf-8"), found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
