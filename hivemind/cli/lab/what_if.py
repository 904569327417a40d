"""`hivemind what-if`: what other settings would have done with recorded traffic."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemind.cli.address import FILE_HELP, add_folder_flags
from hivemind.cli.journals import find_journals, prices_at, progress_line
from hivemind.cli.lab import comparison
from hivemind.cli.plugin import Command
from hivemind.console import print_json, printable
from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.comparison import extrapolation_notes
from hivemind.lab.simulate.overrides import Change, agent_commands, parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import Faults, simulate, writable, write_journal
from hivemind.lab.tune.workers import SimulationJob, workers
from hivemind.scheduler.types import Price
from hivemind.text.humanise import did_you_mean, duration, plural
from hivemind.text.table import show, styled, width, wrapped

_MOST_SEEDS = 1000
_AGENTS_NAMED = 8


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of a recording, its simulation, and its simulation with changes."""

    recording: Recording
    changes: tuple[Change, ...]
    faults: Faults
    replayed: tuple[Figures, ...]
    """Simulated with the recorded settings, by seed."""
    changed: tuple[Figures, ...]
    """Simulated with the changes, by seed; empty if there are none."""

    @property
    def notes(self) -> list[str]:
        """What limits the recording and the model."""
        return [*self.recording.warnings, *extrapolation_notes(self.recording.figures, self.changed)]


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--set NAME=VALUE ...] [flags]"
    add = parser.add_argument
    add("file", metavar="FILE", nargs="+", help=f"{FILE_HELP}; of several proxies: as if they had shared their keys")
    setting = "a setting of `hivemind proxy --help`, or agent.NAME.priority, agent.NAME.budget; may be repeated"
    add("--set", metavar="NAME=VALUE", action="append", default=[], help=setting)
    add("--seeds", metavar="N", type=int, help="draw faults and latencies anew N times [once]")
    add("--seed", metavar="S", type=int, default=0, help="the first seed [0]")
    faults = "faults as recorded, or drawn at the recorded rates [recorded; drawn with --seeds]"
    add("--faults", choices=("recorded", "drawn"), help=faults)
    add("--out", metavar="FILE", help="write the simulated run as a journal")
    add("--force", action="store_true", help="with --out: overwrite the file")
    add("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    faults, seeds = _seeds(namespace)
    changes = parse_changes(namespace.set)
    out = None if namespace.out is None else writable(Path(namespace.out).expanduser(), force=namespace.force)
    paths = tuple(find_journals(namespace, namespace.file))
    price = prices_at()
    with progress_line("reading"):
        recording = load(paths, price)
    with progress_line("simulating"):
        found = compared(recording, paths, changes, faults, seeds, price)
    if out is not None:
        write_journal(recording, changes, out, faults, seeds[0], force=namespace.force)
    if namespace.json:
        return print_json(as_json(found))
    show(as_text(found))
    return 0


def _seeds(namespace: argparse.Namespace) -> tuple[Faults, range]:
    count = namespace.seeds
    if count is not None and not 1 <= count <= _MOST_SEEDS:
        raise UsageError(f"--seeds {count}: must be a whole number from 1 to {_MOST_SEEDS:,}")
    faults: Faults = namespace.faults or ("recorded" if count is None else "drawn")
    if count is not None and faults == "recorded":
        raise UsageError("--seeds: recorded faults are always the same; it goes with --faults drawn")
    if namespace.out is not None and (count or 1) > 1:
        raise UsageError("--out: writes one run, so it goes with one seed (--seed says which)")
    if namespace.force and namespace.out is None:
        raise UsageError("--force: goes with --out")
    return faults, range(namespace.seed, namespace.seed + (count or 1))


def compared(
    recording: Recording,
    paths: tuple[Path, ...],
    changes: tuple[Change, ...],
    faults: Faults,
    seeds: Sequence[int],
    price: Price,
) -> Compared:
    """Simulate with the recorded settings and, if there are any, with the changes.

    Raises: UsageError: the changes contradict each other, or name an agent that isn't in the recording.
    """
    _check_agents(recording, changes)
    first = simulate(recording, changes, seed=seeds[0], faults=faults, price=price)  # raises if changes are wrong
    jobs = [SimulationJob(0, (), seed, faults) for seed in seeds]
    jobs += [SimulationJob(0, changes, seed, faults) for seed in seeds[1:]] if changes else []
    found = _simulated(recording, paths, price, jobs if changes else jobs[1:])
    if not changes:
        return Compared(recording, (), faults, (first, *found), ())
    count = len(seeds)
    return Compared(recording, changes, faults, tuple(found[:count]), (first, *found[count:]))


def _check_agents(recording: Recording, changes: Sequence[Change]) -> None:
    known = {each.arrived.agent for each in recording.trace.requests}
    for order in agent_commands(changes):
        if order.agent not in known:
            some = ", ".join(sorted(known)[:_AGENTS_NAMED]) + (" and others" if len(known) > _AGENTS_NAMED else "")
            hint = did_you_mean(order.agent or "", known) or f"; there are {some}"
            raise UsageError(f"{order.agent}: no agent of that name is in {recording.name}{printable(hint)}")


def _simulated(
    recording: Recording, paths: tuple[Path, ...], price: Price, jobs: Sequence[SimulationJob]
) -> list[Figures]:
    """Simulate on all cores if that is worth starting processes."""
    if len(jobs) < 4:
        return [simulate(recording, job.changes, seed=job.seed, faults=job.faults, price=price) for job in jobs]
    with workers([paths]) as runs:
        return [figures for figures in runs(jobs) if figures is not None]


def as_text(found: Compared) -> list[str]:
    """Return the result for people."""
    recording, room = found.recording, width()
    figures = recording.figures
    what = f"{plural(figures.agents, 'agent')}, {plural(figures.requests, 'request')}, {duration(figures.wall_s)}"
    head = [(f"{printable(recording.name)}: {what}", "bold")]
    if found.changes:
        head.append((f"changed: {', '.join(map(str, found.changes))}", "bold"))
    if len(found.replayed) > 1:
        head.append((f"means of {len(found.replayed)} runs, faults and latencies drawn anew for each", "dim"))
    accuracy = comparison.accuracy(figures, found.replayed, drawn=found.faults == "drawn")
    trust, other = (accuracy.text, accuracy.style), ""
    if recording.began.foreign:
        trust, other = (comparison.FOREIGN, "dim"), comparison.WITH_HIVEMIND
    elif recording.apart:
        trust, other = (comparison.APART, "dim"), comparison.AS_ONE
    notes = [trust, *((f"Note: {printable(line)}.", "warn") for line in found.notes)]
    table = comparison.table(figures, found.replayed, found.changed, room, other=other)
    return [*_paragraphs(head, room), "", *table, "", *_paragraphs(notes, room)]


def _paragraphs(texts: Sequence[tuple[str, str]], room: int | None) -> list[str]:
    return [styled(line, style) for text, style in texts for line in wrapped(text, room)]


def as_json(found: Compared) -> dict[str, object]:
    """Return the result for programs."""
    return {
        "journal": found.recording.name,
        "source": found.recording.began.source,
        "proxies": found.recording.trace.proxies,
        "apart": found.recording.apart,
        "changes": {change.name: change.value for change in found.changes},
        "faults": found.faults,
        "recorded": found.recording.figures,
        "replayed": found.replayed,
        "changed": found.changed,
        "notes": found.notes,
    }


command = Command(_configure, _run)
