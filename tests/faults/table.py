"""The matrix as a page of the manual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from faults.cells import ATTEMPTS, Cell, Outcome
from faults.formats import APIS
from faults.upstream import Ending, Phase

_HEAD = f"""\
# Fault matrix

What an agent sees when an attempt fails, by how and when it fails. The tests play every fault on real sockets, once and
each time, for every provider format, streamed and not, compare the outcome with a rule, and write this page
(`pytest tests/faults --update-golden`). Formats: {", ".join(APIS)}. Of two entries, the first is for a fault that
strikes once, the second for one that strikes each of the {ATTEMPTS} attempts that are made here.

| entry | what the agent sees |
|---|---|
| answered | the whole answer, of the first attempt |
| retried | the whole answer, of another attempt; nothing tells that there was a first |
| 502, 504 | that status, with an error of HiveMind's in the provider's format |
| error event | what came, then one error event of HiveMind's in the provider's format, and no end of the body |
| provider's event | the provider's own error event, unchanged |
| cut | what came, and no end of the body |

In every cell the slot and the reservations are given back, and the scheduler's invariants hold after each step.
"""

_STREAMS = """\
A stream is passed on from its first content. An error event can't follow inside another event, nor in a stream that is
compressed for the agent: such a stream is cut.
"""


def page(found: Mapping[Cell, Outcome]) -> str:
    """The page for these outcomes."""
    parts = [_HEAD, "## Streams\n", _STREAMS, *_endings(found, stream=True)]
    parts += ["## Whole answers\n", *_endings(found, stream=False)]
    return "\n".join(parts)


def _endings(found: Mapping[Cell, Outcome], *, stream: bool) -> Iterator[str]:
    """A table of phases and endings; below it what is different for one format."""
    chosen = {cell: outcome for cell, outcome in found.items() if cell.stream is stream}
    rows: list[list[str]] = []
    exceptions: list[str] = []
    for phase in Phase:
        row = [phase.value]
        for ending in Ending:
            by_api = {name: _entry(chosen, name, ending, phase) for name in APIS}
            usual = most_common(by_api.values())
            row.append(usual)
            where = f"{ending.value} {phase.value}"
            exceptions += [f"- {name}, {where}: {entry}" for name, entry in by_api.items() if entry != usual]
        if any(row[1:]):
            rows.append(row)
    yield table(["", *(ending.value for ending in Ending)], rows)
    if exceptions:
        yield "Different in one format:\n"
        yield "\n".join(exceptions) + "\n"


def _entry(found: Mapping[Cell, Outcome], api: str, ending: Ending, phase: Phase) -> str:
    entries = {
        cell.lasting: str(outcome)
        for cell, outcome in found.items()
        if cell.api.name == api and (cell.fault.ending, cell.fault.phase) == (ending, phase)
    }
    return " / ".join(dict.fromkeys(entries[key] for key in sorted(entries)))


def most_common(entries: Iterable[str]) -> str:
    """The entry that most have."""
    listed = list(entries)
    return max(listed, key=listed.count)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("|  |", "| |").replace("|  |", "| |") + "\n"
    )
