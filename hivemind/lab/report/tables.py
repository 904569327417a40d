"""The tables of a report, for the page and for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from hivemind.journal.past import TokenSpending
from hivemind.journal.wait_causes import CAUSES
from hivemind.lab.report import headline, output
from hivemind.lab.report.agents import AgentStats
from hivemind.lab.report.fold import COMMANDS_KEPT
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import OUTCOMES, clean, lane_state, shortened
from hivemind.text.humanise import NOTHING, count, dollars, duration, exit_text, plural, share
from hivemind.world.lines import words

AGENTS_LISTED = 200
CHANGES_LISTED = 100
_LANES_LISTED = 10
_COMMANDS_IN_SUMMARY = 20
_ENDS = {"answered": "answered", "failed": "error", "refused": "refused", "left": "client left", "": "not over"}


class ReportTable(Struct, frozen=True):
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


def waits(run: RecordedRun) -> ReportTable:
    """Return the waits by priority."""
    rows = [
        [name, f"{each.requests:,}", duration(each.p50_s), duration(each.p95_s), duration(each.longest_s)]
        for name, each in run.figures.waits.items()
        if "waits" not in run.began.unknown_figures
    ]
    return ReportTable(("priority", ">requests", ">p50 wait", ">p95 wait", ">longest"), rows)


def causes(run: RecordedRun) -> ReportTable:
    """Return why requests waited, by lane where several had waits."""
    lanes = {lane: causes for lane, causes in run.waits_by_lane.items() if causes.seconds}
    total_s = run.figures.causes.total_s
    if len(lanes) <= 1:
        found = run.figures.causes.by_size()
        rows = [[CAUSES[cause], duration(seconds), share(seconds / total_s)] for cause, seconds in found]
        return ReportTable(("why", ">waited", ">share"), rows)
    rows = [
        [shortened(lane), CAUSES[cause], duration(seconds), share(seconds / total_s)]
        for lane, each in sorted(lanes.items(), key=lambda item: -item[1].total_s)[:_LANES_LISTED]
        for cause, seconds in each.by_size()
    ]
    omitted = len(lanes) - _LANES_LISTED
    note = f"{plural(omitted, 'more lane')} had waits." if omitted > 0 else ""
    return ReportTable(("lane", "why", ">waited", ">share"), rows, note)


def faults(run: RecordedRun) -> ReportTable:
    """Return the failed attempts by kind."""
    kinds = run.fold.faults.most_frequent()
    outcomes = [each for each in OUTCOMES if any(kind.outcomes[each] for _, kind in kinds)]
    columns = ("fault", "status", ">attempts", ">retried", *(f">{OUTCOMES[each]}" for each in outcomes))
    rows = []
    for name, kind in kinds:
        statuses = ", ".join(str(status) for status, _ in kind.statuses.most_common(4) if status is not None)
        numbers = [kind.count, kind.retried, *(kind.outcomes[each] for each in outcomes)]
        rows.append([words(name), statuses or "none", *(f"{each:,}" for each in numbers)])
    return ReportTable(columns, rows)


def limit_changes(run: RecordedRun) -> ReportTable:
    """Return cuts, pauses and times without a closed circuit, in order."""
    found: list[tuple[float, list[str]]] = []
    omitted = 0
    for lane in run.fold.lanes.values():
        name = shortened(lane.key)
        for cut in lane.cuts.kept:
            found.append((cut.at, [name, f"level cut to {cut.level:.1f}", words(clean(cut.cause)), ""]))
        for each in lane.spans.kept:
            row = [name, lane_state(each.state), shortened(each.cause), duration(each.ends - each.begins)]
            found.append((each.begins, row))
        omitted += lane.cuts.omitted + lane.spans.omitted
    for begins, ends, lost in run.fold.gaps.kept:
        found.append((begins, ["", f"{plural(lost, 'event')} missing", "", duration(ends - begins)]))
    found.sort(key=lambda each: each[0])
    rows = [[run.clock(at), *row] for at, row in found[:CHANGES_LISTED]]
    return ReportTable(("when", "lane", "what", "why", ">for"), rows, _omitted(omitted + len(found) - len(rows)))


_SOURCES = {"headers": "the provider's headers", "settings": "the settings", "refused": "the provider's refusals"}
"""How a limit is known, by the source of its window; any other, as journals of before have it, is assumed."""


def windows(run: RecordedRun) -> ReportTable:
    """Return every rate window."""
    rows = [
        [
            shortened(lane.key),
            shortened(window.family),
            window.kind.value,
            count(window.limit),
            _SOURCES.get(window.source, "our own assumption"),
            share(window.fullest),
            "the provider's headers" if window.told else "our own sum",
        ]
        for lane, window in run.windows()
    ]
    return ReportTable(("lane", "models", "counts", ">limit", "known by", ">fullest", "known by"), rows)


def models(run: RecordedRun) -> ReportTable:
    """Return the spending on each model."""
    rows = [
        [shortened(name), *map(count, (spent.input, spent.cached, spent.output, spent.wasted)), cost(spent)]
        for name, spent in run.models.items()
    ]
    return ReportTable(("model", ">input tokens", ">of these cached", ">output tokens", ">wasted", ">dollars"), rows)


def agents(run: RecordedRun) -> ReportTable:
    """Return the agents that sent requests; of many, the ones that used most."""
    listed = active = [agent for agent in run.fold.agents.values() if agent.requests]
    note = ""
    if len(active) > AGENTS_LISTED:
        most = sorted(active, key=lambda each: (-each.spent.tokens, -each.requests))[:AGENTS_LISTED]
        kept = {agent.name for agent in most}
        listed = [agent for agent in active if agent.name in kept]
        note = f"The {AGENTS_LISTED} that used most, of {len(active):,}."
    columns = ["agent", "client", ">requests", ">answered", ">errors seen", ">retries", ">waited", "mostly", ">tokens"]
    rows = [_agent(run, agent) for agent in listed]
    columns += [">dollars", "its last request"]
    if any(any(agent.caches.values()) for agent in listed):
        whys = {"order": "saved by order", "waited": "expired waiting", "thought": "before", "switched": "by switches"}
        whys = {why: head for why, head in whys.items() if why != "switched" or any(one.caches[why] for one in listed)}
        columns += [f">{head}" for head in whys.values()]
        for row, agent in zip(rows, listed, strict=True):
            row += [dollars(agent.caches[why]) for why in whys]
    return ReportTable(columns, rows, note)


def _agent(run: RecordedRun, agent: AgentStats) -> list[str]:
    end = _ENDS[agent.last_end]
    if agent.exit_code:
        end += f"; {'died' if agent.died else 'process ended'} ({exit_text(agent.exit_code)})"
    numbers = (agent.requests, agent.answered, agent.failed + agent.refused, agent.retries)
    unknown = run.began.unknown_figures
    return [
        shortened(agent.name),
        shortened(agent.client, 30),
        *(f"{each:,}" for each in (numbers[:2] if "retries" in unknown else numbers)),
        *([NOTHING, NOTHING] if "retries" in unknown else []),
        NOTHING if "waits" in unknown else duration(run.times.get(agent.name, (0.0, 0.0))[1]),
        CAUSES.get(run.waits_by_agent[agent.name].largest, "") if agent.name in run.waits_by_agent else "",
        *([NOTHING, NOTHING] if "tokens" in unknown else [count(agent.spent.tokens), cost(agent.spent)]),
        end,
    ]


def commands(run: RecordedRun, most: int = COMMANDS_KEPT) -> ReportTable:
    """Return the commands of operators, notes on the run among them; at most so many, the first ones."""
    found = run.fold.commands
    rows = [
        [run.clock(each.at), *map(shortened, (each.who, each.about)), shortened(each.text, 200)]
        for each in found.kept[:most]
    ]
    return ReportTable(("when", "who", "about", "what"), rows, _omitted(found.omitted + len(found.kept) - len(rows)))


def cost(spent: TokenSpending) -> str:
    """Return the cost in dollars, as far as prices are known."""
    if spent.unpriced and not spent.dollars:
        return "not known"
    return dollars(spent.dollars, spent.unpriced)


def _omitted(rows: int) -> str:
    return f"{rows:,} more aren't listed." if rows else ""


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
"""What Markdown, HTML or GitHub (mathematics, numbers of issues) would take for more than a sign."""
_LINK = re.compile(r"(?i)@|#(?=\d)|\bgh(?=-\d)|\b(?:https?|ftp|mailto|xmpp)(?=:)|\bwww(?=\.)|(?<!\d):(?=[\w+-]+:)")
"""After these GitHub makes links, mentions and small pictures of what follows, escaped or not."""
_AT_START = re.compile(r"^(\d*)([-+=]|(?<=\d)[.)])(?=\s|[-=]|$)")
"""At the beginning of a line, what would make it a list or a heading."""
_JOINER = "\N{WORD JOINER}"
"""Unseen; keeps two signs from being read as one thing."""


def build(run: RecordedRun, title: str = "") -> str:
    """The summary of a run, with a line's end at its end."""
    heading = shortened(title, 200) or f"HiveMind run {shortened(run.began.journal)}"
    parts = [
        output.MARKS[1],
        f"### {escaped(heading)}",
        f"{escaped(run.date)}, recorded for {escaped(duration(run.fold.ended_at))}",
        *(f"> {escaped(clean(note))}" for note in run.notes),
        _table(
            ReportTable(
                ("what", ">figure", "more"), [[each.what, each.value, each.more] for each in headline.facts(run)]
            )
        ),
        f"**{headline.saving_title(run)}**",
        "\n".join(escaped(line) for line in headline.saving(run)),
    ]
    for name, table in (
        ("Faults", faults(run)),
        ("Waits", waits(run)),
        ("Why requests waited", causes(run)),
        ("Commands of operators", commands(run, _COMMANDS_IN_SUMMARY)),
    ):
        if table.rows:
            parts += [f"**{name}**", _table(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """A text that Markdown takes as it is, on one line."""
    shown = _LINK.sub(rf"\g<0>{_JOINER}", " ".join(text.split()))
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", shown))


def _table(table: ReportTable) -> str:
    lines = [
        _line(table.titles),
        _line(["---:" if numeric else "---" for numeric in table.numeric], plain=True),
        *(_line(row) for row in table.rows),
    ]
    return "\n".join((*lines, f"\n{escaped(table.note)}")) if table.note else "\n".join(lines)


def _line(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(each if plain else escaped(each) for each in cells)} |"
