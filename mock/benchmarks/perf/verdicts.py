"""What the measurements say: each goal with what was measured, and whether it was met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.perf.load import Load
from benchmarks.perf.recording import CLIENTS, OFF, ON
from benchmarks.perf.rounds import CROWD, Round
from benchmarks.perf.seeking import FIRST, INDEXED, UNREAD
from benchmarks.perf.streams import Streamed

NO_CPU = "skipped: only Linux tells what a process uses"
NO_NGINX = "skipped: nginx isn't installed (Debian: apt install nginx-light)"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, and the figure that counts, mostly the median over the rounds, beside the lowest and the highest."""

    what: str
    goal: str
    measured: float | None
    """None where it couldn't be measured."""
    low: float | None
    high: float | None
    unit: str
    verdict: str
    """`held`, `missed` or why it was skipped."""


@dataclass(frozen=True, slots=True)
class _Goal:
    what: str
    sign: str
    limit: float
    unit: str
    of: Callable[[Round], float | None]
    """Its figure in one round; None where that wasn't measured."""
    without: str = "skipped: not measured"
    of_all: Callable[[Iterable[float]], float] = median
    """Of the rounds' figures, the one that counts."""


def verdicts(rounds: Sequence[Round]) -> list[Verdict]:
    """Every goal, judged."""
    return [_judged(goal, rounds) for goal in _GOALS]


def _judged(goal: _Goal, rounds: Iterable[Round]) -> Verdict:
    said = f"{goal.sign} {goal.limit:g} {goal.unit}".rstrip()
    figures = [figure for one in rounds if (figure := goal.of(one)) is not None]
    if not figures:
        return Verdict(goal.what, said, None, None, None, goal.unit, goal.without)
    measured = goal.of_all(figures)
    met = {
        "<=": measured <= goal.limit,
        "<": measured < goal.limit,
        ">=": measured >= goal.limit,
        "=": min(figures) == max(figures) == goal.limit,
    }[goal.sign]
    return Verdict(goal.what, said, measured, min(figures), max(figures), goal.unit, "held" if met else "missed")


def _added(one: Round) -> float | None:
    through, direct = one.load("hivemind", 1), one.load("direct", 1)
    return None if through is None or direct is None else through.p50_ms - direct.p50_ms


def _added_per_event(share: Callable[[Streamed], float]) -> Callable[[Round], float | None]:
    def added(one: Round) -> float | None:
        through, direct = one.streamed("hivemind", 500), one.streamed("direct", 500)
        return None if through is None or direct is None else share(through) - share(direct)

    return added


def _cpu_per_request(clients: int) -> Callable[[Round], float | None]:
    return lambda one: None if (seen := one.load("hivemind", clients)) is None else seen.cpu_us


def _cpu_per_event(streams: int) -> Callable[[Round], float | None]:
    return lambda one: None if (seen := one.streamed("hivemind", streams)) is None else seen.cpu_us


def _complete(one: Round) -> float | None:
    return None if (seen := one.streamed("hivemind", CROWD)) is None else seen.complete


def _of_nginx(clients: int) -> Callable[[Round], float | None]:
    return lambda one: _ratio(one.load("hivemind", clients), one.load("nginx", clients))


def _held_up(one: Round) -> float | None:
    return _ratio(one.load("hivemind", 128), one.load("hivemind", 16))


def _ratio(one: Load | None, other: Load | None) -> float | None:
    return None if one is None or other is None else one.per_s / other.per_s


def _lost(one: Round) -> float | None:
    return sum(seen.lost for seen in proxied) if (proxied := _proxied(one)) else None


def _reordered(one: Round) -> float | None:
    return sum(seen.reordered for seen in proxied) if (proxied := _proxied(one)) else None


def _proxied(one: Round) -> list[Streamed]:
    return [seen for seen in one.measured if isinstance(seen, Streamed) and seen.target != "direct"]


def _latest_unread(one: Round) -> float | None:
    return max((seen.worst_ms for seen in _proxied(one) if seen.target == "unread"), default=None)


def _p50_beside(one: Round) -> float | None:
    with_screen, without = one.load("screen", 1), one.load("no screen", 1)
    return None if with_screen is None or without is None else with_screen.p50_ms / without.p50_ms


def _p99_beside(one: Round) -> float | None:
    with_screen, without = one.load("screen", 1), one.load("no screen", 1)
    return None if with_screen is None or without is None else with_screen.p99_ms - without.p99_ms


def _carried_beside(clients: int) -> Callable[[Round], float | None]:
    return lambda one: _ratio(one.load("screen", clients), one.load("no screen", clients))


def _streams_beside(one: Round) -> float | None:
    """What the events cost without a screen, over what they cost with one."""
    with_screen, without = one.streamed("screen", 500), one.streamed("no screen", 500)
    if with_screen is None or without is None or with_screen.cpu_us is None or without.cpu_us is None:
        return None
    return without.cpu_us / with_screen.cpu_us


def _recording(one: Round) -> float | None:
    return _ratio(one.load(ON, CLIENTS), one.load(OFF, CLIENTS))


def _longest_step(one: Round) -> float | None:
    return max((seen.worst_cpu_ms for seen in one.held()), default=None)


def _first_frame(one: Round) -> float | None:
    return None if (seen := one.started()) is None else seen.first_frame_s


def _answer(kind: str) -> Callable[[Round], float | None]:
    return lambda one: None if (seen := one.answered(kind)) is None else seen.p95_ms


def _seek(kind: str) -> Callable[[Round], float | None]:
    return lambda one: None if (seen := one.sought(kind)) is None else seen.worst_ms


def _index_share(one: Round) -> float | None:
    return None if (seen := one.indexed()) is None else seen.index_share


def _player_mb(one: Round) -> float | None:
    return None if (seen := one.indexed()) is None else max(seen.most_mb, seen.maker_mb)


_GOALS = (
    _Goal("CPU per request, 16 clients", "<=", 150.0, "us", _cpu_per_request(16), NO_CPU),
    _Goal("CPU per request, 128 clients", "<=", 150.0, "us", _cpu_per_request(128), NO_CPU),
    _Goal("added p50, 1 client", "<=", 0.25, "ms", _added),
    _Goal("requests/s over nginx's, 16 clients", ">=", 0.25, "", _of_nginx(16), NO_NGINX),
    _Goal("requests/s over nginx's, 128 clients", ">=", 0.25, "", _of_nginx(128), NO_NGINX),
    _Goal("requests/s, 128 clients over 16", ">=", 1.0, "", _held_up),
    _Goal("CPU per event, 100 streams", "<=", 25.0, "us", _cpu_per_event(100), NO_CPU),
    _Goal("CPU per event, 500 streams", "<=", 25.0, "us", _cpu_per_event(500), NO_CPU),
    _Goal("added p50 per event, 500 streams", "<=", 1.0, "ms", _added_per_event(lambda seen: seen.p50_ms)),
    _Goal("added p99 per event, 500 streams", "<=", 10.0, "ms", _added_per_event(lambda seen: seen.p99_ms)),
    _Goal(f"streams complete of {CROWD:,}", ">=", CROWD, "", _complete),
    _Goal("events lost", "=", 0.0, "", _lost),
    _Goal("events out of order", "=", 0.0, "", _reordered),
    _Goal("latest event, nobody reads the screen", "<=", 50.0, "ms", _latest_unread),
    _Goal("p50 beside a screen over without, 1 client", "<=", 1.3, "", _p50_beside),
    _Goal("added p99 beside a screen, 1 client", "<=", 10.0, "ms", _p99_beside),
    _Goal("requests/s beside a screen over without, 16", ">=", 0.85, "", _carried_beside(16)),
    _Goal("requests/s beside a screen over without, 128", ">=", 0.85, "", _carried_beside(128)),
    _Goal("events/CPU beside a screen over without, 500", ">=", 0.85, "", _streams_beside, NO_CPU),
    _Goal("requests/s with a journal over without, 16", ">=", 0.95, "", _recording),
    _Goal("screen's longest step, on a processor", "<=", 10.0, "ms", _longest_step, of_all=max),
    _Goal("first frame", "<=", 1.0, "s", _first_frame),
    _Goal("200 agents, 2,000 requests: scroll, p95", "<=", 50.0, "ms", _answer("scroll")),
    _Goal("200 agents, 2,000 requests: filter, p95", "<=", 50.0, "ms", _answer("filter")),
    _Goal("200 agents, 2,000 requests: sort, p95", "<=", 50.0, "ms", _answer("sort")),
    _Goal("large journal, first sight of a moment, worst", "<=", 200.0, "ms", _seek(FIRST)),
    _Goal("large journal, a moment while it is read, worst", "<=", 200.0, "ms", _seek(UNREAD)),
    _Goal("large journal, a moment by its index, worst", "<=", 200.0, "ms", _seek(INDEXED)),
    _Goal("index over its journal", "<=", 0.05, "", _index_share),
    _Goal("memory to play a large journal", "<=", 300.0, "MiB", _player_mb),
)
