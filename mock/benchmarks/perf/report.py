"""The measurements for people, and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

import msgspec

from benchmarks.perf.fleet import Answered
from benchmarks.perf.load import Load
from benchmarks.perf.rounds import Measured, Round, Unmeasured
from benchmarks.perf.screen import Started
from benchmarks.perf.seeking import Indexed, Sought
from benchmarks.perf.streams import Streamed
from benchmarks.perf.terminal import Held
from benchmarks.perf.verdicts import Verdict
from hivemind.text.humanise import plural
from hivemind_mock.bench.main import format_table

_OTHERS = ("nginx", "portkey", "litellm")
_TARGETS = ("direct", "hivemind", *_OTHERS, "not recording", "recording", "no screen", "screen", "unread")


def goals_table(verdicts: Sequence[Verdict]) -> str:
    """Each goal, what was measured over the rounds, and whether it was met."""
    rows = [(one.what, one.verdict, one.goal, *_figures(one)) for one in verdicts]
    return format_table([("", "verdict", "goal", "measured", "lowest", "highest"), *rows], left=2)


def loads_table(rounds: Sequence[Round]) -> str:
    """What was seen of each target, as medians over the rounds; of what came latest, the worst round."""
    groups: dict[tuple[str, str], list[Load | Streamed]] = {}
    for one in rounds:
        for seen in one.measured:
            if isinstance(seen, Load | Streamed):
                groups.setdefault((_kind(seen), seen.target), []).append(seen)
    rows = [(kind, target, *_medians(groups[kind, target])) for kind, target in sorted(groups, key=_in_order)]
    unmeasured = sorted({seen for one in rounds for seen in one.measured if isinstance(seen, Unmeasured)}, key=repr)
    words = "".join(f"\n{each.target}, {each.load}: {each.why}" for each in unmeasured)
    head = ("load", "", "p50 ms", "p90 ms", "p99 ms", "worst ms", "per s", "CPU us")
    return format_table([head, *rows], left=2) + words


def screen_table(rounds: Sequence[Round]) -> str:
    """How long the screen held the loop, and how soon it answered a key."""
    measured = [seen for one in rounds for seen in one.measured]
    steps = [
        (seen.target, f"{seen.p99_ms:.2f}", f"{seen.worst_cpu_ms:.2f}", f"{seen.worst_ms:.2f}", seen.worst_cpu)
        for seen in measured
        if isinstance(seen, Held)
    ]
    answers = [
        (seen.kind, f"{seen.p50_ms:.2f}", f"{seen.p95_ms:.2f}", f"{seen.worst_ms:.2f}")
        for seen in measured
        if isinstance(seen, Answered)
    ]
    return _tables(
        (("the screen's steps", "p99 ms", "longest, CPU", "longest, wall", "step"), steps),
        (("key to frame", "p50 ms", "p95 ms", "worst ms"), answers),
    )


def journal_table(rounds: Sequence[Round]) -> str:
    """How soon a moment of a large journal was there, and what its index took."""
    measured = [seen for one in rounds for seen in one.measured]
    sought = [
        (seen.kind, f"{seen.seeks}", f"{seen.p50_ms:.0f}", f"{seen.worst_ms:.0f}", f"{seen.worst_cpu_ms:.0f}")
        for seen in measured
        if isinstance(seen, Sought)
    ]
    indexed = [
        (f"{seen.journal_mb:,.0f} MB", f"{seen.events:,}", f"{seen.index_s:.1f}", f"{seen.index_share:.1%}")
        for seen in measured
        if isinstance(seen, Indexed)
    ]
    return _tables(
        (("moment of a journal", "seeks", "p50 ms", "worst ms", "worst, CPU"), sought),
        (("journal", "events", "read through s", "index"), indexed),
    )


def _tables(*tables: tuple[tuple[str, ...], Sequence[tuple[str, ...]]]) -> str:
    """Those that have rows, by their heads."""
    return "\n\n".join(format_table([head, *rows], left=1) for head, rows in tables if rows)


def as_json(rounds: Sequence[Round], verdicts: Sequence[Verdict], versions: Mapping[str, str]) -> bytes:
    """The goals, every single measurement, and what they were made with."""
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "programs": versions,
        "goals": [asdict(one) for one in verdicts],
        "rounds": [[{"load": _kind(seen), **asdict(seen)} for seen in one.measured] for one in rounds],
    }
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _kind(seen: Measured) -> str:
    match seen:
        case Load():
            return plural(seen.clients, "client")
        case Streamed():
            return plural(seen.streams, "stream")
        case Held():
            return "steps"
        case Started():
            return "start"
        case Answered() | Sought():
            return seen.kind
        case Indexed():
            return "index"
        case Unmeasured():
            return seen.load


def _in_order(group: tuple[str, str]) -> tuple[bool, int, int]:
    """Streams last; within a kind of load the target that was direct first."""
    number, noun = group[0].split()
    return noun.startswith("stream"), int(number.replace(",", "")), _TARGETS.index(group[1])


def _medians(group: Sequence[Load | Streamed]) -> tuple[str, ...]:
    shares = [median(values) for values in zip(*((one.p50_ms, one.p90_ms, one.p99_ms) for one in group), strict=True)]
    worst = [one.worst_ms for one in group if isinstance(one, Streamed)]
    per_s = [one.per_s for one in group if isinstance(one, Load)]
    cpu_us = [one.cpu_us for one in group if one.cpu_us is not None]
    return (
        *(f"{share:.2f}" for share in shares),
        f"{max(worst):.2f}" if worst else "-",
        f"{median(per_s):,.0f}" if per_s else "-",
        f"{median(cpu_us):,.1f}" if cpu_us else "-",
    )


def _figures(one: Verdict) -> tuple[str, ...]:
    return tuple("-" if figure is None else f"{figure:.2f}" for figure in (one.measured, one.low, one.high))
