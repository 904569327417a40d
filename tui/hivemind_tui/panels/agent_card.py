"""The selected agent beside the table: state, open requests, tokens, budget, and what each key would do now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from textual.strip import Strip

from hivemind.scheduler.types import Priority
from hivemind.setup.model import Target
from hivemind.text.humanise import NOTHING, short_count, short_duration, short_plural
from hivemind.world.snapshot import AgentView, TicketView
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.panels.agent_page import budget_fact, cost_of, requests_fact, state_fact, tokens_fact
from hivemind_tui.panels.agent_table import nudged, process, state
from hivemind_tui.render import wait_reason
from hivemind_tui.render.budgets import bar, blind, ceilings, covered, figures, period
from hivemind_tui.render.format import about, fit, wrapped
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting, linked
from hivemind_tui.render.rows import Fact, fact_rows, hanging, named
from hivemind_tui.state.view import View

TALL = 18
"""Rows from which a card has a row for every fact."""
_LABEL = 13
_BAR = 16
_OPEN = 6
"""Most open requests that are listed."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: one fact a row where it is tall, the same facts side by side where it is short."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    if agent is None:
        return pen.message("Agent", "No agent yet. The selected agent is shown here.", width, height)
    body = _tall(view, agent, cells, rows, pen) if rows >= TALL else _short(view, agent, cells, rows, pen)
    marked = f"keys go to {short_plural(len(view.marked), 'marked agent')}" if view.marked else ""
    return pen.frame(f"Agent {agent.name}", marked, body, width, height)


def _tickets(view: View, agent: AgentView) -> list[TicketView]:
    return [each for each in chain(view.snapshot.slots, view.snapshot.queue) if each.agent == agent.name]


def _tall(view: View, agent: AgentView, cells: int, rows: int, pen: Pen) -> list[Row]:
    url = Target(view.snapshot.address, agent.name, token=view.token).base
    parts: list[list[Row]] = [
        _who(agent, cells, pen),
        _tokens(agent, pen),
        _money(agent, pen),
        _requests(agent, cells),
        [[("base URL for it, y copies it", "dim")], *hanging(url, "info", cells)],
        _keys_listed(view, cells),
    ]
    parts.insert(1, _open(view, agent, cells, rows - sum(map(len, parts)), pen))
    gaps = rows - sum(map(len, parts)) >= len(parts) - 1
    lines: list[Row] = []
    for part in parts:
        lines += [*([[]] if lines and part and gaps else []), *part]
    return lines


def labelled(label: str, *spans: Span, width: int = _LABEL) -> Row:
    """Return a row of a tall card."""
    return [(fit(label, width), "dim"), *spans]


def _who(agent: AgentView, cells: int, pen: Pen) -> list[Row]:
    started = f", started by {agent.parent}" if agent.parent else ""
    seen = f"{agent.client or 'unknown client'}{started}, seen {short_duration(agent.last_seen_s)} ago"
    ran = process(agent)
    work: list[Chunk] = [(0, named("process", *ran))] if ran is not None else []
    work += [(1, named("task", agent.task))] if agent.task is not None else []
    return [_state(agent, pen), *hanging(seen, "dim", cells), *([fitting(cells, work)] if work else [])]


def _state(agent: AgentView, pen: Pen) -> Row:
    word, colour = PRIORITIES[agent.priority]
    spans: list[Span] = [state(agent, pen), ("  priority ", "dim"), (word, colour)]
    if agent.nudge:
        spans.append((f" {nudged(agent, pen)} {'lowered' if agent.nudge > 0 else 'raised'} for now", "dim"))
    if agent.boosted_for_s > 0:
        spans.append((f"  {pen.glyphs.boost} boosted, {about(agent.boosted_for_s)} left", "accent"))
    if agent.paused and agent.state != "paused":
        spans.append((f"  {pen.glyphs.pause} paused", "wait"))
    if agent.stopped and agent.state != "stopped":
        spans.append((f"  {pen.glyphs.stop} stopped", "bad"))
    return spans


def _open(view: View, agent: AgentView, cells: int, room: int, pen: Pen) -> list[Row]:
    """Return each open request with how far it is or why it waits."""
    tickets = _tickets(view, agent)
    if not tickets:
        return [_unlisted(view, agent, pen)]
    parts: list[list[Row]] = []
    for ticket in tickets[:_OPEN]:
        head = [*_numbered(ticket, pen), (ticket.model, "text")]
        text, colour = _progress(view, agent, ticket)
        parts.append([head, *([(f"  {line}", colour)] for line in wrapped(text, cells - 2))])
    while len(parts) > 1 and sum(map(len, parts)) + (len(parts) < len(tickets)) > room:
        parts.pop()
    if len(parts) < len(tickets):
        parts.append([pen.more(len(tickets) - len(parts))])
    return list(chain.from_iterable(parts))


def _numbered(ticket: TicketView, pen: Pen) -> list[Span]:
    glyph, role = pen.mark(ticket.state)
    return [(f"{glyph} ", role), (f"#{ticket.ticket} ", "strong")]


def _unlisted(view: View, agent: AgentView, pen: Pen) -> Row:
    """Return what to say of an agent that has none of the tickets shown one by one."""
    behind = wait_reason.far_back(agent.state, view.snapshot.queue)
    return [(f"{pen.glyphs.clock} waits {behind} others", "wait") if behind else ("no open request", "dim")]


def _progress(view: View, agent: AgentView, ticket: TicketView) -> Span:
    again = f", try {ticket.attempt}" if ticket.attempt > 1 else ""
    since, tokens = short_duration(ticket.since_s), ticket.output_tokens
    if ticket.state == "streaming":
        pace = f", {short_count(tokens / ticket.since_s)}/s" if ticket.since_s >= 1 else ""
        return f"{short_count(tokens)} tokens in {since}{pace}{again}", "text"
    if ticket.state == "waiting":
        return f"sent {since} ago, no content yet{again}", "text"
    lane = wait_reason.lane_of(view.snapshot.lanes, ticket)
    return wait_reason.sentence(ticket, lane, agent), gate_sign(ticket.gate).role


def _tokens(agent: AgentView, pen: Pen) -> list[Row]:
    usage = agent.usage
    parts = (
        ("input", usage.input_tokens),
        ("cache read", usage.cache_read_tokens),
        ("cache written", usage.cache_write_tokens),
        ("output", usage.output_tokens),
    )
    rows: list[Row] = []
    for name, tokens in parts:
        count = (f"{short_count(tokens):>6}  ", "strong" if tokens else "dim")
        rows.append(labelled(name, count, *pen.gauge(_BAR, tokens / (usage.total or 1), role="info")))
    return rows


def _money(agent: AgentView, pen: Pen) -> list[Row]:
    unpriced = f"  {short_count(agent.unpriced)} tok without price" if agent.unpriced else ""
    rows = [labelled("cost", (f"{cost_of(agent):>6}", "strong"), (unpriced, "wait"))]
    budget = agent.budget
    if budget is None:
        return [*rows, labelled("budget", (f"{NOTHING:>6}", "dim"), ("  none, B sets one", "dim"))]
    left: list[Span] = []
    for row, each in enumerate(ceilings(budget)):
        share = (f"{figures(each.share):>6}  ", each.role)
        rows.append(labelled("" if row else "budget", share, *bar(pen, _BAR, each), (f" of {each.of}", "dim")))
        left += [(each.left, each.role), (", ", "dim")]
    rows.append(labelled("", *left, (period(budget), "dim")))
    rows += [labelled("", (covered(budget), "dim"))] if covered(budget) else []
    return [*rows, labelled("", (blind(budget), "wait"))] if blind(budget) else rows


def _requests(agent: AgentView, cells: int) -> list[Row]:
    facts = (
        ("requests", short_count(agent.requests), "strong", ""),
        ("answered", short_count(agent.finished), "ok", ""),
        ("failed", short_count(agent.failed), "bad" if agent.failed else "dim", ""),
        ("retried OK", short_count(agent.rescued), "recover" if agent.rescued else "dim", " after failed attempts"),
        ("waited", short_duration(agent.waited_s), "text", " in the queue in total"),
        ("first token", short_duration(agent.ttft_s), "text", " of the last answer"),
    )
    rows = [labelled(label, (f"{value:>6}", role), (more, "dim")) for label, value, role, more in facts]
    errors = wrapped(agent.last_error or "none", cells - _LABEL - 1)[:2]
    role = "bad" if agent.failed else "text" if agent.last_error else "dim"
    return rows + [labelled("last error" if n == 0 else "", (f" {line}", role)) for n, line in enumerate(errors)]


def _short(view: View, agent: AgentView, cells: int, rows: int, pen: Pen) -> list[Row]:
    url = Target(view.snapshot.address, agent.name, token=view.token).base
    address: list[Chunk] = [(1, [("y copies ", "dim"), (url, "info")])]
    if agent.last_error:
        address.append((0, named("last error", agent.last_error)))
    keys = [(rank, key_hint(key, what)) for rank, (key, what) in enumerate(effects(view))]
    spent = [*budget_fact(agent, pen, 8, view.live).chunks, *requests_fact(agent).chunks]
    facts = [tokens_fact(agent, with_cost=True), Fact(0, "", spent), Fact(0, "", address), Fact(0, "", keys)]
    rest = fact_rows(facts, cells, len(facts), label=0)
    open_ = _open_short(view, agent, cells, max(1, rows - 1 - len(rest)), pen)
    return [*fact_rows([state_fact(agent, pen)], cells, 1, label=0), *open_, *rest]


def _open_short(view: View, agent: AgentView, cells: int, room: int, pen: Pen) -> list[Row]:
    """Return a row for each ticket, and more where there is room; the last row counts those left out."""
    tickets = _tickets(view, agent)
    if not tickets:
        return [_unlisted(view, agent, pen)]
    shown = tickets if len(tickets) <= room else tickets[: max(1, room - 1)]
    rows: list[Row] = []
    for index, ticket in enumerate(shown):
        head = _numbered(ticket, pen)
        before = cells_of(head)
        text, colour = _progress(view, agent, ticket)
        lines = wrapped(text, cells - before)
        spare = room - len(rows) - (len(tickets) - index)
        if len(lines) > 1 + max(0, spare):
            lines = [fit(text, cells - before).rstrip()]
        rows.append([*head, (lines[0], colour)])
        rows += [[(" " * before + line, colour)] for line in lines[1:]]
    return [*rows, pen.more(len(tickets) - len(shown))] if len(shown) < len(tickets) and room > len(shown) else rows


def effects(view: View) -> list[tuple[str, str]]:
    """Return what the keys that act on agents would do now: each key's id, and its effect in a few words."""
    targets = view.targets
    if not targets or not view.live:
        return []
    it = "it" if len(targets) == 1 else "them"
    boosted = all(agent.boosted_for_s > 0 for agent in targets)
    limited = any(agent.budget is not None for agent in targets)
    return [
        ("raise", _to(targets, -1)),
        ("lower", _to(targets, 1)),
        ("boost", "ends the boost" if boosted else f"boosts {it}"),
        ("hold", f"releases {it}" if all(agent.paused for agent in targets) else f"holds {it}"),
        ("budget", "changes the budget" if limited else "gives a budget"),
        ("stop", f"allows {it} again" if all(agent.stopped for agent in targets) else f"stops {it}"),
    ]


def _to(targets: Sequence[AgentView], step: int) -> str:
    """Return the priority that a step leads to."""
    if len(targets) > 1:
        return "more urgent" if step < 0 else "less urgent"
    wanted = targets[0].priority + step
    if not Priority.CRITICAL <= wanted <= Priority.LOW:
        return "no further"
    return f"to {PRIORITIES[Priority(wanted)][0]}"


def key_hint(name: str, what: str, width: int = 0) -> Row:
    """Return a key, which can be clicked, and what it does."""
    key = BY_ID[name]
    return [linked(f"{key.shown:<{width}}", "accent", f"app.{key.action}"), (f" {what}", "dim")]


def _keys_listed(view: View, cells: int) -> list[Row]:
    """Return the keys in two columns where there is room for both."""
    if not view.live:
        return [key_hint("open", "its requests")]
    marked = view.agent is not None and view.agent.name in view.marked
    more = (("mark", "unmarks it" if marked else "marks it"), ("open", "its requests"))
    shown = [key_hint(name, what) for name, what in (*effects(view), *more)]
    each = cells // 2
    if each < 22:
        return shown
    return [
        [*left, (" " * max(1, each - cells_of(left)), "text"), *right]
        for left, right in zip(shown[::2], shown[1::2], strict=True)
    ]
