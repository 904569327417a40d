"""The result of tuning as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hivemind.cli.lab import comparison
from hivemind.console import printable
from hivemind.lab.simulate.overrides import value_text
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.search import RecordedSettings, values_of
from hivemind.lab.tune.tuning import Goal, TuningProgress, TuningResult, cost
from hivemind.text.humanise import dollars, duration
from hivemind.text.table import Cell, Column, lines, styled, wrapped

GOALS: dict[Goal, str] = {"wall_time": "wall time", "p95_wait": "p95 of waits", "dollars": "dollars"}
_WORTH = "worth: the share of the gain that is lost if that change alone is undone"
_STAGES = {"search": "searching", "choose": "choosing", "check": "validating"}
_CHANGES = (
    Column("SETTING"),
    Column("RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("WORTH", right=True),
)
_JOURNALS = (
    Column("JOURNAL", cut=True),
    Column("AS RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("DIFFERENCE", right=True),
)


def as_text(
    found: TuningResult,
    recordings: Sequence[Recording],
    began: Sequence[RecordedSettings],
    notes: Sequence[str],
    room: int | None,
) -> list[str]:
    """Return the result for people."""
    foreign = all(each.began.foreign for each in recordings)
    why = {"time": " until time was up", "interrupted": " until interrupted"}.get(found.stopped, "")
    text = [styled(f"goal: less {GOALS[found.goal]}", "bold") + f"; {found.trials:,} candidates tried{why}", ""]
    if found.kept:
        text += lines(_named(_CHANGES, "USUAL") if foreign else _CHANGES, _changes(found, began), room)
        if any(each.worth is not None for each in found.kept):
            text += [styled(line, "dim") for line in wrapped(_WORTH, room)]
        text += [""]
    if found.check is not None:
        if len(recordings) > 1:
            heads = _named(_JOURNALS, comparison.USUAL) if foreign else _JOURNALS
            text += [*lines(heads, _journals(found, recordings), room), ""]
        text += [*comparison.means(found.check.before, found.check.after, room, foreign=foreign), ""]
    sure = verdict(found)
    for line, style in ((sure.text, sure.style), *((f"Note: {printable(note)}.", "warn") for note in notes)):
        text += [styled(each, style) for each in wrapped(line, room)]
    return text


def _named(columns: tuple[Column, ...], second: str) -> tuple[Column, ...]:
    """Return the columns with another title of the second one."""
    return (columns[0], replace(columns[1], title=second), *columns[2:])


def verdict(found: TuningResult) -> Cell:
    """Return whether there is a gain, and how certain it is."""
    check, name = found.check, GOALS[found.goal]
    if not found.kept:
        interrupted = " The search was interrupted." if found.stopped == "interrupted" else ""
        return Cell(f"No better settings found in {found.trials:,} trials.{interrupted}", "warn")
    if check is None:
        took = _share(found.before - found.best, found.before)
        text = f"Interrupted before validation: in the search it took {took} off the {name}, some of which is luck."
        return Cell(text, "warn")
    runs = f"on {check.gain.runs} seeds not used in the search"
    gain, low, high = (_share(each, check.cost.mean) for each in (check.gain.mean, check.gain.low, check.gain.high))
    sure = f"{runs}, between {low} and {high} (95 % confidence)"
    if check.acceptable and check.gain.mean > 0 and check.better:
        return Cell(f"They take {gain} off the {name}; {sure}.", "good")
    if not check.acceptable:
        why = f"{runs}, fewer agents finished or more requests failed with the best ones"
    elif check.gain.mean <= 0:
        why = f"{runs}, what looked best isn't better"
    else:
        little = "which is within the noise" if check.gain.low > 0 else "so the gain may be luck"
        why = f"the best ones take {gain} off the {name}; {sure}, {little}"
    return Cell(f"No better settings found: {why}.", "warn")


def progress_text(progress: TuningProgress, goal: Goal) -> str:
    """Return the progress in a short line."""
    of = f" {progress.done} of {progress.of}" if progress.of else ""
    took = _share(progress.before - progress.best, progress.before)
    so_far = f", best so far {amount(goal, progress.best)} (-{took})" if progress.best < progress.before else ""
    return f"{_STAGES[progress.stage]}{of}{so_far}"


def amount(goal: Goal, value: float) -> str:
    """Return a cost as text."""
    return dollars(value) if goal == "dollars" else duration(value)


def as_json(
    found: TuningResult, recordings: Sequence[Recording], began: Sequence[RecordedSettings], notes: Sequence[str]
) -> dict[str, object]:
    """Return the result for programs."""
    check = found.check
    return {
        "goal": found.goal,
        "journals": [each.name for each in recordings],
        "trials": found.trials,
        "stopped": found.stopped,
        "better": check is not None and check.better,
        "changes": {each.change.name: each.change.value for each in found.kept},
        "recorded": {each.change.name: values_of(each.change.name, began) for each in found.kept},
        "worth": {each.change.name: each.worth for each in found.kept},
        "search": {"recorded": found.before, "best": found.best},
        "check": check
        and {
            "seeds": check.gain.runs,
            "recorded": check.cost.mean,
            "gain": check.gain.mean,
            "gain_low": check.gain.low,
            "gain_high": check.gain.high,
            "nobody_worse": check.acceptable,
        },
        "notes": notes,
    }


def _changes(found: TuningResult, began: Sequence[RecordedSettings]) -> list[list[Cell | str]]:
    rows: list[list[Cell | str]] = []
    for each in found.kept:
        values = sorted(set(values_of(each.change.name, began)))
        was = " to ".join(value_text(value) for value in dict.fromkeys((values[0], values[-1])))
        worth = "" if each.worth is None else f"{100 * each.worth:.0f} %" if each.worth < 1 else "all of it"
        rows.append([each.change.name, was, Cell(value_text(each.change.value), "bold"), worth])
    return rows


def _journals(found: TuningResult, recordings: Sequence[Recording]) -> list[list[Cell | str]]:
    assert found.check is not None
    check = found.check
    rows: list[list[Cell | str]] = []
    for place, recording in enumerate(recordings):
        before, after = cost(found.goal, check.before_in(place)), cost(found.goal, check.after_in(place))
        better = after < before
        gain = Cell(_signed(after - before, before), "good" if better else "bad" if after > before else "dim")
        rows.append([printable(recording.name), amount(found.goal, before), amount(found.goal, after), gain])
    return rows


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _signed(change: float, base: float) -> str:
    return f"{100 * change / base:+.1f} %" if base and abs(change / base) >= 0.0005 else "="
