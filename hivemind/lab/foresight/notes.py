"""What limits a prediction: what the recording doesn't show, limits that stay, and which settings to try for more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.foresight.foretold import WAITED, WALL, named
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.told import Foretold
from hivemind.lab.simulate.overrides import Change, apply_changes, questions, value_text
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.steps import CommandStep
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import WindowKind
from hivemind.text.humanise import count, duration, plural

_MINUTE_S = 60.0
_KINDS: Mapping[str, tuple[WindowKind, ...]] = {
    "rpm": (WindowKind.REQUESTS,),
    "tpm": (WindowKind.TOKENS, WindowKind.INPUT, WindowKind.OUTPUT),
}
"""By HiveMind's own limit, what of the provider's it is a share of."""
_NAMES = {
    WindowKind.REQUESTS: ("requests", "requests"),
    WindowKind.TOKENS: ("tokens", "tokens"),
    WindowKind.INPUT: ("input", "input tokens"),
    WindowKind.OUTPUT: ("output", "output tokens"),
}
"""By kind of limit: how it is asked about, and what it counts."""
_FOREIGN = (
    "this was recorded without HiveMind: what its scheduler makes of the same traffic can't be checked against anything"
    " that really happened"
)
_APART = (
    "each of these proxies scheduled for itself: what one scheduler does with all of their traffic can't be checked"
    " against anything that really happened"
)


def doubts(recording: Recording, changes: Sequence[Change]) -> list[str]:
    """Return what the recording can't show, so that an answer may not hold, a line each."""
    found = [_FOREIGN] if recording.began.foreign else [_APART] if recording.apart else []
    found += [*recording.defects, *recording.unseen_limits(_changed_lanes(recording, changes))]
    return [*dict.fromkeys(found)]


def notes(recording: Recording, prediction: Prediction, figures: Sequence[Foretold]) -> list[str]:
    """Return what the changes leave as it is, and what would tell more, a line each."""
    lanes = _changed_lanes(recording, prediction.changes)
    found = [*_turned(recording, prediction.changes)]
    for key, provider in recording.providers.items():
        found += _limits_that_stay(provider, recording.lanes[key], lanes[key], prediction.changes)
    found += _experiments(prediction, figures)
    return [*dict.fromkeys(found)]


def _turned(recording: Recording, changes: Sequence[Change]) -> Iterator[str]:
    """Yield a line for each changed setting that an operator changed while it was recorded."""
    steps = [each for each in recording.trace.steps() if isinstance(each, CommandStep)]
    times = Counter(step.setting for step in steps)
    last = {
        step.setting: step.arguments["value"] for step in steps if step.name == "Tune" and "value" in step.arguments
    }
    for change in changes:
        if number := times[change.name]:
            to = f", at last to {value_text(last[change.name])}," if change.name in last else ""
            yield (
                f"{change.name} was changed {plural(number, 'time')}{to} while this was recorded; simulated is"
                f" {value_text(change.value)} from the beginning"
            )


def held_out_text(recording: Recording, wall: float | None, wait: float | None) -> str:
    """Return how far the models were off on what their fit hadn't seen, by these shares; or why that isn't known."""
    errors = [f"{_error(each)} in {name}" for name, each in (("wall time", wall), ("total wait", wait)) if each]
    if errors:
        return f"On a part of the recording that the fit hadn't seen, the models were off by {' and by '.join(errors)}."
    if recording.apart:
        return ""
    requests = plural(len(recording.trace.requests), "request")
    return f"The recording is too short ({requests}) to check the models on a part that the fit hasn't seen."


def commands(changes: Sequence[Change]) -> str:
    """Return the commands that change a running proxy's settings so, in one line; empty: none of them is a knob."""
    return " && ".join(_command(each) for each in changes if each.name in KNOBS and each.value is not None)


def _command(change: Change) -> str:
    is_none = not change.value and KNOBS[change.name].zero_is_none
    return f"hivemind set {change.name} {'none' if is_none else value_text(change.value)}"


def _error(share: float) -> str:
    if share >= 1:
        return f"a factor of {1 + share:.1f}" if share < 9 else f"a factor of {1 + share:,.0f}"
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _changed_lanes(recording: Recording, changes: Sequence[Change]) -> dict[str, LaneConfig]:
    return {key: apply_changes(changes, recording.began.config, lane)[1] for key, lane in recording.lanes.items()}


def _experiments(prediction: Prediction, figures: Sequence[Foretold]) -> Iterator[str]:
    tries, beyond = commands(prediction.changes), prediction.beyond
    if beyond is not None:
        text = f"no more than {beyond[0]} in flight were recorded; with {beyond[1]} the intervals are wider"
        yield f"{text}, and a run recorded after `{tries}` would tell more" if tries else text
    elif tries and all(_spans_zero(named(figures, name)) for name in (WALL, WAITED)):
        yield f"the recording can't tell which settings are better; a run recorded after `{tries}` would"


def _spans_zero(figure: Foretold) -> bool:
    return figure.difference is None or figure.difference.low < 0 < figure.difference.high


# --- Limits -----------------------------------------------------------------------------------------------------------


def _limits_that_stay(
    provider: FittedProvider, before: LaneConfig, after: LaneConfig, changes: Sequence[Change]
) -> Iterator[str]:
    """Yield a line for each limit on the other side that a change of limits leaves as it is."""
    changed = {each.name for each in changes}
    asked = {each.what for each in questions(changes) if each.upstream in ("", provider.lane.upstream)}
    for name in ("rpm", "tpm"):
        old, new = getattr(before, name), getattr(after, name)
        more = asked & {"limits", *(_NAMES[kind][0] for kind in _KINDS[name])}
        if name in changed and old and (not new or new > old):
            yield from _provider_keeps(provider, name, new, asked)
        elif name not in changed and _holds(provider, name, after) and more:
            own = f"{name} {count(new)}"
            yield f"{provider.lane.upstream}: HiveMind's own limit, {own}, stays; {name}=none lifts it"
    places = provider.places
    if places is not None and "max_concurrency" in changed and "places" not in asked:
        most = after.max_concurrency
        if not most or most > places.most:
            yield (
                f"{provider.lane.upstream} takes about {places.most} requests at once, whatever max_concurrency is;"
                " provider.places=x2 asks about twice as many"
            )


def _provider_keeps(provider: FittedProvider, name: str, own: int, asked: set[str]) -> Iterator[str]:
    for kind in _KINDS[name]:
        question, what = _NAMES[kind]
        limits = [each for each in provider.limits if each.kind == kind]
        if not limits or asked & {question, "limits"}:
            continue
        least = min(limits, key=_a_minute)
        if not own or own > _a_minute(least):
            yield (
                f"{provider.lane.upstream}: {name} is HiveMind's own limit; the provider's, {count(least.limit)} {what}"
                f" in {duration(least.span_s)}, stays; provider.{question}=x2 asks about twice as much"
            )


def _holds(provider: FittedProvider, name: str, lane: LaneConfig) -> bool:
    """Return whether HiveMind keeps to its own limit: an assumed one is replaced by what the provider's headers say."""
    stated = any(limit.reported and limit.kind in _KINDS[name] for limit in provider.limits)
    return bool(getattr(lane, name)) and (getattr(lane, f"{name}_binding") or not stated)


def _a_minute(limit: FittedLimit) -> float:
    return limit.limit * _MINUTE_S / limit.span_s
