"""`python -m benchmarks.refusals.figures FILE FOLDER`: what was measured, as tables of the manual.

Writes `refusals-figures.md` (refused for good), `refusals-passing.md` (for a while) and `refusals-forms.md` (what each
client is therefore told) into the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.refusals.__main__ import FINAL, PASSING, Case, Found
from benchmarks.refusals.clients import AGENTS, SDKS
from benchmarks.refusals.provider import SILENCE_S
from hivemind.providers.clients import PROGRAMS, UNKNOWN, Client


def final_text(found: Sequence[Found]) -> str:
    """Return a table for the agents, and one for the SDKs."""
    names = [f"{case.status} {case.when}" for case in FINAL]
    return "\n".join(_table(names, FINAL, _final_cell, group, found) for group in (_AGENTS, _SDKS))


def passing_text(found: Sequence[Found]) -> str:
    """Return a table for all."""
    names = [_name(case) for case in PASSING]
    return _table(names, PASSING, _passing_cell, (*_AGENTS, *_SDKS), found)


def forms_text() -> str:
    """Return what each client is told: the table that the proxy goes by."""
    names = (
        "tries again",
        "obeys Retry-After up to",
        "is told at least",
        "after an error in a stream",
        "measured with",
    )
    rows = [("client", *names), ("---", "--:", "--:", "--:", "---", "---"), *map(_form, (c for _, c in PROGRAMS))]
    rows.append(_form(Client("others", try_again=UNKNOWN)))
    return "".join(f"| {' | '.join(row)} |\n" for row in dict.fromkeys(rows))


def _form(client: Client) -> tuple[str, ...]:
    form = client.try_again
    name = client.name or ("other SDKs" if form.seen else "Node's own fetch")
    if not form.retries:
        return name, "never", "", "", "ends", form.seen
    longest = f"{form.longest_s:g} s" if form.longest_s else "none"
    least = f"{form.delay_s(None)} s" if form.longest_s else ""
    held = f", after {form.hold_s:g} s" if form.hold_s else ""
    after = "tries again" if form.in_streams else "ends"
    again = "once" if form.retries == 1 else f"{form.retries} times"
    return name, again, longest, f"{least}{held}".removeprefix(", "), after, form.seen


_AGENTS, _SDKS = [client.name for client in AGENTS], [client.name for client in SDKS]


def _name(case: Case) -> str:
    if case.when == "silent":
        return f"first byte after {SILENCE_S} s"
    if case.when.endswith("in a stream"):
        return "error event"
    return f"{case.status}" if case.retry_after_s is None else f"{case.status}, {case.retry_after_s} s"


def _table(
    names: Sequence[str],
    cases: Sequence[Case],
    cell: Callable[[Found], str],
    clients: Sequence[str],
    found: Sequence[Found],
) -> str:
    lines = [f"| client | {' | '.join(names)} |\n|---|{'--:|' * len(names)}\n"]
    for client in clients:
        mine = {each.case: each for each in found if each.client == client}
        if mine:
            cells = [cell(mine[case]) if case in mine else "" for case in cases]
            lines.append(f"| {client} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _final_cell(one: Found) -> str:
    requests = len(one.refused)
    if not requests:
        return ""  # it called no tool in its session
    count = f"{requests}" if one.exit_code is not None else f"{requests} and more"
    took = f" in {one.took_s:.0f} s" if requests > 2 else ""
    return f"{count}{took}{'' if one.shown else ', not shown'}"


def _passing_cell(one: Found) -> str:
    lives = one.exit_code == 0 and one.answered
    if not one.refused:
        return "lives" if lives else "ends"
    return f"{'lives' if lives else 'ends'}, {len(one.refused)} in {one.refused[-1]:.0f} s"


def main() -> int:
    """Read what was measured, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.refusals.figures", description=__doc__)
    parser.add_argument("found", type=Path, help="what benchmarks.refusals --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    namespace = parser.parse_args()
    found = msgspec.json.decode(namespace.found.read_bytes(), type=list[Found])
    texts = {"figures": final_text(found), "passing": passing_text(found), "forms": forms_text()}
    for name, text in texts.items():
        (namespace.folder / f"refusals-{name}.md").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
