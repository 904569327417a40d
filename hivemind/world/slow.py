"""Why requests are slow: the time of the last ten minutes that they waited, by what kept them.

It is folded from the samples of the lanes' gauges, so that it costs nothing per request and a replay shows the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from hivemind.scheduler.events import Hold, LaneState
from hivemind.scheduler.types import WindowKind
from hivemind.text.humanise import share
from hivemind.world.gates import GATES, OPERATORS
from hivemind.world.health import Waits

SPAN_S = 600.0
_STEP_S = 10.0
_RECENT_STEPS = 6
_FROM, _TO = 0.3, 0.15
"""From which share of their time in the last minute on requests are slowed, and below which they aren't any more."""
_LEAST_S = 30.0
"""Fewer seconds of waiting in that minute, of all requests together, slow nobody."""
_TOLD, _LEAST_TOLD = 3, 0.01
_CUTS = {
    "rate_limited": "429s",
    "overloaded": "529s",
    "server_error": "errors",
    "connect": "failed connections",
    "disconnected": "lost connections",
    "timeout": "timeouts",
    "truncated": "truncated answers",
    "circuit": "the circuit",
}
RPM, TPM = "requests a minute (assumed by HiveMind)", "tokens a minute (assumed by HiveMind)"
MAX_CONCURRENCY, PINNED = "max concurrency (HiveMind's own limit)", "the fixed level"
ASSUMED = {RPM: "rpm", TPM: "tpm", MAX_CONCURRENCY: "max_concurrency"}
"""Causes that no provider has stated, and the knob that sets each."""
_BY_DECISION = frozenset(GATES[name].kept or GATES[name].word for name in OPERATORS)
"""Causes that slow nobody down, since an operator decided on them."""


class WaitStep(Struct):
    """What was counted in one step."""

    number: int
    """Counted from the clock's zero."""
    open_s: float = 0.0
    """Time in which requests were open, over all of them."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of it the time in which they waited, by cause."""


class SlowState(Struct):
    """The fold as the next part of a journal begins with it."""

    steps: list[WaitStep] = field(default_factory=list)
    cuts: dict[str, str] = field(default_factory=dict)
    """By lane, what cut its level last."""
    slowed: bool = False


class SlowFold:
    """Counts what keeps requests; its methods are to be called in the order of time."""

    def __init__(self) -> None:
        self._state = SlowState()
        self._at = 0.0
        self._open = 0
        self._kept: dict[str, float] = {}

    def state(self) -> SlowState:
        """Return a copy of it."""
        state = self._state
        steps = [WaitStep(step.number, step.open_s, dict(step.seconds)) for step in state.steps]
        return SlowState(steps, dict(state.cuts), state.slowed)

    def restore(self, state: SlowState, at: float, lanes: Iterable[LaneState]) -> None:
        """Take over a state, and the lanes as they were sampled then."""
        self._state, self._at = state, at
        self._state = self.state()
        self._look(lanes)

    def level_changed(self, lane: str, cause: str) -> None:
        """Note what cut a level."""
        if cause in _CUTS or cause == "latency":
            self._state.cuts[lane] = _CUTS.get(cause, cause)

    def sampled(self, at: float, lanes: Iterable[LaneState]) -> None:
        """Count the time since the last sample by what that one showed."""
        state, number, passed_s = self._state, int(at / _STEP_S), min(at - self._at, SPAN_S)
        if self._open and passed_s > 0:
            if not state.steps or state.steps[-1].number < number:
                state.steps.append(WaitStep(number))
            step = state.steps[-1]
            step.open_s += self._open * passed_s
            for cause, waiting in self._kept.items():
                step.seconds[cause] = step.seconds.get(cause, 0.0) + waiting * passed_s
        state.steps = [step for step in state.steps if step.number > number - SPAN_S / _STEP_S]
        self._at = at
        self._look(lanes)
        recent = [step for step in state.steps if step.number >= number - _RECENT_STEPS]
        open_s = sum(step.open_s for step in recent)
        kept_s = sum(map(_kept_s, (step.seconds for step in recent)))
        state.slowed = kept_s >= _LEAST_S and kept_s >= (_TO if state.slowed else _FROM) * open_s

    def view(self) -> Waits:
        """Return what the last ten minutes were."""
        seconds: Counter[str] = Counter()
        for step in self._state.steps:
            seconds.update(step.seconds)
        return Waits(dict(seconds), sum(step.open_s for step in self._state.steps), self._state.slowed)

    def _look(self, lanes: Iterable[LaneState]) -> None:
        self._open, self._kept = 0, {}
        for lane in lanes:
            waiting = lane.waiting + lane.retrying
            self._open += lane.active + waiting
            for hold in lane.upcoming:  # what isn't listed waits for the same
                cause = self._cause(lane, hold)
                self._kept[cause] = self._kept.get(cause, 0.0) + waiting / len(lane.upcoming)

    def _cause(self, lane: LaneState, hold: Hold) -> str:
        if hold.gate == "slot":
            if lane.pinned:
                return PINNED
            if lane.level >= lane.ceiling:
                return MAX_CONCURRENCY
            cut = self._state.cuts.get(lane.lane)
            return f"level cut by {cut}" if cut else "level that still grows"
        if hold.gate in ("requests", "tokens"):
            of = [each for each in lane.windows if (each.kind is WindowKind.REQUESTS) is (hold.gate == "requests")]
            stated = any(each.source != "assumed" for each in of)
            return f"{hold.gate} a minute" if stated or not of else RPM if hold.gate == "requests" else TPM
        gate = GATES.get(hold.gate)
        return hold.gate if gate is None else gate.kept or gate.word  # a later version's gates are told by their names


def merged_waits(parts: Iterable[Waits]) -> Waits:
    """Return those of several proxies as one."""
    known = list(parts)
    seconds: Counter[str] = Counter()
    for each in known:
        seconds.update(each.seconds)
    return Waits(dict(seconds), sum(each.open_s for each in known), any(each.slowed for each in known))


def causes(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return each cause that is worth a word with its share of the waits, the largest first."""
    total_s = sum(seconds.values())
    found = sorted(((cause, each / total_s) for cause, each in seconds.items() if total_s), key=lambda each: -each[1])
    return [(cause, part) for cause, part in found[:_TOLD] if part >= _LEAST_TOLD]


def waited(waits: Waits) -> float:
    """Return the share of their time that requests waited, but for an operator's decisions, if that is considerable,
    else 0."""
    kept_s = _kept_s(waits.seconds)
    return kept_s / waits.open_s if waits.slowed or kept_s >= max(_LEAST_S, _TO * waits.open_s) else 0.0


def _kept_s(seconds: Mapping[str, float]) -> float:
    return sum(each for cause, each in seconds.items() if cause not in _BY_DECISION)


def why_slow(waits: Waits) -> str:
    """Return `waits: 75 % level cut by 529s, 10 % requests a minute, 9 % circuit`; empty: nothing waited."""
    told = ", ".join(f"{share(part)} {cause}" for cause, part in causes(waits.seconds))
    return f"waits: {told}" if told else ""
