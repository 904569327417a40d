"""The answer of `hivemind tune`, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hivemind.console import printable
from hivemind.journal.wait_causes import WAITED_FOR
from hivemind.lab.comparison import Unit, amount_of
from hivemind.lab.foresight.foretold import foretold
from hivemind.lab.foresight.notes import commands
from hivemind.lab.foresight.ranges import CONFIDENCE, Range
from hivemind.lab.simulate.overrides import Change, value_text
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.promise import LEAST_GAIN, Goal, Promise
from hivemind.lab.tune.space import RecordedSettings, values_of
from hivemind.lab.tune.tuning import TuningProgress, TuningResult
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import listed, percent, plural
from hivemind.text.table import Cell, TextColumn, lines, styled, wrapped

GOALS: dict[Goal, str] = {"wall_time": "wall time", "p95_wait": "p95 of waits", "dollars": "dollars"}
_LEGEND = (
    "RECORDED is what the journal holds; of runs with the chosen settings,"
    f" {percent(CONFIDENCE)} are within the interval."
)
_STAGES = {"search": "searching", "choose": "comparing the best", "check": "validating"}
_REDUCED: dict[Goal, str] = {"wall_time": "wall time", "p95_wait": "wait, p95", "dollars": "dollars"}
"""The figure that a goal reduces, as it is called in tables."""
_SHOWN = ("wall time", "wait, total", "wait, p95", "retries", "dollars", "most in flight")


def progress_text(progress: TuningProgress) -> str:
    """Return the progress in a short line."""
    of = f" {progress.done} of {progress.of}" if progress.of else ""
    so_far = f", the best so far takes {percent(progress.best)} off" if progress.best > 0 else ""
    return f"{_STAGES[progress.stage]}{of}{so_far}"


def sentence(result: TuningResult) -> str:
    """Return the answer in a sentence."""
    promise, name = result.promise, GOALS[result.goal]
    if promise is not None and not promise.why_not:
        assert promise.gain is not None
        would = "would take" if len(promise.changes) == 1 else "together would take"
        return f"{_named(promise.changes)} {would} about {range_text(promise.gain)} off the {name}."
    if result.interrupted and promise is None:
        if not result.kept:
            return "Nothing is recommended: it was interrupted before anything better was found."
        changes, took = _named(result.kept), percent(result.searched)
        return (
            f"Nothing is recommended: it was interrupted before {changes} was validated; in the search it took {took}"
            f" off the {name}, some of which is luck."
        )
    if promise is None and result.experiment is not None and result.experiment.beyond:
        changes, might = _named(result.experiment.changes), percent(result.experiment.gain)
        return (
            f"Nothing is recommended: {changes} might take {might} off the {name}, but more would be in flight than was"
            " recorded, and what the provider does then isn't known."
        )
    if promise is None:
        tried = plural(result.trials, "candidate")
        return f"Nothing is recommended: of {tried} none is better than the recorded settings by more than luck."
    return f"Nothing is recommended: {_why_not(promise, name)}."


def _why_not(promise: Promise, name: str) -> str:
    changes, gain = _named(promise.changes), promise.gain
    match promise.why_not:
        case "agents":
            return f"with {changes}, the best found, fewer agents finish"
        case "failures":
            return f"with {changes}, the best found, more requests stay unanswered"
        case "errors":
            return f"with {changes}, the best found, many more attempts fail"
        case "beyond":
            return f"with {changes}, the best found, more would be in flight than was recorded"
        case "refused":
            return (
                f"with {changes}, the best found, more would be in flight, and with more in flight the provider refused"
                " more, for a reason that the recording doesn't show"
            )
        case "small":
            return f"the {name} is too short to be reduced"
    assert gain is not None
    if promise.why_not == "unclear":
        between = f"take {percent(gain.high)} off" if gain.high > 0 else "not shorten"
        return (
            f"{changes}, the best found, would take about {percent(max(0.0, gain.value))} off the {name}, but the"
            f" recording can't tell: it may {between} it, or add {percent(-gain.low)}"
        )
    if gain.value > LEAST_GAIN:
        return (
            f"{changes}, the best found, would take about {percent(gain.value)} off the {name}, but the recording can't"
            f" tell: it may be as little as {percent(gain.low)}"
        )
    return f"the best found, {changes}, takes no more than {percent(max(0.0, gain.value))} off the {name}"


def advice(result: TuningResult, recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield what to do next, and what is known besides."""
    if result.recommended:
        return
    if result.experiment is not None:
        busiest = max(each.figures.busiest for each in recordings)
        why = f"No more than {plural(busiest, 'request')} in flight were recorded. " if result.experiment.beyond else ""
        yield f"{why}A recorded run with other settings would tell: {commands(result.experiment.changes)}"
    causes: dict[str, float] = {}
    for each in recordings:
        for cause, seconds in each.figures.causes.seconds.items():
            causes[cause] = causes.get(cause, 0.0) + seconds
    if causes and sum(causes.values()) > 1.0:
        cause = max(causes, key=lambda name: causes[name])
        yield f"Requests waited mainly {WAITED_FOR[cause]}."


def as_text(
    result: TuningResult,
    recordings: Sequence[Recording],
    began: Sequence[RecordedSettings],
    notes: Sequence[str],
    room: int | None,
) -> list[str]:
    """Return the result for people."""
    style = "good" if result.recommended else "warn"
    text = [styled(each, style) for each in wrapped(sentence(result), room)]
    if result.kept and (result.recommended or result.promise is not None):
        foreign = all(each.began.foreign for each in recordings)
        columns = _columns(foreign=foreign, recommended=result.recommended)
        text += ["", *lines(columns, _changes(result, began), room)]
    if result.promise is not None and result.recommended:
        for place, recording in enumerate(recordings):
            text += ["", *_figures(recording, result.promise, place, room)]
        text += [styled(each, "dim") for each in wrapped(_LEGEND, room)]
    text.append("")
    for line in advice(result, recordings):
        text += wrapped(line, room)
    for note in notes:
        text += [styled(each, "warn") for each in wrapped(f"Note: {printable(note)}.", room)]
    return text if text[-1] else text[:-1]


def range_text(gain: Range) -> str:
    """Return a share with its interval, as in `16 % (10 to 20 %)`."""
    return f"{percent(gain.value)} ({percent(gain.low).removesuffix(' %')} to {percent(gain.high)})"


def _columns(*, foreign: bool, recommended: bool) -> tuple[TextColumn, ...]:
    """Return the columns of the changes; nothing is chosen where nothing is recommended."""
    before, after = "USUAL" if foreign else "RECORDED", "CHOSEN" if recommended else "BEST FOUND"
    return TextColumn("SETTING"), TextColumn(before, right=True), TextColumn(after, right=True)


def _changes(result: TuningResult, began: Sequence[RecordedSettings]) -> list[list[Cell | str]]:
    rows: list[list[Cell | str]] = []
    for each in result.kept:
        values = sorted(set(values_of(each.name, began)))
        was = " to ".join(_setting(each.name, value) for value in dict.fromkeys((values[0], values[-1])))
        rows.append([each.name, was, Cell(_setting(each.name, each.value), "bold")])
    return rows


def _setting(name: str, value: float | bool | str | None) -> str:
    return "none" if not value and name in KNOBS and KNOBS[name].zero_is_none else value_text(value)


def _figures(recording: Recording, promise: Promise, place: int, room: int | None) -> list[str]:
    simulated = promise.predictions[place].recorded is not recording.figures
    heads = (
        TextColumn(printable(recording.name) if len(promise.predictions) > 1 else "", cut=True),
        TextColumn("SIMULATED AS RECORDED" if simulated else "RECORDED", right=True),
        TextColumn("PREDICTED", right=True),
        TextColumn("INTERVAL", right=True),
    )
    rows: list[list[Cell | str]] = []
    for name, unit, before, after in figures(promise, place):
        span = f"{amount_of(unit, after.low)} to {amount_of(unit, after.high)}"
        rows.append([name, amount_of(unit, before), amount_of(unit, after.value), span])
    return lines(heads, rows, room)


def figures(promise: Promise, place: int) -> Iterator[tuple[str, Unit, float, Range]]:
    """Yield name, unit, recorded value and predicted range of the figures of a recording that are worth showing."""
    gain = promise.gains[place]
    for each in foretold(promise.predictions[place]):
        before, after = each.recorded, each.changed
        if before is not None and each.name == _REDUCED[promise.goal] and gain is not None:
            after = Range(*(before * (1 - share) for share in (gain.value, gain.high, gain.low)))
        if each.name in _SHOWN and before is not None and after is not None and (before or after.value):
            yield each.name, each.unit, before, after


def _named(changes: Sequence[Change]) -> str:
    return listed((f"{each.name} {_setting(each.name, each.value)}" for each in changes), "and")


def as_json(
    tuned: TuningResult, recordings: Sequence[Recording], began: Sequence[RecordedSettings], notes: Sequence[str]
) -> dict[str, object]:
    """Return the result for programs; shares are of one, times in seconds."""
    promise = tuned.promise
    gain = None if promise is None else promise.gain
    return {
        "sentence": sentence(tuned),
        "recommended": tuned.recommended,
        "goal": tuned.goal,
        "journals": [each.name for each in recordings],
        "trials": tuned.trials,
        "stopped": "interrupted" if tuned.interrupted else "",
        "why_not": promise.why_not if promise is not None else "" if tuned.kept else "nothing",
        "changes": {each.name: each.value for each in tuned.kept},
        "recorded": {each.name: values_of(each.name, began) for each in tuned.kept},
        "gain": None if gain is None else {"value": gain.value, "low": gain.low, "high": gain.high},
        "confidence": CONFIDENCE,
        "gain_in_search": tuned.searched,
        "figures": [] if promise is None else [_figures_json(promise, each) for each in range(len(recordings))],
        "experiment": {} if tuned.experiment is None else {each.name: each.value for each in tuned.experiment.changes},
        "notes": notes,
    }


def _figures_json(promise: Promise, place: int) -> dict[str, object]:
    return {
        name: {"recorded": before, "predicted": after.value, "low": after.low, "high": after.high}
        for name, _, before, after in figures(promise, place)
    }
