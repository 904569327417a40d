"""How knobs are shown and turned: labels, meanings, and the step of a key press."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS, check_range
from hivemind.text.humanise import parse_number


class Dial(Struct, frozen=True):
    """How one knob of :data:`~hivemind.scheduler.operator.knobs.KNOBS` is shown and turned."""

    label: str
    symbol: str
    """The paper's name; empty where it has none."""
    meaning: str
    step: float
    """One press; ten times this is a large step. A ratio where `by_ratio`."""
    unit: str = ""
    by_ratio: bool = False
    """A press is a share of the value rather than a fixed amount."""


DIALS: Mapping[str, Dial] = {
    "max_concurrency": Dial("max concurrency", "C_max", "most requests in flight", 1),
    "aimd.latency_target_s": Dial("latency target", "L_target", "a slower first token cuts the level", 0.5, "s"),
    "aimd.floor": Dial("min concurrency", "C_min", "the level never goes below", 1),
    "aimd.alpha": Dial("increase", "alpha", "added to the level each step", 0.1),
    "aimd.beta": Dial("decrease", "beta", "factor of the level on congestion", 0.05),
    "circuit.threshold": Dial("error threshold", "tau", "error rate that opens the circuit", 0.05),
    "circuit.window": Dial("window", "N", "results that the error rate covers", 1),
    "circuit.cooldown_s": Dial("cooldown", "T_cool", "from opening to the probe", 1, "s"),
    "rpm": Dial("RPM", "", "requests a minute", 0.1, by_ratio=True),
    "tpm": Dial("TPM", "", "tokens a minute", 0.1, by_ratio=True),
    "retry.max_attempts": Dial("attempts", "", "per request, the first included", 1),
    "retry.base_s": Dial("base delay", "d_base", "before a retry; doubles each time", 0.1, "s"),
    "retry.max_s": Dial("max delay", "d_max", "longest backoff", 5, "s"),
    "retry.deadline_s": Dial("deadline", "", "from arrival; no attempt starts later", 30, "s"),
    "retry.budget_ratio": Dial("retry budget", "", "retries earned by each request", 0.05),
}
"""In the order of the page."""

NAMES = tuple(DIALS)
GROUPS = (
    ("Concurrency", ("max_concurrency", "aimd.latency_target_s", "aimd.floor", "aimd.alpha", "aimd.beta")),
    ("Circuit breaker", ("circuit.threshold", "circuit.window", "circuit.cooldown_s")),
    ("Own rate limits", ("rpm", "tpm")),
    ("Retry, every upstream", tuple(name for name in NAMES if name.startswith("retry."))),
)
"""The groups of the tuning page."""
_LARGE = 10
_LEAP_RATIO = 5


def stepped(name: str, value: float, steps: int) -> float:
    """Return the value one press (1, -1) or a large step (beyond that) away. Raises: Rejected: the range ends."""
    knob, dial = KNOBS[name], DIALS[name]
    if knob.zero_is_none and not value:
        raise Rejected(f"{name} has no limit to step from; type one (enter)")
    large, way = abs(steps) > 1, 1 if steps > 0 else -1
    if dial.by_ratio:
        wanted = _by_share(value, way, dial.step * (_LEAP_RATIO if large else 1))
    else:
        step = dial.step * (_LARGE if large else 1)
        wanted = _round(value + way * step, dial.step)
        if (wanted - value) * way <= 0:
            wanted = value + way * step
    wanted = min(knob.highest, max(knob.lowest, wanted))
    if knob.whole:
        wanted = round(wanted)
    if wanted == value:
        raise Rejected(f"{name} goes from {number(knob.lowest)} to {number(knob.highest)}")
    return wanted


def _by_share(value: float, way: int, share: float) -> float:
    wanted = value * (1 + share) if way > 0 else value / (1 + share)
    wanted = _round(wanted, max(1.0, 10.0 ** (math.floor(math.log10(max(value, 1.0))) - 1)))
    return wanted if wanted != value else value + way


def _round(value: float, step: float) -> float:
    # Without the noise of binary fractions.
    return round(round(value / step) * step, 6)


def typed(name: str, text: str) -> float:
    """Return the number typed for a knob: `1,000`, `0.7`, `0,7`, `400k`; `none` for no limit.

    Raises: Rejected: it is no number, or out of the knob's range.
    """
    text = text.strip()
    if KNOBS[name].zero_is_none and text.lower() in ("none", "no", "off"):
        return 0.0
    try:
        value = parse_number(text.removesuffix(DIALS[name].unit or "\0"))
    except ValueError:
        raise Rejected(f"{text!r} is no number; {name} goes from {reach(name)}") from None
    check_range(KNOBS[name], value)
    return value


def number(value: float) -> str:
    """Return a knob's value with no more digits than it has."""
    return f"{value:,.0f}" if value >= 10_000 and value == int(value) else f"{value:.6g}"


def reach(name: str, gap: str = ", ") -> str:
    """Return a knob's range in words."""
    knob, unit = KNOBS[name], DIALS[name].unit
    span = f"{number(knob.lowest)} to {number(knob.highest)}{f' {unit}' if unit else ''}"
    return span + (f"{gap}0: no limit" if knob.zero_is_none else "")


def step(name: str) -> str:
    """Return how far one key press turns a knob."""
    dial = DIALS[name]
    return f"{dial.step:.0%}" if dial.by_ratio else number(dial.step)


def shown_value(name: str, value: float) -> str:
    """Return a knob's value with its unit, or that it is no limit."""
    if KNOBS[name].zero_is_none and not value:
        return "no limit"
    return f"{number(value)} {DIALS[name].unit}".rstrip()


def tuned(first: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the knobs whose values differ from the first ones."""
    return {name: value for name, value in now.items() if name in first and first[name] != value}
