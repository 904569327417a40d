"""The matrix as a page of the manual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from faults.answers import ANSWERS
from faults.cells import ATTEMPTS, Cell, Fault, Mode, Outcome
from faults.formats import APIS
from faults.mocked import MOCKED
from faults.upstream import Broken, Ending, Phase

_HEAD = f"""\
# Fault matrix

What an agent sees when an attempt fails, by how and when it fails. The tests play every fault on real sockets, once and
each time, for every provider format ({", ".join(APIS)}), streamed and not,
compare the outcome with a rule, and write this page (`pytest tests/faults --update-golden`). Of two entries, the first
is for a fault that strikes once, the second for one that strikes each of the {ATTEMPTS} attempts that are made here.

| entry | what the agent sees |
|---|---|
| answered | the whole answer, of the first attempt |
| retried | the whole answer, of another attempt; nothing tells that there was a first |
| 502, 504 | that status, with an error of HiveMind's in the provider's format |
| error event | what came, then one error event of HiveMind's in the provider's format, and no end of the body |
| provider's event | the provider's own error event, unchanged |
| provider's status | the same in an answer with its status, because most agents ask again after that alone |
| passed on | the upstream's answer, unchanged but for a Retry-After that the agent obeys |

In every cell the slot and the reservations are given back, and the scheduler's invariants hold after each step.
"""

_STREAMS = """\
A stream is passed on from its first content, event by event: what has come of an event waits for the rest, so that an
error event can follow at any time. None can follow in a stream that is compressed for the agent or has a stated length,
nor inside an event of more than 64 KiB: such a stream is cut without its end.
"""
_OTHERS = """\
Errors are in the provider's format where nothing else is said. Pages are HTML, from what stands before the provider,
such as Cloudflare (520 to 530).
"""
_BEGUN = """\
A stream that waits long, here after a first attempt that failed, is begun with keepalives, which the provider's clients
skip. From then on an error can only be an event. A "last event" is one of HiveMind's, after which the body is ended: no
content has come that could be taken for a whole answer.
"""
_STORED = """\
A request that continues state on the server (here `store: true` of the Responses API) is only sent again where it
certainly never arrived, or was refused (429, or 503 and 529 that say overloaded). Other answers than those asked for
are passed on at once, or are a 502 if they can't be.
"""
_ENCODED = """\
Of a stream that the upstream compressed for the agent; faults that strike once. "Cut": what came, and no end of the
body.
"""


def page(found: Mapping[Cell, Outcome]) -> str:
    """The page for these outcomes."""
    usual, begun, stored, encoded = (
        Folded({cell: outcome for cell, outcome in found.items() if cell.mode is mode}) for mode in Mode
    )
    parts = [_HEAD, "## Streams\n", _STREAMS, *_endings(usual, stream=True)]
    parts += ["## Whole answers\n", *_endings(usual, stream=False)]
    parts += ["## Other answers\n", _OTHERS, *_together(usual, "upstream's answers", ANSWERS)]
    parts += ["## Faults of the mock provider\n", *_together(usual, "faults", MOCKED)]
    parts += ["## Streams begun with keepalives\n", _BEGUN, *_endings(begun, stream=True)]
    parts += [*_together(begun, "upstream's answers", ANSWERS)]
    parts += ["## Requests with state on the server\n", _STORED, *_endings(stored, stream=True)]
    parts += ["For whole answers:\n", *_endings(stored, stream=False)]
    return "\n".join([*parts, "## Compressed streams\n", _ENCODED, *_endings(encoded, stream=True)])


def _endings(folded: Folded, *, stream: bool) -> Iterator[str]:
    """A table of phases and endings; below it what is different for one format."""
    rows = [[phase.value, *(folded.entry(Broken(ending, phase), stream) for ending in Ending)] for phase in Phase]
    yield table(["", *(ending.value for ending in Ending)], *(row for row in rows if any(row[1:])))
    yield from folded.exceptions()


def _together(folded: Folded, title: str, faults: Iterable[Fault]) -> Iterator[str]:
    """A table of faults, those together that have the same outcome; below it what is different for one format."""
    rows = dict[tuple[str, str], list[str]]()
    for fault in faults:
        rows.setdefault((folded.entry(fault, False), folded.entry(fault, True)), []).append(fault.name)
    yield table([title, "for a whole answer", "for a stream"], *([", ".join(rows[k]), *k] for k in rows))
    yield from folded.exceptions()


class Folded:
    """Outcomes without the formats, where those agree."""

    def __init__(self, found: Mapping[Cell, Outcome]) -> None:
        self._entries: dict[tuple[Fault, bool], dict[str, dict[bool, str]]] = {}
        for cell, outcome in found.items():
            by_api = self._entries.setdefault((cell.fault, cell.stream), {})
            by_api.setdefault(cell.api.name, {})[cell.lasting] = str(outcome)
        self._exceptions: list[str] = []

    def entry(self, fault: Fault, stream: bool) -> str:
        """What comes of a fault that strikes once, and each time, in most formats."""
        by_api = {
            name: " / ".join(dict.fromkeys(entries[lasting] for lasting in sorted(entries)))
            for name, entries in self._entries.get((fault, stream), {}).items()
        }
        entries = list(by_api.values())
        usual = max(entries, key=entries.count, default="")
        self._exceptions += [f"- {name}, {fault.name}: {entry}" for name, entry in by_api.items() if entry != usual]
        return usual

    def exceptions(self) -> Iterator[str]:
        """Lines about the formats that differ from most in the entries since the last call."""
        if self._exceptions:
            yield "Different in one format:\n"
            yield "\n".join(self._exceptions) + "\n"
        self._exceptions.clear()


def table(*rows: list[str]) -> str:
    """A table in Markdown, without the columns that are empty; its first row is the head."""
    used = [at for at in range(len(rows[0])) if any(row[at] for row in rows[1:])]
    head, *others = ([row[at] for at in used] for row in rows)
    lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *others)]
    return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |") + "\n"
