"""`hivemind what-if`: what other settings would have done with recorded traffic."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from hivemind.cli.address import FILE_HELP, add_folder_flags
from hivemind.cli.journals import find_journals
from hivemind.cli.plugin import Command
from hivemind.cli.progress import Progress
from hivemind.console import print_json, printable
from hivemind.errors import UsageError
from hivemind.lab.comparison import Verdict, amount_of
from hivemind.lab.foresight.answer import answer, foretell
from hivemind.lab.foresight.draws import on_all_cores
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.foresight.told import Answer, Foretold
from hivemind.lab.simulate.overrides import parse_changes, scenario
from hivemind.lab.simulate.recording import Recording, load
from hivemind.prices import prices_at
from hivemind.providers.published import published
from hivemind.text.humanise import duration, plural
from hivemind.text.table import Cell, TextColumn, lines, show, styled, width, wrapped

_STYLES: Mapping[Verdict, str] = {"better": "good", "worse": "bad", "unclear": "dim", "other work": "dim"}

_DIGITS = 9
"""Of figures for programs: what is beyond is the rounding of logarithms."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--set NAME=VALUE ...] [--scenario FILE] [flags]"
    add = parser.add_argument
    add("file", metavar="FILE", nargs="+", help=f"{FILE_HELP}; of several proxies: as if they had shared their keys")
    setting = (
        "a setting of `hivemind proxy --help`, agent.NAME.priority, agent.NAME.budget, provider.limits=x2 and the like,"
        " or agents=x2; may be repeated"
    )
    add("--set", metavar="NAME=VALUE", action="append", default=[], help=setting)
    add("--scenario", metavar="FILE", help="take changes from a TOML file; those of --set come on top")
    add("--provider", metavar="NAME", help="of a recording without its provider's limits: simulate those of this one")
    add("--tier", metavar="TIER", help="as they are published for this tier, such as 4")
    add("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    changes = parse_changes([*_scenario(namespace.scenario), *namespace.set])
    paths = tuple(find_journals(namespace, namespace.file))
    price = prices_at()
    with Progress() as progress:
        progress.tell("reading...")
        recording = load(paths, price, tier=published(namespace.provider, namespace.tier))
        if recording.unsaid:
            return _unsaid(recording, as_json=namespace.json)
        progress.tell("simulating...")
        runs = partial(on_all_cores, done=lambda done, of: progress.tell(f"simulating, {done} of {of}..."))
        prediction = foretell(recording, changes, price, runs=runs)
    result = answer(recording, prediction)
    if namespace.json:
        return print_json(as_json(recording, prediction, result))
    show(as_text(recording, result))
    return 0


def _unsaid(recording: Recording, *, as_json: bool) -> int:
    """Say that nothing can be foretold."""
    sentence = f"What HiveMind would have changed can't be said of {recording.name}: {recording.unsaid}."
    notes = list(recording.warnings)
    if as_json:
        return print_json({"journal": recording.name, "sentence": sentence, "figures": [], "notes": notes})
    texts = [(printable(sentence), "bold"), *((f"Note: {printable(note)}.", "warn") for note in notes)]
    show(_paragraphs(texts, width()))
    return 0


def _scenario(file: str | None) -> list[str]:
    """Return the changes of a scenario file. Raises: UsageError: with its name."""
    if file is None:
        return []
    try:
        texts = scenario(Path(file).expanduser())
        parse_changes(texts)
    except UsageError as error:
        raise UsageError(f"--scenario {file}: {error}") from None
    return texts


def as_text(recording: Recording, result: Answer) -> list[str]:
    """Return the answer for people."""
    room, figures = width(), recording.figures
    what = f"{plural(figures.agents, 'agent')}, {plural(figures.requests, 'request')}, {duration(figures.wall_s)}"
    before = [(result.checked, "warn")] if result.far_off else []
    before += [(f"Note: {printable(line)}.", "warn") for line in result.doubts]
    text = [*_paragraphs(before, room), ""] if before else []
    text += [*_paragraphs([(printable(result.sentence), "bold")], room), ""]
    text += [*_paragraphs([(f"{printable(recording.name)}: {what}", "dim")], room), ""]
    text += [*lines(_columns(result), [_row(each) for each in result.figures if each.is_told], room), ""]
    if result.shows:
        text += [styled("What the recording shows:", "bold"), *_items(result.shows, room), ""]
    last = [] if result.far_off else [(result.checked, "dim")]
    last += [(f"Note: {printable(line)}.", "warn") for line in result.notes]
    return [*text, *_paragraphs(last, room)]


def _columns(result: Answer) -> tuple[TextColumn, ...]:
    first, second = result.titles
    return (
        TextColumn(""),
        TextColumn(first.upper(), right=True),
        TextColumn(second.upper(), right=True),
        TextColumn("90 % INTERVAL", right=True, spare=2),
        TextColumn("DIFFERENCE", right=True),
        TextColumn("90 % INTERVAL", right=True, spare=1),
        TextColumn(""),
    )


def _row(each: Foretold) -> list[Cell | str]:
    amount = partial(amount_of, each.unit, unpriced=each.unpriced)
    recorded = "" if each.recorded is None else amount(each.recorded)
    changed, moved = each.changed, each.difference
    if changed is None:
        return [each.name, recorded, "", "", "", "", ""]
    value, *ends = (amount(_whole(each, figure)) for figure in (changed.value, changed.low, changed.high))
    values = [recorded, value, _interval(ends)]
    if moved is None:
        return [each.name, *values, "", "", ""]
    if each.verdict == "same" or moved.low == moved.high == 0:
        return [each.name, *values, Cell("=", "dim"), "", ""]
    style = _STYLES.get(each.verdict, "")
    texts = [_difference(each, share) for share in (moved.value, moved.low, moved.high)]
    return [each.name, *values, Cell(texts[0], style), _interval(texts[1:]), Cell(each.verdict, style)]


def _whole(each: Foretold, value: float) -> float:
    return round(value) if each.unit == "count" else value


def _interval(ends: Iterable[str]) -> str:
    low, high = ends
    return "" if low == high else f"{low} to {high}"


def _difference(each: Foretold, value: float) -> str:
    if each.by_share:
        if abs(value) < 0.0005:
            return "0.0 %"
        return f"{100 * value:+.1f} %" if abs(value) < 0.995 else f"{100 * value:+,.0f} %"
    text = amount_of(each.unit, _whole(each, abs(value)))
    return text if text == amount_of(each.unit, 0.0) else f"{'+' if value > 0 else '-'}{text}"


def _items(texts: Iterable[str], room: int | None) -> list[str]:
    rows = []
    for text in texts:
        first, *others = wrapped(printable(text), None if room is None else room - 2)
        rows += [f"- {first}", *(f"  {line}" for line in others)]
    return rows


def _paragraphs(texts: Iterable[tuple[str, str]], room: int | None) -> list[str]:
    return [styled(line, style) for text, style in texts if text for line in wrapped(text, room)]


def as_json(recording: Recording, prediction: Prediction, result: Answer) -> dict[str, object]:
    """Return the answer for programs."""
    return {
        "journal": recording.name,
        "source": recording.began.source,
        "proxies": recording.trace.proxies,
        "apart": recording.apart,
        "changes": {change.name: change.value for change in result.changes},
        "sentence": result.sentence,
        "reason": result.reason,
        "finishes_less": result.finishes_less,
        "columns": result.titles,
        "figures": [
            {
                "name": each.name.strip(),
                "unit": each.unit,
                "recorded": each.recorded,
                **_range_json("", each.changed),
                **_range_json("difference", each.difference),
                "difference_is": None if each.difference is None else "share" if each.by_share else each.unit,
                "verdict": each.verdict,
            }
            for each in result.figures
        ],
        "shows": result.shows,
        "held_out": {"wall_time": result.off_wall, "wait": result.off_wait, "text": result.checked},
        "doubts": result.doubts,
        "notes": result.notes,
        "recorded": prediction.real,
        "compared": prediction.recorded,
        "simulated": prediction.own,
    }


def _range_json(name: str, interval: Range | None) -> dict[str, float | None]:
    prefix = f"{name}_" if name else ""
    if interval is None:
        return {name or "value": None, f"{prefix}low": None, f"{prefix}high": None}
    value, low, high = (float(f"{each:.{_DIGITS}g}") for each in (interval.value, interval.low, interval.high))
    return {name or "value": value, f"{prefix}low": low, f"{prefix}high": high}


command = Command(_configure, _run)
