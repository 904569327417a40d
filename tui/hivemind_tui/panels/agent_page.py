"""One agent: its card beside the table, and on its page its facts and the tokens that its requests used over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from textual.strip import Strip

from hivemind.scheduler.types import Priority
from hivemind.setup.clients import Target
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import HUNG, AgentView, RequestView, TicketView
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.panels.agent_table import UNMETERED, at_least, last_error, process, state
from hivemind_tui.render.bars import Axis, ending, rounded, times_of_day
from hivemind_tui.render.budgets import bar, blind, ceilings, covered, figures, period
from hivemind_tui.render.format import about, fit, wrapped
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting, linked
from hivemind_tui.render.phases import failures
from hivemind_tui.render.rows import LABEL, Fact, broken, counted, fact_rows, hanging, named
from hivemind_tui.render.wait_reason import far_back, first_of_each, lane_of, sentence
from hivemind_tui.state.view import View, join

_GAUGE = 20
_ROOMY = 8
"""Rows from which the reason and the cost have rows of their own."""
_SCALE = 6
"""Cells for the numbers beside a plot."""
TALL = 18
"""Rows from which a card has a row for every fact."""
_LABEL = 13
_BAR = 16
_OPEN = 6
"""Most open requests that are listed."""


# --- Page -------------------------------------------------------------------------------------------------------------


def render_facts(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, each a label and facts; the least needed ones are left out where rows are too few."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    if agent is None:
        unknown = "The agent is unknown: it sent nothing for long, or the proxy was restarted."
        note = unknown if view.selected else "No agent is selected."
        return pen.message(view.selected or "Agent", note, width, height)
    own = [request for request in view.requests if request.agent == agent.name]
    roomy = rows >= _ROOMY
    facts = [state_fact(agent, pen), *_why(view, agent, cells - LABEL, 2 if roomy else 1, pen)]
    facts += [budget_fact(agent, pen, _GAUGE, view.live), tokens_fact(view, agent, with_cost=not roomy)]
    facts += [
        *([_cost(agent)] if roomy and not view.lacks("tokens") else []),
        requests_fact(view, agent),
        _time(view, agent),
        _errors(agent, own),
    ]
    url = Target(view.address_of(agent), agent.name, token=view.token).base
    keys = [(rank, key_hint(key, what)) for rank, (key, what) in enumerate(effects(view))]
    facts += [Fact(10, "URL", [(0, [(url, "info")]), (1, [("y copies it", "dim")])]), Fact(11, "keys", keys)]
    marked = "marked" if agent.name in view.marked else ""
    parent = f"child of {agent.parent}" if agent.parent else ""
    return pen.frame(agent.name, join(agent.client, parent, marked), fact_rows(facts, cells, rows), width, height)


def state_fact(agent: AgentView, pen: Pen) -> Fact:
    """Return the agent's state, priority, boost, open requests, process and task."""
    ran = process(agent)
    chunks: list[Chunk] = [(0, [state(agent, pen)]), (1, named("priority", *PRIORITIES[agent.priority]))]
    if agent.boosted_for_s > 0:
        chunks.append((1, [(f"{pen.glyphs.boost} boosted for {short_duration(agent.boosted_for_s)}", "accent")]))
    chunks.append((2, [*counted(f"{agent.in_flight}", "in flight, "), *counted(f"{agent.queued}", "queued")]))
    chunks += [(2, named("process", *ran))] if ran is not None else []
    chunks += [(2, named("task", agent.task))] if agent.task is not None else []
    return Fact(0, "state", [*chunks, (3, named("seen", f"{short_duration(agent.last_seen_s)} ago"))])


def _why(view: View, agent: AgentView, width: int, rows: int, pen: Pen) -> list[Fact]:
    ticket = first_of_each(view.snapshot.queue).get(agent.name)
    if ticket is None:
        behind = far_back(agent.state, view.snapshot.queue)
        said = [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")]
        return [Fact(1, "why", [(0, said)])] if behind else []
    glyph, role = pen.sign(gate_sign(ticket.gate))
    text = sentence(ticket, lane_of(view.snapshot.lanes, ticket), agent)
    first, *more = broken(text, width - 2, rows, pen.glyphs.ellipsis)
    head = Fact(1, "why", [(0, [(f"{glyph} ", role), (first, "text")])])
    return [head, *(Fact(8, "", [(0, [(f"  {line}", "text")])]) for line in more)]


def budget_fact(agent: AgentView, pen: Pen, gauge: int, live: bool) -> Fact:
    """Return each limit of the agent's budget with a bar, what is left, and what it covers."""
    budget = agent.budget
    if budget is None:
        return Fact(7, "budget", [(0, [("no budget", "text"), (", B gives it one" if live else "", "dim")])])
    chunks: list[Chunk] = []
    for rank, each in enumerate(ceilings(budget)):
        chunks += [
            (3, bar(pen, gauge, each)),
            (rank, [(figures(each.share), each.role), (" of ", "dim"), (each.of, "text")]),
            (rank + 1, [(each.left, each.role)]),
        ]
    chunks += [(1, [(word, "dim")]) for word in (period(budget), covered(budget)) if word]
    return Fact(2, "budget", [*chunks, *([(2, [(blind(budget), "wait")])] if blind(budget) else [])])


def tokens_fact(view: View, agent: AgentView, *, with_cost: bool) -> Fact:
    """Return the tokens that the agent used, and their cost."""
    if view.lacks("tokens"):
        return Fact(3, "tokens", [(0, [("not recorded", "dim")])])
    usage = agent.usage
    parts = [("new", usage.input_tokens), ("cached", usage.cache_read_tokens), ("to cache", usage.cache_write_tokens)]
    counts = [f"{short_count(part)} {word}" for word, part in parts if part]
    of = [(f" ({', '.join(counts)})", "dim")] if len(counts) > 1 else []
    chunks: list[Chunk] = [(0, [*named("in", short_count(usage.total_input)), *of])]
    chunks.append((0, named("out", short_count(usage.output_tokens))))
    return Fact(3, "tokens", [*chunks, (1, named("cost", cost_of(agent)))] if with_cost else chunks)


def cost_of(agent: AgentView) -> str:
    """Return the agent's cost, marked where some of its tokens have no known price."""
    return at_least(agent.dollars) if agent.unpriced else short_dollars(agent.dollars)


def _cost(agent: AgentView) -> Fact:
    each = short_dollars(agent.dollars / agent.finished) if agent.finished and agent.dollars else NOTHING
    chunks: list[Chunk] = [(0, [(short_dollars(agent.dollars), "text")]), (1, counted(each, "a request"))]
    if agent.unpriced:
        chunks.append((2, [(f"+ {short_count(agent.unpriced)} tokens without a known price", "dim")]))
    return Fact(6, "cost", chunks)


def requests_fact(view: View, agent: AgentView) -> Fact:
    """Return how many requests the agent sent and what became of them."""
    if view.lacks("refusals") and not agent.failed:
        known = (0, counted(short_count(agent.requests), "sent")), (2, counted(short_count(agent.finished), "answered"))
        return Fact(4, "requests", [*known, (0, [("failed attempts aren't recorded", "dim")])])
    chunks: list[Chunk] = [
        (0, counted(short_count(agent.requests), "sent")),
        (2, counted(short_count(agent.finished), "answered")),
        (0, counted(short_count(agent.failed), "failed", "bad" if agent.failed else "text")),
        *([(0, counted(short_count(agent.refused), "refused", "wait"))] if agent.refused else []),
        (1, counted(short_count(agent.retried_ok), "retried OK", "recover" if agent.retried_ok else "text")),
        (3, [(short_plural(agent.retries, "failed attempt"), "text")]),
    ]
    return Fact(4, "requests", chunks)


def _time(view: View, agent: AgentView) -> Fact:
    each = short_duration(agent.served_s / agent.finished) if agent.finished else NOTHING
    chunks: list[Chunk] = [
        (0, counted(each, "a request")),
        *([(0, counted(short_duration(agent.waiting_s), "current wait", "wait"))] if agent.waiting_s else []),
        *([] if _waits_unknown(view) else [(1, counted(short_duration(agent.waited_s), "waited in total"))]),
        (2, named("last first token after", short_duration(agent.ttft_s))),
    ]
    return Fact(5, "time", chunks)


def _waits_unknown(view: View) -> bool:
    return view.lacks("refusals") or view.lacks("durations")


def _errors(agent: AgentView, own: Sequence[RequestView]) -> Fact:
    counted = failures([request for request in own if request.last_error])
    if not counted:
        return Fact(9, "errors", [(0, [("none among the remembered requests", "dim")])])
    last: list[Chunk] = [(1, named("last", last_error(agent)[0]))] if agent.last_error else []
    return Fact(5, "errors", [(0, [(counted, "bad")]), *last])


def render_tokens(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a plot of the input above one of the output, and the times of day."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    own = [request for request in view.requests if agent is not None and request.agent == agent.name]
    if not own or cells <= _SCALE or view.lacks("tokens"):
        why = UNMETERED if view.lacks("tokens") else "Tokens appear here with its first answer."
        return pen.message("Tokens over time", why, width, height)
    now = view.snapshot
    start = min(request.arrived_at for request in own)
    axis = ending(start, now.at, cells - _SCALE)
    taken, given = spent(own, axis, now.at)
    room = max(0, rows - 1)
    body = _plot("in", "info", taken, now.at - start, room - room // 2, cells, pen)
    body += _plot("out", "ok", given, now.at - start, room // 2, cells, pen)
    times = times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5])
    each = f"{axis.cell_s:.1f}s" if axis.cell_s < 9.95 else rounded(axis.cell_s)
    note = f"a bar is {each}, of {len(own)} remembered"
    return pen.frame("Tokens over time", note, [*body[:room], [(" " * _SCALE + times, "dim")]], width, height)


def spent(requests: Sequence[RequestView], axis: Axis, at: float) -> tuple[list[float], list[float]]:
    """Return input and output tokens by cell: input at its attempt's start, output evenly over the stream."""
    taken, given = [0.0] * axis.width, [0.0] * axis.width
    # For thousands of requests in every frame: no calls, and each cell's number worked out in place.
    scale, base, edge = 1 / axis.cell_s, axis.first, axis.width - 1
    for request in requests:
        attempts, usage = request.attempts, request.usage
        if not attempts:
            continue
        last, output = attempts[-1], request.output_tokens
        if usage is not None:
            output = usage.output_tokens
            cell = int(last.granted_at * scale - base)
            cell = 0 if cell < 0 else edge if cell > edge else cell
            taken[cell] += usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if output:
            content, ended = last.first_content_at, request.ended_at
            first = int((last.granted_at if content is None else content) * scale - base)
            first = 0 if first < 0 else edge if first > edge else first
            until = int((at if ended is None else ended) * scale - base)
            until = first if until < first else edge if until > edge else until
            if until == first:
                given[first] += output
                continue
            share = output / (until - first + 1)
            for cell in range(first, until + 1):
                given[cell] += share
    return taken, given


def _plot(
    kind: str, role: str, used: Sequence[float], stretch_s: float, rows: int, cells: int, pen: Pen
) -> list[list[Span]]:
    """Return one plot, below a row of numbers where there are three rows or more."""
    peak, total = max(used), sum(used)
    body: list[list[Span]] = []
    if rows >= 3:
        whole = [(f"{kind:<{_SCALE}}", "dim"), *counted(short_count(total), "in all")]
        numbers: list[Chunk] = [(0, whole), (1, counted(short_count(peak), "at the peak"))]
        if stretch_s >= 60:
            numbers.append((2, counted(short_count(60 * total / stretch_s), "a minute")))
        body.append(fitting(cells, numbers))
    lines = bars(used, peak, rows - len(body), pen.glyphs.steps)
    labels = [short_count(peak), *[""] * (len(lines) - 2), "0"]
    return body + [
        [(f"{label:>{_SCALE - 1}} ", "dim"), (line, role)] for label, line in zip(labels, lines, strict=False)
    ]


def bars(values: Sequence[float], top: float, rows: int, steps: str) -> list[str]:
    """Return upright bars, one a cell, in so many rows from the top down; anything above zero shows."""
    fine = len(steps) - 1
    heights = [0 if value <= 0 or top <= 0 else max(1, math.ceil(value / top * rows * fine - 1e-9)) for value in values]
    return [
        "".join(steps[max(0, min(fine, height - fine * below))] for height in heights)
        for below in range(rows - 1, -1, -1)
    ]


# --- Card -------------------------------------------------------------------------------------------------------------


def render_card(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
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
    url = Target(view.address_of(agent), agent.name, token=view.token).base
    parts: list[list[Row]] = [
        _who(agent, cells, pen),
        [labelled("tokens", ("not recorded", "dim"))] if view.lacks("tokens") else _tokens(agent, pen),
        [] if view.lacks("tokens") else _money(agent, pen),
        _requests(view, agent, cells),
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
    if agent.boosted_for_s > 0:
        spans.append((f"  {pen.glyphs.boost} boosted, {about(agent.boosted_for_s)} left", "accent"))
    if agent.held and agent.state != "held":
        spans.append((f"  {pen.glyphs.pause} held", "wait"))
    if agent.stopped and agent.state != "stopped":
        spans.append((f"  {pen.glyphs.stop} stopped", "bad"))
    return spans


def _open(view: View, agent: AgentView, cells: int, room: int, pen: Pen) -> list[Row]:
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
    behind = far_back(agent.state, view.snapshot.queue)
    return [(f"{pen.glyphs.clock} waits {behind} others", "wait") if behind else ("no open request", "dim")]


def _progress(view: View, agent: AgentView, ticket: TicketView) -> Span:
    again = f", try {ticket.attempt}" if ticket.attempt > 1 else ""
    since, tokens = short_duration(ticket.since_s), ticket.output_tokens
    if ticket.state == "streaming":
        pace = f", {short_count(tokens / ticket.since_s)}/s" if ticket.since_s >= 1 else ""
        return f"{short_count(tokens)} tokens in {since}{pace}{again}", "text"
    if ticket.state == "waiting":
        return f"sent {since} ago, no content yet{again}", "text"
    if ticket.state == "background":
        return f"in the background for {since}", "text"
    if ticket.state == HUNG:
        return f"nothing has come for {short_duration(ticket.silent_s)}{again}", "bad"
    lane = lane_of(view.snapshot.lanes, ticket)
    return sentence(ticket, lane, agent), gate_sign(ticket.gate).role


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
    unpriced = f"  {short_count(agent.unpriced)} tok unpriced" if agent.unpriced else ""
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


def _requests(view: View, agent: AgentView, cells: int) -> list[Row]:
    refused = f", {short_count(agent.refused)} refused" if agent.refused else ""
    facts = (
        ("requests", short_count(agent.requests), "strong", ""),
        ("answered", short_count(agent.finished), "ok", ""),
        ("failed", short_count(agent.failed), "bad" if agent.failed else "dim", refused),
        (
            "retried OK",
            short_count(agent.retried_ok),
            "recover" if agent.retried_ok else "dim",
            " after failed attempts",
        ),
        ("waits", *_longest(agent)),
        ("waited", short_duration(agent.waited_s), "text", " in total"),
        ("1st token", short_duration(agent.ttft_s), "text", " of the last answer"),
    )
    unknown = {"failed", "retried OK"} if view.lacks("refusals") and not agent.failed else set()
    unknown |= {"waited"} if _waits_unknown(view) else set()
    rows = [
        labelled(label, (f"{NOTHING:>6}", "dim"), (" not recorded", "dim"))
        if label in unknown
        else labelled(label, (f"{value:>6}", role), (more, "dim"))
        for label, value, role, more in facts
    ]
    error, role = last_error(agent)
    errors = wrapped(error or "none", cells - _LABEL - 1)[:2]
    return rows + [labelled("last error" if n == 0 else "", (f" {line}", role)) for n, line in enumerate(errors)]


def _longest(agent: AgentView) -> tuple[str, str, str]:
    if not agent.waiting_s:
        return NOTHING, "dim", " nothing of it waits"
    return short_duration(agent.waiting_s), "wait", " longest current wait"


def _short(view: View, agent: AgentView, cells: int, rows: int, pen: Pen) -> list[Row]:
    url = Target(view.address_of(agent), agent.name, token=view.token).base
    address: list[Chunk] = [(1, [("y copies ", "dim"), (url, "info")])]
    if agent.last_error:
        address.append((0, named("last error", last_error(agent)[0])))
    keys = [(rank, key_hint(key, what)) for rank, (key, what) in enumerate(effects(view))]
    spent = [*budget_fact(agent, pen, 8, view.live).chunks, *requests_fact(view, agent).chunks]
    facts = [tokens_fact(view, agent, with_cost=True), Fact(0, "", spent), Fact(0, "", address), Fact(0, "", keys)]
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
        ("hold", f"releases {it}" if all(agent.held for agent in targets) else f"holds {it}"),
        ("budget", "changes the budget" if limited else "gives a budget"),
        ("stop", f"allows {it} again" if all(agent.stopped for agent in targets) else f"stops {it}"),
    ]


def _to(targets: Sequence[AgentView], step: int) -> str:
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
