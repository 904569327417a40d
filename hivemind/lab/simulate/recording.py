"""A recorded run as the simulator needs it: who asked for what, when after what, and what became of each attempt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures, Tally
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan, RequestBody, ResponseBody
from hivemind.lab.fit.provider import FittedProvider, fit_providers
from hivemind.lab.gc_pause import gc_paused
from hivemind.lab.simulate.steps import RequestStep
from hivemind.lab.simulate.trace import LaneTrace, Trace, TraceBuilder
from hivemind.providers.profiles import GENERIC, PROFILES, assumed_lane
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import Event, LevelChanged, Progress, Sampled
from hivemind.scheduler.operator.knobs import KNOBS, turned
from hivemind.scheduler.types import Price
from hivemind.text.humanise import plural

_UNUSED = frozenset({Sampled, Progress, LevelChanged, RequestBody, ResponseBody})
"""What a simulation finds out by itself, and what it doesn't look at."""


_FEW = 30
"""Answers, below which how long one takes is little more than a guess."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One journal, read and taken apart."""

    name: str
    began: JournalBegan
    figures: Figures
    """What was recorded, counted."""
    told: tuple[str, ...]
    """What is wrong with the journal, and what it can't show, a line each."""
    trace: Trace = field(repr=False)
    providers: Mapping[str, FittedProvider] = field(repr=False)
    """By lane."""
    lanes: Mapping[str, LaneConfig] = field(repr=False)
    """What each began with."""
    survives_errors: bool
    """Its agents went on after an error that they saw."""
    error_retry_delays_s: tuple[float, ...]
    """Its clients ask again so often for what they got an error for, so long after each."""
    client_timeout_s: Mapping[str, float]
    """By agent, after what time its clients give up, where that is always the same."""
    timeout_retry_delays_s: tuple[float, ...]
    """Then they ask again so often, so long after each time."""

    @property
    def wall_offset(self) -> float:
        """Added to a moment to have the time of day, in seconds since the epoch."""
        return self.began.wall - self.began.at


def load(path: Path, price: Price | None = None) -> Recording:
    """Read a journal and fit what is needed of it.

    Raises: UsageError: it can't be read, or no request is in it.
    """
    journal = open_journal(path)
    builder, tally = TraceBuilder(), Tally(price)
    with gc_paused():
        builder.take(_tally_each(journal.events(_UNUSED), tally))
        return _recording(path, builder, tally, journal.damage.told())


def load_all(paths: Sequence[Path], price: Price | None = None) -> tuple[Recording, ...]:
    """Raises: UsageError."""
    return tuple(load(path, price) for path in paths)


def _tally_each(events: Iterable[Event], tally: Tally) -> Iterator[Event]:
    for event in events:
        tally.apply(event)
        yield event


_OFTEN = 3
_SAME = 0.02
"""Of a time: what differs by no more is the same."""


def _recording(path: Path, builder: TraceBuilder, tally: Tally, told: Sequence[str]) -> Recording:
    trace = builder.trace()
    figures = tally.figures()
    if not trace.requests:
        raise UsageError(f"{path}: no request is in it, so there is nothing to simulate")
    offset = trace.began.wall - trace.began.at
    by_lane: dict[str, list[RequestStep]] = {}
    for request in trace.requests:
        by_lane.setdefault(request.arrived.lane, []).append(request)
    lanes = {key: trace.lanes.get(key) or LaneTrace(key, key.partition(":")[0], "generic", None) for key in by_lane}
    providers = fit_providers(lanes, by_lane, trace.began_at, trace.ends_at, offset)
    return Recording(
        name=trace.began.journal,
        began=_with_shared_knobs(trace.began, trace.lanes),
        figures=figures,
        told=(*told, *_caveats(providers)),
        trace=trace,
        providers=providers,
        lanes={key: lane.config or _assumed(lane) for key, lane in lanes.items()},
        survives_errors=_survives_errors(trace.requests),
        error_retry_delays_s=_repeated_s(trace.requests, left=False),
        client_timeout_s=_client_timeouts(trace.requests),
        timeout_retry_delays_s=_repeated_s(trace.requests, left=True),
    )


def _assumed(lane: LaneTrace) -> LaneConfig:
    """Of a lane that began before the journal did, or that a proxy of another make had: its knobs as they stood, and
    the rest as its provider's profile has it."""
    config = assumed_lane(lane.upstream, PROFILES.get(lane.provider, GENERIC))
    for name, value in lane.knobs.items():
        # A limit that headers had replaced reads as none, and would be taken for one that was switched off.
        if name in KNOBS and not KNOBS[name].shared and name not in ("rpm", "tpm") and math.isfinite(value):
            config = turned(config, name, value)
    return config


def _with_shared_knobs(began: JournalBegan, lanes: Mapping[str, LaneTrace]) -> JournalBegan:
    """With the knobs that all lanes share as they stood where the journal begins."""
    knobs = next((lane.knobs for lane in lanes.values() if lane.knobs), {})
    retry: dict[str, Any] = {
        name.partition(".")[2]: int(value) if KNOBS[name].whole else value
        for name, value in knobs.items()
        if name in KNOBS and KNOBS[name].shared and math.isfinite(value)
    }
    return replace(began, config=replace(began.config, retry=replace(began.config.retry, **retry))) if retry else began


def _survives_errors(requests: Sequence[RequestStep]) -> bool:
    """Whether agents that saw an error mostly asked for something else afterwards. Who asks for the same again is only
    a client that tries again."""
    died = went_on = 0
    for each in requests:
        if each.end in ("failed", "refused"):
            if any(isinstance(step, RequestStep) for _, step in each.after):
                went_on += 1
            else:
                died += 1
    return went_on > died


def _repeated_s(requests: Sequence[RequestStep], *, left: bool) -> tuple[float, ...]:
    pauses: list[float] = []
    most = 0
    for each in requests:
        if each.repeats is not None and (each.repeats.end == "left") == left:
            pauses.append(each.at - each.repeats.ended_at)
            most = max(most, each.repeated)
    return (median(pauses),) * most if pauses else ()


def _client_timeouts(requests: Sequence[RequestStep]) -> dict[str, float]:
    """Of agents whose clients left after the same time whenever they did, and never waited longer."""
    gone: dict[str, list[float]] = {}
    waited: dict[str, float] = {}
    for each in requests:
        duration_s = each.ended_at - each.at
        if each.end == "left":
            gone.setdefault(each.arrived.agent, []).append(duration_s)
        elif each.end != "open":
            waited[each.arrived.agent] = max(duration_s, waited.get(each.arrived.agent, 0.0))
    return {
        agent: median(times)
        for agent, times in gone.items()
        if len(times) >= _OFTEN
        and max(times) - min(times) <= _SAME * max(times)
        and waited.get(agent, 0.0) <= max(times)
    }


def _caveats(providers: Mapping[str, FittedProvider]) -> list[str]:
    """What the recording can't show, so that settings can't be judged by it."""
    lines = []
    for provider in providers.values():
        name = provider.lane.upstream
        if not provider.limits:
            lines.append(f"{name}: no rate limit was seen, so none is simulated")
        answers = len(provider.good)
        if answers < _FEW:
            only = f"only {plural(answers, 'answer')}" if answers else "no answer"
            lines.append(f"{name}: {only}, so little is known of how long they take")
    return [*dict.fromkeys(lines)]
