"""What a report tells in tables, for a page and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hivemind.lab.report.agents import AgentStats, TokenSpending
from hivemind.lab.report.names import OUTCOMES, STRETCHES
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.words import clean, number, shortened
from hivemind.text.humanise import count, dollars, duration
from hivemind.world.lines import words

AGENTS_LISTED = 200
MARKS_LISTED = 100
_ENDS = {"answered": "answered", "failed": "error", "refused": "refused", "left": "client left", "": "not over"}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain text."""

    columns: Sequence[str]
    """Titles; a leading `>` marks a column of numbers and isn't shown."""
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What the table leaves out."""

    @property
    def titles(self) -> list[str]:
        return [column.removeprefix(">") for column in self.columns]

    @property
    def numeric(self) -> list[bool]:
        return [column.startswith(">") for column in self.columns]


def waits(run: RecordedRun) -> Table:
    """By priority."""
    rows = [
        [name, number(each.requests), duration(each.p50_s), duration(each.p95_s), duration(each.longest_s)]
        for name, each in run.figures.waits.items()
    ]
    return Table(("priority", ">requests", ">half waited at most", ">95 % at most", ">longest"), rows)


def faults(run: RecordedRun) -> Table:
    """By kind."""
    kinds = run.fold.faults.by_number()
    outcomes = [each for each in OUTCOMES if any(kind.became[each] for _, kind in kinds)]
    titles = ("fault", "status", ">met", ">tried again", *(f">{OUTCOMES[each][0]}" for each in outcomes))
    rows = []
    for name, kind in kinds:
        statuses = ", ".join(str(status) for status, _ in kind.statuses.most_common(4) if status is not None)
        became = [number(kind.became[each]) for each in outcomes]
        rows.append([words(name), statuses or "none", number(kind.faults), number(kind.retried), *became])
    return Table(titles, rows)


def limit_changes(run: RecordedRun) -> Table:
    """Cuts, parkings and times without a closed circuit, in order."""
    found: list[tuple[float, list[str]]] = []
    untold = 0
    for lane in run.fold.lanes.values():
        name = shortened(lane.key)
        for cut in lane.cuts.kept:
            found.append((cut.at, [name, f"level cut to {cut.level:.1f}", words(clean(cut.cause)), ""]))
        for each in lane.spans.kept:
            held = duration(each.ends - each.begins)
            found.append(
                (
                    each.begins,
                    [name, STRETCHES.get(each.what) or f"circuit {shortened(each.what)}", shortened(each.cause), held],
                )
            )
        untold += lane.cuts.seen - len(lane.cuts.kept) + lane.spans.seen - len(lane.spans.kept)
    for begins, ends, lost in run.fold.gaps.kept:
        found.append((begins, ["", f"{lost:,} events missing", "", duration(ends - begins)]))
    found.sort(key=lambda each: each[0])
    untold += max(0, len(found) - MARKS_LISTED)
    rows = [[run.clock(at), *row] for at, row in found[:MARKS_LISTED]]
    return Table(("when", "lane", "what", "why", ">for"), rows, f"{untold:,} more aren't listed." if untold else "")


def windows(run: RecordedRun) -> Table:
    """Every rate window."""
    rows = [
        [
            shortened(lane.key),
            shortened(window.family),
            window.kind,
            count(window.limit),
            {"headers": "the provider's headers", "settings": "the settings"}.get(window.source, "the usual"),
            f"{window.fullest:.0%}".replace("%", " %"),
        ]
        for lane in run.fold.lanes.values()
        for window in lane.windows.values()
    ]
    return Table(("lane", "models", "counts", ">limit", "known by", ">fullest"), rows)


def models(run: RecordedRun) -> Table:
    """What was spent on each model."""
    rows = [
        [
            shortened(name),
            count(spent.input),
            count(spent.cached),
            count(spent.output),
            count(spent.wasted),
            cost(spent),
        ]
        for name, spent in run.models.items()
    ]
    return Table(("model", ">input tokens", ">of these cached", ">output tokens", ">wasted", ">dollars"), rows)


def agents(run: RecordedRun) -> Table:
    """Those that asked for something; of many, the ones that used most."""
    asked = [agent for agent in run.fold.agents.values() if agent.requests]
    listed = asked
    note = ""
    if len(asked) > AGENTS_LISTED:
        most = sorted(asked, key=lambda each: (-each.spent.tokens, -each.requests))[:AGENTS_LISTED]
        kept = {agent.name for agent in most}
        listed = [agent for agent in asked if agent.name in kept]
        note = f"The {AGENTS_LISTED} that used most, of {len(asked):,}."
    titles = (
        "agent",
        "client",
        ">requests",
        ">answered",
        ">errors seen",
        ">retries",
        ">waited",
        ">tokens",
        ">dollars",
        "its last request",
    )
    return Table(titles, [_agent(run, agent) for agent in listed], note)


def _agent(run: RecordedRun, agent: AgentStats) -> list[str]:
    waited = run.times.get(agent.name, (0.0, 0.0))[1]
    end = _ENDS[agent.last_end]
    if agent.exit_code:
        end += f"; process ended with {agent.exit_code}"
    return [
        shortened(agent.name),
        shortened(agent.client, 30),
        number(agent.requests),
        number(agent.answered),
        number(agent.failed + agent.refused),
        number(agent.retries),
        duration(waited),
        count(agent.spent.tokens),
        cost(agent.spent),
        end,
    ]


def commands(run: RecordedRun) -> Table:
    """What operators did."""
    said = run.fold.words
    rows = [
        [run.clock(word.at), shortened(word.who), shortened(word.about), shortened(word.text, 200)]
        for word in said.kept
    ]
    more = said.seen - len(said.kept)
    return Table(("when", "who", "about", "what"), rows, f"{more:,} more aren't listed." if more else "")


def settings(run: RecordedRun) -> Table:
    """Those that weren't left as they usually are."""
    several = len({each.upstream for each in run.settings if each.upstream}) > 1
    titles = ("setting", "value", "usually", *(("upstream",) if several else ()))
    rows = [
        [each.name, shortened(each.value), shortened(each.default), *((shortened(each.upstream),) if several else ())]
        for each in run.settings
    ]
    return Table(titles, rows)


def cost(spent: TokenSpending) -> str:
    """In dollars, as far as prices are known."""
    if spent.unpriced and not spent.dollars:
        return "not known"
    return dollars(spent.dollars, spent.unpriced)
