"""The last hours of a journal: curves in columns of equal length, and what was spent by agent, model and tree.

A day has millions of lines. Only those of some kinds are decoded, the frequent ones into the fields that count, and
each part of the journal is read by itself, on all cores, since it begins with the state that it needs. The world isn't
folded, so what needs more than these lines isn't known here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from hivemind.errors import UsageError
from hivemind.gc_pause import gc_paused
from hivemind.journal.codec import begin_of, begins_of, event_if_any
from hivemind.journal.export.requests import csv_line, safe_cell
from hivemind.journal.files import parts_from, parts_in
from hivemind.journal.read.reader import beginning, open_journal, readable
from hivemind.journal.records import Gap, JournalBegan
from hivemind.processes import on_cores
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Usage
from hivemind.world.lanes import cut_of, marks_of
from hivemind.world.lines import SHOWN_BY_EVENTS, line_of
from hivemind.world.snapshot import CurvePoint, Line
from hivemind.world.state import Carried

SPANS: Mapping[str, float | None] = {
    "10 min": 600.0,
    "1 h": 3600.0,
    "8 h": 28_800.0,
    "24 h": 86_400.0,
    "today": None,
    "since start": math.inf,
}
"""What can be looked back at, by name, in seconds; None: since midnight, infinite: the whole journal."""
GROUPS = ("agent", "model", "tree")
"""What costs are summed by; a tree is an agent that no other started, with all that it and those started."""
_COLUMNS = 240
"""Most columns of a span."""
_STEPS_S = (2.5, 5.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0, 1800.0, 3600.0, 10_800.0, 43_200.0, 86_400.0)
_ROWS = 300
"""Agents, models or trees that are listed; the others are summed up."""
_LANES = 12
_LINES = 500
PRICE_BOUNDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Input tokens of a request from which on some model has another price: those between two are priced together."""
_BUFFER = 1 << 20
_KIND_AT = begin_of(ev.Arrived).index(b"Arrived")
_KIND_END = _KIND_AT + 4
"""Where the beginning of a kind's name ends, which tells the frequent kinds apart."""
_ANY = (event_if_any, None)
"""What decodes the lines of any kind."""


class TokenSpending(Struct):
    """Tokens and their cost."""

    tokens: int = 0
    input: int = 0
    cached: int = 0
    """Input tokens read from a cache."""
    output: int = 0
    wasted: int = 0
    """Tokens of failed and abandoned attempts."""
    unpriced: int = 0
    """Tokens of unknown price."""
    estimated: int = 0
    """Tokens that the provider didn't state."""
    dollars: float = 0.0
    lost: float = 0.0
    """Dollars for prompts that weren't read from a cache because they had expired, or were in another's."""
    saved: float = 0.0
    """Dollars not spent thanks to the order of requests."""

    def use(self, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """Add the usage of an attempt."""
        total = usage.total
        self.tokens += total
        self.input += usage.total_input
        self.cached += usage.cache_read_tokens
        self.output += usage.output_tokens
        self.wasted += total if wasted else 0
        self.unpriced += total if dollars is None else 0
        self.estimated += usage.estimated_tokens
        self.dollars += dollars or 0.0

    def add(self, other: TokenSpending) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Cost(Struct):
    """What an agent, a model or a tree has used."""

    name: str = ""
    """Empty: of all that aren't listed."""
    requests: int = 0
    """That ended."""
    spent: TokenSpending = field(default_factory=TokenSpending)

    def add(self, other: Cost) -> None:
        self.requests += other.requests
        self.spent.add(other.spent)


class Past(msgspec.Struct, frozen=True, tag=True):
    """A span of a journal. Moments are on the journal's own clock."""

    span: str
    """One of :data:`SPANS`."""
    since: float
    """The beginning of the first column; the journal may begin later."""
    until: float
    begins_at: float
    """When the journal begins, or what is left of it."""
    step_s: float
    """Length of a column."""
    series: Mapping[str, tuple[float | None, ...]]
    """As :attr:`~hivemind.world.health.Vitals.series`, a value a column, oldest first; and `waiting` requests."""
    curves: Mapping[str, tuple[CurvePoint, ...]]
    """By lane."""
    costs: Mapping[str, tuple[Cost, ...]]
    """By each of :data:`GROUPS`, the dearest first."""
    lines: tuple[Line, ...]
    """The operators' changes and the alerts, oldest first."""
    lost: int
    """Events that are missing."""


def since_of(span: str, until: float, wall_offset_s: float) -> float:
    """Return when a span begins that ends at this moment. `wall_offset_s` is what to add for the time of day."""
    length_s = SPANS[span]
    if length_s is not None:
        return until - length_s
    day = datetime.fromtimestamp(until + wall_offset_s)
    return day.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() - wall_offset_s


# --- One part of a journal --------------------------------------------------------------------------------------------


class _Lane(msgspec.Struct, gc=False):
    lane: str
    upstream: str
    provider: str
    active: int
    waiting: int
    level: float | None = None
    mean_ttft_s: float | None = None


class _Sampled(msgspec.Struct, gc=False):
    at: float
    lanes: tuple[_Lane, ...]


class _Gauges(Struct):
    """A lane in one column."""

    low: float
    high: float
    active: int
    waiting: int
    ttft_s: float | None
    mark: str = ""
    cut: tuple[float, float] | None = None


Used = tuple[str, str, str, str, bool, int]
"""Agent, model, lane, tier of service, whether it is wasted, and the place of the length in :data:`PRICE_BOUNDS`."""


class _Column(Struct):
    ended: int = 0
    attempts: int = 0
    failed: int = 0
    tokens: int = 0
    lanes: dict[str, _Gauges] = field(default_factory=dict)
    used: dict[Used, list[int]] = field(default_factory=dict)
    """Parts of the usage as :class:`Usage` has them, then how many usages these are and how many requests ended; what
    isn't priced yet."""
    spent: dict[tuple[str, str], Cost] = field(default_factory=dict)
    """By agent and model."""
    cached: list[ev.PromptCached] = field(default_factory=list)
    """What isn't priced yet."""
    lines: list[Line] = field(default_factory=list)
    lost: int = 0


class PartFold:
    """One part of a journal in columns, from its beginning to some moment of it."""

    def __init__(self, path: Path, step_s: float, ahead_s: float = 0.0) -> None:
        """`ahead_s` is what to add to its moments for those of the columns."""
        self.path = path
        self._ahead_s = ahead_s
        self.at = -math.inf
        """The latest moment that it was asked for."""
        self.columns: dict[int, _Column] = {}
        """By number: the moment at which it begins, in lengths of a column."""
        self.parents: dict[str, str] = {}
        """By agent, who started it."""
        self.offset = 0
        self._step_s = step_s
        self._wall_offset_s = 0.0
        self._models: dict[int, str] = {}
        """By ticket, of open requests."""
        self._lanes: dict[str, _Lane] = {}
        self._providers: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        """By lane, of the present column."""
        self._number = -1
        self._column = _Column()

    def read(self, until: float, price: Price, *, growing: bool) -> PartFold:
        """Go on to this moment, and return itself. `growing`: the last line may not be whole yet. Raises: OSError."""
        others = {kind: getattr(self, name) for kind, name in _TAKES.items()}
        takes: dict[bytes, tuple[Callable[[bytes], Any], Callable[[Any], None] | None]] = {
            begin_of(kind)[_KIND_AT:_KIND_END]: _ANY for kind in _TAKES
        }
        takes |= {begin: (decode, getattr(self, name)) for begin, (decode, name) in _FREQUENT.items()}
        step_s, ahead_s, number = self._step_s, self._ahead_s, self._number
        with self.path.open("rb", buffering=_BUFFER) as file, gc_paused():
            # Of an earlier version every line has to be translated.
            plain = file.readline().startswith(_HEADS)
            file.seek(self.offset)
            line = b""
            for line in file:
                kind = takes.get(line[_KIND_AT:_KIND_END]) if plain else _ANY
                if kind is None:
                    continue
                if growing and not line.endswith(b"\n"):
                    break
                decode, take = kind
                try:
                    event: Any = decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue  # damage, which the commands that read all of it tell of
                if take is None:
                    take = others.get(type(event))
                    if take is None:
                        continue
                at = event.at + ahead_s
                if at > until:
                    break
                if int(at // step_s) != number:
                    number = int(at // step_s)
                    self._number, self._column = number, self.columns.setdefault(number, _Column())
                take(event)
            else:
                line = b""
            self.offset = file.tell() - len(line)
        self.at = until
        for column in self.columns.values():
            if column.used or column.cached:
                self._priced(column, price)
        return self

    def _priced(self, column: _Column, price: Price) -> None:
        for cached in column.cached:
            sums = column.spent.setdefault((cached.agent, cached.model), Cost()).spent
            dollars = cached.dollars(self._providers.get(cached.lane, ""), price)
            sums.saved += dollars if cached.why == "order" else 0.0
            sums.lost += 0.0 if cached.why == "order" else dollars
        column.cached = []
        for (agent, model, lane, tier, wasted, _), counts in column.used.items():
            plain, read, write, output, hour, estimated, count, ended = counts
            spent = column.spent.setdefault((agent, model), Cost())
            spent.requests += ended
            if count:
                usage = Usage(plain, read, write, output, hour, estimated, tier, count)
                spent.spent.use(usage, price(self._providers.get(lane, ""), model, usage), wasted)
        column.used = {}

    # --- Events ------------------------------------------------------------------------------------------------------

    def _began(self, event: Any) -> None:
        self._wall_offset_s = event.wall - event.at

    def _carried(self, event: Any) -> None:
        state = event.state
        self._providers.update(state.providers)
        self._models = {each.arrived.ticket: each.arrived.model for each in state.tickets}
        self.parents.update({each.name: each.parent for each in state.agents if each.parent})
        self._lanes = {}
        for lane in state.lanes:
            self._gauge(lane)

    def _opened(self, event: Any) -> None:
        self._providers[event.lane] = event.provider

    def _arrived(self, event: Any) -> None:
        self._models[event.ticket] = event.model
        if event.parent:
            self.parents[event.agent] = event.parent

    def _started(self, event: Any) -> None:
        if event.parent:
            self.parents[event.agent] = event.parent

    def _finished(self, event: Any) -> None:
        self._models.pop(event.ticket, None)
        one = event.attempts > 0
        self._column.attempts += one
        self._use(event, event.model, ended=one, wasted=False)

    def _failed(self, event: Any) -> None:
        self._column.attempts += 1
        self._column.failed += 1
        over = event.retry_in_s is None
        model = self._models.pop(event.ticket, "") if over else self._models.get(event.ticket, "")
        self._use(event, model, ended=over, wasted=True)

    def _left(self, event: Any) -> None:
        self._use(event, self._models.pop(event.ticket, ""), ended=True, wasted=True)

    def _refused(self, event: Any) -> None:
        self._column.ended += 1
        if event.ticket is not None:
            self._models.pop(event.ticket, None)

    def _use(self, event: Any, model: str, *, ended: bool, wasted: bool) -> None:
        column, usage = self._column, event.usage
        column.ended += ended
        if usage is None:
            key: Used = (event.agent, model, event.lane, "", wasted, 0)
            plain = read = write = output = hour = estimated = 0
        else:
            plain, read, write = usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens
            output, hour, estimated = usage.output_tokens, usage.cache_write_1h_tokens, usage.estimated_tokens
            size = bisect_left(PRICE_BOUNDS, plain + read + write)
            key = (event.agent, model, event.lane, usage.tier, wasted, size)
            column.tokens += plain + read + write + output
        sums = column.used.get(key)
        if sums is None:
            sums = column.used[key] = [0] * 8
        sums[0] += plain
        sums[1] += read
        sums[2] += write
        sums[3] += output
        sums[4] += hour
        sums[5] += estimated
        sums[6] += usage is not None
        sums[7] += ended

    def _prompt_cached(self, event: Any) -> None:
        self._column.cached.append(event)

    def _sampled(self, event: Any) -> None:
        for lane in event.lanes:
            self._gauge(lane)

    def _gauge(self, lane: Any) -> None:
        self._lanes[lane.lane] = lane
        self._providers.setdefault(lane.lane, lane.provider)
        level = lane.active if lane.level is None or math.isinf(lane.level) else lane.level
        found = self._column.lanes.get(lane.lane)
        if found is None:
            self._column.lanes[lane.lane] = _Gauges(level, level, lane.active, lane.waiting, lane.mean_ttft_s)
            return
        found.low, found.high = min(found.low, level), max(found.high, level)
        found.active, found.waiting = max(found.active, lane.active), max(found.waiting, lane.waiting)
        found.ttft_s = lane.mean_ttft_s if found.ttft_s is None else max(found.ttft_s, lane.mean_ttft_s or 0.0)

    def _level_changed(self, event: Any) -> None:
        lane, gauges = self._lanes.get(event.lane), self._gauges(event.lane)
        if lane is None or gauges is None or math.isinf(event.level):
            return
        before, lane.level = lane.level, event.level
        gauges.low, gauges.high = min(gauges.low, event.level), max(gauges.high, event.level)
        if event.cause not in ev.NO_CUTS and "=" not in gauges.mark:
            gauges.mark, gauges.cut = event.cause, cut_of(gauges.cut, before, event.level)

    def _gauges(self, name: str) -> _Gauges | None:
        """Return a lane's gauges in the present column; None for one that isn't known."""
        if name not in self._column.lanes and name in self._lanes:
            self._gauge(self._lanes[name])
        return self._column.lanes.get(name)

    def _commanded(self, event: Any) -> None:
        for lane, mark in marks_of(event, {name: each.upstream for name, each in self._lanes.items()}).items():
            if (gauges := self._gauges(lane)) is not None:
                gauges.mark, gauges.cut = mark, None
        if event.name not in SHOWN_BY_EVENTS:
            self._told(event)

    def _told(self, event: Any) -> None:
        line = line_of(event, event.at + self._wall_offset_s)
        if line is not None:
            self._column.lines.append(replace(line, at=line.at + self._ahead_s))

    def _gap(self, event: Any) -> None:
        self._column.lost += event.lost


_HEADS = tuple(begin[:_KIND_AT] for begin in begins_of(ev.Arrived)[:2])
_FREQUENT: Mapping[bytes, tuple[Callable[[bytes], Any], str]] = {
    b"Arri": (msgspec.json.Decoder(ev.Arrived).decode, "_arrived"),
    b"Fini": (msgspec.json.Decoder(ev.Finished).decode, "_finished"),
    b"Samp": (msgspec.json.Decoder(_Sampled).decode, "_sampled"),
}
"""By the beginning of a kind's name, what decodes its lines, and the method that takes the event."""
_TAKES: Mapping[type[ev.Event], str] = {
    JournalBegan: "_began",
    Carried: "_carried",
    Gap: "_gap",
    ev.LaneOpened: "_opened",
    ev.Arrived: "_arrived",
    ev.AgentBegan: "_started",
    ev.AgentRecalled: "_started",
    ev.Finished: "_finished",
    ev.AttemptFailed: "_failed",
    ev.Abandoned: "_left",
    ev.Refused: "_refused",
    ev.PromptCached: "_prompt_cached",
    ev.Sampled: "_sampled",
    ev.LevelChanged: "_level_changed",
    ev.Commanded: "_commanded",
    ev.AlertRaised: "_told",
    ev.AlertOver: "_told",
}
"""The method that takes each kind of event that counts."""


# --- The whole of it --------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A part of the journal, or of one that the same proxy wrote before its last start."""

    path: Path
    begins_at: float
    """On the clock of the journal that is read."""
    ahead_s: float = 0.0
    """What to add to its own moments for that clock."""


class PastReader:
    """Reads spans of one journal; what was read stays, so that later only what is new has to be."""

    def __init__(self, path: Path, price: Callable[[float], Price], *, earlier: bool = False) -> None:
        """By the path of the first part. `price` returns the prices of a time of day. `earlier`: a span that is longer
        than the journal goes on in those that a proxy of the same address wrote before, beside it.

        Raises: UsageError: it can't be read.
        """
        self._journal = open_journal(path)
        self._earlier = earlier
        self._price = price(self._journal.began.wall)
        self._folds: dict[tuple[Path, float], PartFold] = {}
        """By part and length of a column."""
        self._began: dict[Path, JournalBegan | None] = {}
        """How each file begins; None: it can't be read."""

    @property
    def wall_offset_s(self) -> float:
        """What to add to a moment for the time of day."""
        return self._journal.began.wall - self._journal.began.at

    def read(self, span: str, until: float, done: Callable[[float], object] = lambda _: None) -> Past:
        """Return one of :data:`SPANS` up to a moment; `done` is told the share that was read.

        Raises: UsageError: it can't be read any more.
        """
        since = since_of(span, until, self.wall_offset_s)
        parts = self._parts(since)
        begins_at = parts[0].begins_at
        from_s = max(begins_at, since)
        step_s = next((step for step in _STEPS_S if (until - from_s) / step <= _COLUMNS), _STEPS_S[-1])
        first = math.floor(from_s / step_s)
        later = [part.begins_at for part in parts[1:]] + [math.inf]
        wanted = [
            part
            for part, ends in zip(parts, later, strict=True)
            if ends > first * step_s and (part.begins_at <= until or part == parts[0])
        ]
        folds = self._folded(wanted, step_s, until, done)
        return _past(span, first, step_s, until, begins_at, folds)

    def _parts(self, since: float) -> Sequence[_Part]:
        journal = self._journal
        paths = [path for path in parts_from(journal.path, journal.began) if path.exists()]
        parts = [_Part(path, began.at) for path in paths if (began := self._beginning(path)) is not None]
        if not parts:
            raise UsageError(f"{journal.path}: no such file any more")
        if self._earlier and -math.inf < since < parts[0].begins_at:
            parts = [*self._before(since, parts[0].begins_at), *parts]
        return parts

    def _before(self, since: float, until: float) -> Sequence[_Part]:
        """Return the parts of earlier journals that go on after one moment, and begin before another."""
        own, found = self._journal.began, list[_Part]()
        for name, files in parts_in(self._journal.path.parent).items():
            for path in files.values() if name != own.journal else ():
                began = self._beginning(path)
                if began is not None and (began.address, began.source) == (own.address, own.source):
                    at = began.wall - self.wall_offset_s
                    found.append(_Part(path, at, at - began.at))
        found = sorted((part for part in found if part.begins_at < until), key=lambda part: part.begins_at)
        return [
            part for number, part in enumerate(found) if [*found, _Part(Path(), until)][number + 1].begins_at > since
        ]

    def _beginning(self, path: Path) -> JournalBegan | None:
        if path not in self._began:
            try:
                self._began[path] = beginning(path)[0]
            except UsageError:
                self._began[path] = None
        return self._began[path]

    def _folded(
        self, parts: Sequence[_Part], step_s: float, until: float, done: Callable[[float], object]
    ) -> Sequence[PartFold]:
        folds = []
        for part in parts:
            fold = self._folds.get((part.path, step_s))
            # What was read can't be taken back; a part that has ended has nothing more.
            folds.append(fold if fold is not None and fold.at <= until else PartFold(part.path, step_s, part.ahead_s))
        with readable(self._journal.path, " any more"):
            due = [fold for fold in folds if fold.offset < fold.path.stat().st_size]
            work = partial(_read_on, until=until, price=self._price, last=parts[-1].path)
            read = on_cores(work, due, lambda number, of: done(number / of))
        found = {fold.path: fold for fold in (*folds, *read)}
        self._folds = {key: fold for key, fold in self._folds.items() if key[1] != step_s}
        self._folds |= {(path, step_s): fold for path, fold in found.items()}
        return [*found.values()]


def _read_on(fold: PartFold, until: float, price: Price, last: Path) -> PartFold:
    return fold.read(until, price, growing=fold.path == last)


def _past(span: str, first: int, step_s: float, until: float, begins_at: float, folds: Sequence[PartFold]) -> Past:
    end = math.floor(until / step_s)
    numbers = range(first, end + 1)
    columns: list[list[_Column]] = [[] for _ in numbers]
    for fold in folds:
        for number, column in fold.columns.items():
            if first <= number <= end:
                columns[number - first].append(column)
    parents = {agent: parent for fold in folds for agent, parent in fold.parents.items()}
    curves = _curves(columns, first, step_s, until)
    every = list(chain.from_iterable(columns))
    return Past(
        span=span,
        since=first * step_s,
        until=until,
        begins_at=begins_at,
        step_s=step_s,
        series=_series(columns, max(0.001, until - end * step_s), step_s),
        curves=curves,
        costs=_costs(every, parents),
        lines=tuple([line for column in every for line in column.lines][-_LINES:]),
        lost=sum(column.lost for column in every),
    )


def _series(
    columns: Sequence[Sequence[_Column]], last_s: float, step_s: float
) -> Mapping[str, tuple[float | None, ...]]:
    found: dict[str, list[float | None]] = {
        name: [] for name in ("requests_per_s", "tokens_per_min", "error_share", "dollars_per_hour", "waiting")
    }
    waiting: dict[str, int] = {}
    for place, parts in enumerate(columns):
        # What has just begun is no rate yet.
        for_s = step_s if place < len(columns) - 1 else max(last_s, step_s / 2)
        attempts = sum(part.attempts for part in parts)
        dollars = sum(cost.spent.dollars for part in parts for cost in part.spent.values())
        now = {lane: gauges.waiting for part in parts for lane, gauges in part.lanes.items()}
        waiting |= now
        found["requests_per_s"].append(sum(part.ended for part in parts) / for_s)
        found["tokens_per_min"].append(sum(part.tokens for part in parts) * 60 / for_s)
        found["error_share"].append(sum(part.failed for part in parts) / attempts if attempts else None)
        found["dollars_per_hour"].append(dollars * 3600 / for_s)
        found["waiting"].append(float(sum(waiting.values())))
    return {name: tuple(values) for name, values in found.items()}


def _curves(
    columns: Sequence[Sequence[_Column]], first: int, step_s: float, until: float
) -> Mapping[str, tuple[CurvePoint, ...]]:
    busy: dict[str, int] = {}
    for lane, gauges in ((lane, each) for parts in columns for part in parts for lane, each in part.lanes.items()):
        busy[lane] = busy.get(lane, 0) + gauges.active
    found: dict[str, list[CurvePoint]] = {lane: [] for lane in sorted(busy, key=lambda lane: -busy[lane])[:_LANES]}
    for place, parts in enumerate(columns):
        begins = (first + place) * step_s
        middle, ends = min(begins + step_s / 2, until), min(begins + step_s, until)
        for lane, points in found.items():
            each = [part.lanes[lane] for part in parts if lane in part.lanes]
            for gauges in each:
                facts = gauges.active, gauges.waiting, gauges.ttft_s
                points.append(CurvePoint(middle, gauges.high, *facts, ""))
                points.append(CurvePoint(ends, gauges.low, *facts, gauges.mark, gauges.cut))
            if not each and points:  # nothing was sampled, because nothing changed
                last = points[-1]
                points.append(CurvePoint(ends, last.level, last.active, last.waiting, last.ttft_s, ""))
    return {lane: tuple(points) for lane, points in found.items()}


def _costs(columns: Sequence[_Column], parents: Mapping[str, str]) -> Mapping[str, tuple[Cost, ...]]:
    pairs: dict[tuple[str, str], Cost] = {}
    for column in columns:
        for key, spent in column.spent.items():
            found = pairs.get(key)
            if found is None:
                found = pairs[key] = Cost()
            found.add(spent)
    names: Mapping[str, Callable[[str, str], str]] = {
        "agent": lambda agent, _: agent,
        "model": lambda _, model: model or "(none named)",
        "tree": lambda agent, _: _root(agent, parents),
    }
    return {group: _sums(pairs, names[group]) for group in GROUPS}


def _sums(pairs: Mapping[tuple[str, str], Cost], name_of: Callable[[str, str], str]) -> tuple[Cost, ...]:
    sums: dict[str, Cost] = {}
    for key, spent in pairs.items():
        name = name_of(*key)
        sums.setdefault(name, Cost(name=name)).add(spent)
    rows = sorted(sums.values(), key=lambda each: (-each.spent.dollars, -each.spent.tokens, each.name))
    if len(rows) <= _ROWS:
        return tuple(rows)
    others = Cost()
    for each in rows[_ROWS:]:
        others.add(each)
    return (*rows[:_ROWS], others)


def _root(agent: str, parents: Mapping[str, str]) -> str:
    """Return the first of an agent's ancestors; in a ring, which only wrong claims make, the first by name."""
    chain_of = [agent]
    while (parent := parents.get(chain_of[-1])) is not None:
        if parent in chain_of:
            return min(chain_of[chain_of.index(parent) :])
        chain_of.append(parent)
    return chain_of[-1]


_TOKEN_COLUMNS = ("input", "cached", "output", "wasted", "estimated", "unpriced")


def csv_of(costs: Sequence[Cost], by: str) -> str:
    """Return costs as CSV, titles first; dollars are empty where no price is known, and too few beside `unpriced`."""
    titles = (by, "requests", *(f"{name}_tokens" for name in _TOKEN_COLUMNS), "dollars")
    rows = [
        (
            safe_cell(cost.name or "all others"),
            str(cost.requests),
            *(str(getattr(cost.spent, name)) for name in _TOKEN_COLUMNS),
            "" if cost.spent.unpriced and not cost.spent.dollars else f"{cost.spent.dollars:.6f}",
        )
        for cost in costs
    ]
    return b"".join(map(csv_line, [titles, *rows])).decode()
