"""A prediction in one sentence: how much sooner or later the run would have ended, and mainly why."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind.journal.figures import Figures
from hivemind.journal.wait_causes import WAITED_FOR
from hivemind.lab.comparison import NOISE, is_noise
from hivemind.lab.foresight.foretold import WAITED, WALL, less_is_done, named, shown_base
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.foresight.told import Foretold
from hivemind.lab.simulate.overrides import Change, value_text
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import duration, listed, percent, plural

_MOST_NAMED = 3
_CONTRARY = 0.3
"""What changed the other way is told from this share of the main reason on."""
ANSWERS = "answers"
"""The reason that isn't a wait: how long attempts were in flight."""


def sentence(prediction: Prediction, figures: Sequence[Foretold], *, apart: bool = False) -> str:
    """Return the answer in a sentence. `apart`: several proxies recorded it, each of which scheduled for itself."""
    wall, waited = named(figures, WALL), named(figures, WAITED)
    if not prediction.changes and not prediction.simulated:
        return _again(wall)
    what, drawn = _with(prediction, apart=apart), prediction.drawn
    if prediction.changes and prediction.replayed == prediction.own and drawn.before == drawn.after:
        return f"{what} nothing would have changed in this run."
    assert wall.difference is not None
    usual = "the recorded settings in one scheduler" if apart else "HiveMind's usual settings"
    than = f" than with {usual}" if prediction.simulated and prediction.changes else ""
    ended = _ended(wall.difference, wall.by_share, than)
    if less_is_done(prediction):
        return f"{what}, {_loss(prediction)}, so nothing else counts as better: the run {_modal(wall)} have {ended}."
    if _is_unclear(wall):
        return f"{what} this run {_modal(wall)} have {ended}, {_waits(prediction, waited)}."
    why = _why(prediction, sooner=wall.difference.value < 0)
    return f"{what} this run would have {ended}{why}."


def change_text(change: Change) -> str:
    """Return a change as it is said: `max_concurrency 8`, `rpm none`."""
    knob = KNOBS.get(change.name)
    none = knob is not None and knob.zero_is_none and not change.value and change.value is not None
    return f"{change.name} {'none' if none else value_text(change.value)}"


def reasons(prediction: Prediction, *, sooner: bool) -> tuple[str, str]:
    """Return what makes a run end sooner or later: a cause of waits or :data:`ANSWERS`, by which the time of all agents
    changes most in that direction; and what changes most in the other one. Empty names: nothing that matters."""
    changes, way = _changes(prediction), -1 if sooner else 1
    main = max(changes, key=lambda each: changes[each] * way)
    against = min(changes, key=lambda each: changes[each] * way)
    base = shown_base(prediction)
    least = NOISE * (base.served_s + base.waited_s)
    if changes[main] * way <= least:
        return "", ""
    return main, against if -changes[against] * way > max(least, _CONTRARY * changes[main] * way) else ""


# --- Parts of the sentence --------------------------------------------------------------------------------------------


def _again(wall: Foretold) -> str:
    assert wall.changed is not None
    low, high = duration(wall.changed.low), duration(wall.changed.high)
    return (
        f"With the recorded settings another run like this one would end after about {duration(wall.changed.value)}"
        f" ({low} to {high})."
    )


def _with(prediction: Prediction, *, apart: bool) -> str:
    changes = prediction.changes
    if not changes:
        return "With one scheduler for all of these proxies" if apart else "With HiveMind's usual settings"
    if len(changes) > _MOST_NAMED:
        return f"With these {len(changes)} changes"
    return f"With {listed(map(change_text, changes), 'and')}"


def _loss(prediction: Prediction) -> str:
    """Return what isn't done with the changes, the model's own error left out."""
    recorded, own = shown_base(prediction), prediction.own
    model = _model(prediction)
    if prediction.asks_for_agents:
        return f"only {own.finished:,} of {plural(own.agents, 'agent')} would have finished"
    if own.finished < model.finished:
        finished = max(0, recorded.finished + own.finished - model.finished)
        agents = plural(recorded.agents, "agent")
        return f"only {finished:,} of {agents} would have finished instead of {recorded.finished:,}"
    if own.answered < model.answered:
        return f"{plural(model.answered - own.answered, 'request')} fewer would have been answered"
    drawn = len(prediction.drawn.after)
    return f"fewer agents would have finished in {prediction.draws_that_lose} of {drawn} simulated runs with other luck"


def _ended(moved: Range, by_share: bool, than: str) -> str:
    """Return `ended about 16 % sooner (10 to 20 %)`."""
    if not by_share:
        way = "sooner" if moved.value < 0 else "later"
        return f"ended {duration(abs(moved.value))} {way}{than}"
    span = span_text(moved, "sooner", "later", "as long")
    if is_noise(moved.value, 1.0):
        return f"ended at about the same time{than and ' as' + than.removeprefix(' than')} ({span})"
    if moved.high >= 1 and moved.low >= 0:
        return f"taken about {_times(moved.value)} as long{than and ' as' + than.removeprefix(' than')} ({span})"
    return f"ended about {percent(abs(moved.value))} {'sooner' if moved.value < 0 else 'later'}{than} ({span})"


def _waits(prediction: Prediction, waited: Foretold) -> str:
    """Return what becomes of the waits, where the end of the run says little."""
    moved = waited.difference
    if moved is None or not waited.by_share:
        return "and requests would have waited little either way"
    span = span_text(moved, "less", "longer", "as long")
    if is_noise(moved.value, 1.0):
        return f"and requests would have waited about as long ({span})"
    if moved.high >= 1 and moved.low >= 0:
        much = f"about {_times(moved.value)} as long"
    else:
        much = f"about {percent(abs(moved.value))} {'less' if moved.value < 0 else 'longer'}"
    if _is_unclear(waited):
        return f"and requests might have waited {much} ({span})"
    cause, seconds = _largest_wait(prediction)
    mainly = f", mainly {WAITED_FOR[cause]}" if seconds * moved.value > 0 else ""
    return f"but requests would have waited {much} ({span}){mainly}"


def _modal(figure: Foretold) -> str:
    moved = figure.difference
    assert moved is not None
    return "would" if not _is_unclear(figure) or (figure.by_share and is_noise(moved.value, 1.0)) else "might"


def _is_unclear(figure: Foretold) -> bool:
    moved = figure.difference
    base = 1.0 if figure.by_share else figure.recorded or 0.0
    return moved is None or moved.low <= 0 <= moved.high or is_noise(moved.value, base)


def span_text(moved: Range, less: str, more: str, times: str) -> str:
    """Return an interval of shares: `10 to 20 %`, `4 % sooner to 13 % later`, `2.1 to 2.6 times`.

    `times` follows a factor where the other end is a share.
    """
    low, high = moved.low, moved.high
    if low < 0 < high:
        end = f"{_times(high)} {times}" if high >= 1 else f"{percent(high)} {more}"
        return f"{percent(-low)} {less} to {end}"
    if high >= 1:
        return f"{_factor(1 + low)} to {_times(high)}"
    ends = sorted((abs(low), abs(high)))
    texts = [percent(each).removesuffix(" %") for each in ends]
    if texts[0] == texts[1]:
        texts = [f"{100 * each:.1f}" for each in ends]
    one_way = f" {less if low < 0 else more}" if is_noise(moved.value, 1.0) and (low or high) else ""
    return f"{' to '.join(dict.fromkeys(texts))} %{one_way}"


def _times(share: float) -> str:
    return f"{_factor(1 + share)} times"


def _factor(by: float) -> str:
    return f"{by:.1f}" if by < 9.95 else f"{by:,.0f}"


# --- Reasons ----------------------------------------------------------------------------------------------------------


def _why(prediction: Prediction, *, sooner: bool) -> str:
    """Return the main reason of a shorter or longer run, and what most went against it; empty: none is seen."""
    main, against = reasons(prediction, sooner=sooner)
    if not main:
        return ""
    text = f", mainly because {_reason_text(main, less=sooner)}"
    return text + (f", although {_reason_text(against, less=not sooner, again=main != ANSWERS)}" if against else "")


def _reason_text(name: str, *, less: bool, again: bool = False) -> str:
    if name == ANSWERS:
        return f"answers would have come {'sooner' if less else 'later'}"
    who = "they" if again else "requests"
    return f"{who} would have waited {'less' if less else 'longer'} {WAITED_FOR[name]}"


def _changes(prediction: Prediction) -> dict[str, float]:
    """Return by how many seconds all waits of each cause, and the time of answers, change, luck being the same."""
    before, after = _model(prediction), prediction.own
    waits = {name: after.causes.seconds.get(name, 0.0) - before.causes.seconds.get(name, 0.0) for name in WAITED_FOR}
    return {**waits, ANSWERS: after.served_s - before.served_s}


def _largest_wait(prediction: Prediction) -> tuple[str, float]:
    """Return the cause of waits that changes most in the direction in which all of them together do, and by how many
    seconds."""
    waits = {name: seconds for name, seconds in _changes(prediction).items() if name != ANSWERS}
    less = sum(waits.values()) < 0
    cause = max(waits, key=lambda name: -waits[name] if less else waits[name])
    return cause, waits[cause]


def _model(prediction: Prediction) -> Figures:
    """Return the run that the changed one differs from by the changes alone."""
    return prediction.replayed if prediction.changes else prediction.real
