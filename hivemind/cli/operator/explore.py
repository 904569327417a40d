"""`hivemind explore`: tries other settings on live traffic, in turns with the present ones, and undoes it."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping

from hivemind.cli import client
from hivemind.cli.operator.live import Outcome, Trial, explore, signed
from hivemind.cli.operator.steer import knob_named, knob_value
from hivemind.cli.plugin import Command
from hivemind.console import print_json, print_note
from hivemind.errors import UsageError
from hivemind.lab.explore.engine import Bounds, Difference, Experiment, Side, Slice
from hivemind.text.humanise import duration, parse_duration, percent, plural
from hivemind.text.table import Column, lines, show, width, wrapped

_TRANSITION = 0.25
_MOST_TRANSITION_S = 10.0
_LEAST_PAIRS = 3
_TELLING = 1.0
"""An interval that reaches further than this share to either side tells nothing."""
_CLEAR_LINE = "\r\x1b[K"
_COLUMNS = (
    Column("MEASURE"),
    Column("A", right=True),
    Column("B", right=True),
    Column("DIFFERENCE", right=True),
    Column("INTERVAL", right=True),
)
_BOUNDS = ("errors", "wait", "answered")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s KNOB=VALUE [KNOB=VALUE ...] [flags]"
    add = parser.add_argument
    add("set", metavar="KNOB=VALUE", nargs="+", help="what to try; hivemind set shows what there is")
    add("--upstream", metavar="NAME", help="try it for this upstream alone [all]")
    add_length_flags(parser)
    add("--seed", metavar="S", type=int, help="draw which is first in each pair [in turn: A B B A]")
    add("--keep", action="store_true", help="leave the new settings in force if they proved better")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    changed = _changed(namespace.set)
    experiment, slice_s, transition_s = planned(namespace, namespace.seed)
    proxy = signed(client.find_proxy(namespace))
    trial = Trial(proxy, changed, namespace.upstream, slice_s, transition_s)
    progress = ExperimentProgress(experiment, slice_s)
    try:
        outcome = explore(trial, experiment, progress.tell, keep=namespace.keep)
    finally:
        progress.close()
    if client.wants_json(namespace):
        print_json(as_json(trial, experiment, outcome))
    else:
        show(as_text(trial, experiment, outcome))
    return outcome.exit_code


def add_length_flags(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the flags of how long an experiment is, and of what ends it."""
    add = group.add_argument
    add("--for", metavar="TIME", dest="length", default="10m", help="how long at most [10m]")
    add("--slice", metavar="TIME", default="30s", help="how long each turn is [30s]")
    add("--transition", metavar="TIME", help="beginning of a turn that doesn't count [a quarter, 10s at most]")
    bound = "stop beyond it: errors=10%%, wait=20s (p95); answered=5: fewer a turn don't count; may be repeated"
    add("--bound", metavar="NAME=VALUE", action="append", default=[], help=bound)


def planned(namespace: argparse.Namespace, seed: int | None = None) -> tuple[Experiment, float, float]:
    """Return the experiment that the flags describe, and the seconds of a turn and of its beginning that doesn't count.

    Raises: UsageError.
    """
    bounds = _bounds(namespace.bound)
    slice_s, length_s = _seconds("--slice", namespace.slice), _seconds("--for", namespace.length)
    pairs = int(length_s / (2 * slice_s) + 1e-9)
    if pairs < _LEAST_PAIRS:
        raise UsageError(f"--for {namespace.length[:20]}: must be at least {_LEAST_PAIRS} pairs of --slice")
    transition_s = min(_TRANSITION * slice_s, _MOST_TRANSITION_S)
    if namespace.transition is not None:
        transition_s = _seconds("--transition", namespace.transition)
    if transition_s >= slice_s:
        raise UsageError("--transition: must be shorter than --slice")
    return Experiment(pairs, bounds, seed), slice_s, transition_s


def _changed(given: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in given:
        name, equals, text = each.partition("=")
        knob = knob_named(name)
        if not equals:
            raise UsageError(f"{name[:40]}: say to what, as in {knob.name}={max(knob.lowest, 1):g}")
        if knob.name in found:
            raise UsageError(f"{knob.name} is given twice")
        found[knob.name] = knob_value(knob, text)
    return found


def _bounds(given: list[str]) -> Bounds:
    values = {"errors": 0.1, "wait": math.inf, "answered": 5.0}
    for each in given:
        name, _, text = each.partition("=")
        if name not in _BOUNDS:
            raise UsageError(f"--bound {each[:40]}: must be one of errors=10%, wait=20s and answered=5")
        try:
            values[name] = _bound(name, text)
        except ValueError:
            raise UsageError(f"--bound {each[:40]}: must be as in errors=10%, wait=20s or answered=5") from None
    return Bounds(values["errors"], values["wait"], int(values["answered"]))


def _bound(name: str, text: str) -> float:
    """Raises: ValueError."""
    if name == "wait":
        return parse_duration(text)
    if name == "answered":
        value, most = float(int(text)), 1e9
    else:
        value, most = (float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)), 1.0
    if not 0 <= value <= most:
        raise ValueError
    return value


def _seconds(flag: str, text: str) -> float:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if found <= 0:
        raise UsageError(f"{flag}: must be longer than 0s")
    return found


class ExperimentProgress:
    """A live line on a terminal, else a line for each slice."""

    def __init__(self, experiment: Experiment, slice_s: float) -> None:
        self._experiment, self._slice_s = experiment, slice_s
        self._live = sys.stderr.isatty()

    def tell(self, side: Side, gone_s: float, found: Slice | None) -> None:
        """Say where it is."""
        pair = f"pair {min(self._experiment.done + 1, self._experiment.pairs)} of at most {self._experiment.pairs}"
        if found is not None:
            rate = 60 * found.answered / found.seconds
            text = (
                f"{side}: {rate:.0f} answered a minute, {percent(found.errors)} errors, wait p95 {found.wait_p95:.1f} s"
            )
            if not self._live:
                print_note(text)
        elif self._live:
            text = f"explore: {pair}, {side}, {gone_s:.0f} of {self._slice_s:g} s"
        else:
            return
        if self._live:
            print(f"{_CLEAR_LINE}{text[: (width() or 80) - 1]}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._live:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


def sentence(trial: Trial, experiment: Experiment) -> str:
    """Return what was found, in a sentence."""
    what = ", ".join(f"{name} {value:g}" for name, value in trial.changed.items())
    rate, pairs = experiment.rate(), len(experiment.counted)
    over = f"over {plural(pairs, 'pair')} of {duration(trial.slice_s)}"
    if experiment.verdict == "worse" and experiment.reason.startswith("with B"):
        return f"Stopped with {what} in force: {experiment.reason.removeprefix('with B ')}."
    if experiment.verdict in ("better", "worse") and rate is not None and not rate.low <= 0 <= rate.high:
        sign = 1 if rate.middle > 0 else -1
        ends = sorted((abs(rate.low), abs(rate.high)))
        word = "more" if sign > 0 else "fewer"
        return (
            f"With {what}, {percent(abs(rate.middle))} {word} requests a minute were answered"
            f" ({percent(ends[0])} to {percent(ends[1])}), {over}."
        )
    if experiment.verdict == "none" and rate is not None:
        size = max(abs(rate.low), abs(rate.high))
        if size > _TELLING:
            return (
                f"Nothing can be told about {what}, {over}: the turns differ too much by themselves."
                " Longer ones (--slice) differ less, above all those longer than a rate window."
            )
        return f"No difference found with {what}, {over}: an effect of more than {percent(size)} would have shown."
    return f"Stopped before anything could be told about {what}, {over}: {experiment.reason}."


def as_text(trial: Trial, experiment: Experiment, outcome: Outcome) -> list[str]:
    """Return the answer as lines."""
    text = [sentence(trial, experiment)]
    text.append(_afterwards(trial, outcome))
    if experiment.skipped:
        text.append(
            f"{plural(experiment.skipped, 'pair')} had too few requests and didn't count;"
            " longer turns (--slice) have more."
        )
    found = [line for each in text for line in wrapped(each, width())]
    table = differences(experiment)
    return [*found, "", *table] if table else found


def differences(experiment: Experiment) -> list[str]:
    """Return a line for each measure of both settings; none: nothing was measured."""
    table = experiment.table()
    return lines(_COLUMNS, [_row(each) for each in table], width()) if table else []


def _afterwards(trial: Trial, outcome: Outcome) -> str:
    if outcome.kept:
        return "The new settings are kept; undo it with " + _undo(outcome.before, trial.upstream)
    if outcome.foreign:
        return f"Somebody else turned {', '.join(outcome.foreign)} meanwhile; that was left as it is."
    return "The settings are as they were: " + ", ".join(f"{name} {value:g}" for name, value in outcome.before.items())


def _undo(before: Mapping[str, float], upstream: str | None) -> str:
    where = f" --upstream {upstream}" if upstream else ""
    return "; ".join(f"hivemind set {name} {value:g}{where}" for name, value in before.items())


def _row(each: Difference) -> list[str]:
    if each.relative and max(abs(each.low), abs(each.high)) > _TELLING:
        change = ("", "can't be told")
    elif each.relative:
        change = (f"{100 * each.middle:+.0f} %", f"{100 * each.low:+.0f} to {100 * each.high:+.0f} %")
    else:
        change = (f"{each.middle:+.2f}", f"{each.low:+.2f} to {each.high:+.2f}")
    return [each.measure, _figure(each.a), _figure(each.b), *change]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def as_json(trial: Trial, experiment: Experiment, outcome: Outcome) -> dict[str, object]:
    """Return the answer for programs; shares are of one, times in seconds."""
    return {
        "sentence": sentence(trial, experiment),
        "verdict": experiment.verdict,
        "reason": experiment.reason,
        "a": dict(outcome.before),
        "b": dict(trial.changed),
        "upstream": trial.upstream,
        "kept": outcome.kept,
        "foreign": list(outcome.foreign),
        "slice_s": trial.slice_s,
        "transition_s": trial.transition_s,
        "pairs": len(experiment.counted),
        "skipped": experiment.skipped,
        "measures": [
            {
                "measure": each.measure,
                "a": each.a,
                "b": each.b,
                "difference": each.middle,
                "low": each.low,
                "high": each.high,
                "relative": each.relative,
            }
            for each in experiment.table()
        ],
    }


command = Command(_configure, _run)
