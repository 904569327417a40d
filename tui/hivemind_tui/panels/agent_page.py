"""One agent: its card, beside lists and on its page, and the tokens that its requests used over time."""

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
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting, linked
from hivemind_tui.render.phases import failures
from hivemind_tui.render.rows import LABEL, Fact, broken, counted, flowing, named
from hivemind_tui.render.wait_reason import far_back, lane_of, sentence
from hivemind_tui.state.view import View, join

_GAUGE = 20
_ROOMY = 8
"""Rows from which the cost and more open requests have rows of their own."""
_SCALE = 6
"""Cells for the numbers beside a plot."""
_OPEN = 6
"""Most open requests that are listed."""


def render_card(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, each a label and facts, over several rows where there is room; the least needed ones are
    left out where rows are too few."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    if agent is None:
        unknown = "The agent is unknown: it sent nothing for long, or the proxy was restarted."
        note = unknown if view.page == "agent" and view.selected else "No agent yet. The selected agent is shown here."
        return pen.message("Agent", note, width, height)
    own = [request for request in view.requests if request.agent == agent.name]
    roomy = rows >= _ROOMY
    most = min(_OPEN, rows // 3)
    facts = [state_fact(agent, pen), *_open(view, agent, cells - LABEL, max(1, most), pen)]
    facts += [budget_fact(agent, pen, _GAUGE, view.live), tokens_fact(view, agent, with_cost=not roomy)]
    facts += [_cost(agent)] if roomy and not view.lacks("tokens") else []
    facts += [requests_fact(view, agent), _time(view, agent), _errors(agent, own)]
    url = Target(view.address_of(agent), agent.name, token=view.token).base
    keys = [(rank, key_hint(key, what)) for rank, (key, what) in enumerate(effects(view))]
    facts += [Fact(8, "URL", [(0, [(url, "info")]), (1, [("y copies it", "dim")])]), Fact(6, "keys", keys)]
    marked = f"keys go to {short_plural(len(view.marked), 'marked agent')}" if view.marked else ""
    parent = f"started by {agent.parent}" if agent.parent else ""
    note = join(marked, agent.client, parent)
    return pen.frame(f"Agent {agent.name}", note, flowing(facts, cells, rows), width, height)


def state_fact(agent: AgentView, pen: Pen) -> Fact:
    """Return the agent's state, priority, boost, open requests, process and task."""
    ran = process(agent)
    chunks: list[Chunk] = [(0, [state(agent, pen)]), (1, named("priority", *PRIORITIES[agent.priority]))]
    if agent.boosted_for_s > 0:
        chunks.append((1, [(f"{pen.glyphs.boost} boosted for {short_duration(agent.boosted_for_s)}", "accent")]))
    if agent.held and agent.state != "held":
        chunks.append((1, [(f"{pen.glyphs.pause} held", "wait")]))
    if agent.stopped and agent.state != "stopped":
        chunks.append((1, [(f"{pen.glyphs.stop} stopped", "bad")]))
    chunks.append((2, [*counted(f"{agent.in_flight}", "in flight, "), *counted(f"{agent.queued}", "queued")]))
    chunks += [(2, named("process", *ran))] if ran is not None else []
    if agent.paced_s:
        chunks.append((1, [(f"{pen.glyphs.clock} paced for {short_duration(agent.paced_s)}", "wait")]))
    chunks += [(2, named("task", agent.task))] if agent.task is not None else []
    if agent.paused_s:
        chunks.append((1, [(f"paused for {short_duration(agent.paused_s)}", "wait")]))
    return Fact(0, "state", [*chunks, (3, named("seen", f"{short_duration(agent.last_seen_s)} ago"))])


def _open(view: View, agent: AgentView, width: int, rows: int, pen: Pen) -> list[Fact]:
    """Return a row for each open request, at most so many: what waits, and why, or how far its answer has come."""
    tickets = [each for each in chain(view.snapshot.queue, view.snapshot.slots) if each.agent == agent.name]
    if not tickets:
        behind = far_back(agent.state, view.snapshot.queue)
        said = [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")]
        return [Fact(1, "open", [(0, said)])] if behind else []
    facts: list[Fact] = []
    shown = tickets if len(tickets) <= rows else tickets[: max(1, rows - 1)]
    left = pen.more(len(tickets) - len(shown)) if len(shown) < len(tickets) else []
    if rows == 1:
        width -= cells_of(left) + 2
    spare = rows - len(shown) - bool(left)
    for number, ticket in enumerate(shown):
        glyph, role = pen.mark(ticket.state)
        text, colour = _progress(view, agent, ticket)
        head: list[Span] = [(f"{glyph} ", role), (f"#{ticket.ticket} ", "strong")]
        first, *more = broken(text, width - cells_of(head), 1 + min(1, spare), pen.glyphs.ellipsis)
        spare -= len(more)
        beside: list[Chunk] = [(1, left)] if left and rows == 1 else []
        facts.append(Fact(1, "" if number else "open", [(0, [*head, (first, colour)]), *beside]))
        facts += [Fact(4, "", [(0, [("  " + line, colour)])]) for line in more]
    return [*facts, Fact(4, "", [(0, left)])] if left and rows > 1 else facts


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
    cost = at_least(agent.dollars) if agent.unpriced else short_dollars(agent.dollars)
    return Fact(3, "tokens", [*chunks, (1, named("cost", cost))] if with_cost else chunks)


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
    unknown = view.lacks("refusals") or view.lacks("durations")
    chunks: list[Chunk] = [
        (0, counted(each, "a request")),
        *([(0, counted(short_duration(agent.waiting_s), "current wait", "wait"))] if agent.waiting_s else []),
        *([] if unknown else [(1, counted(short_duration(agent.waited_s), "waited in total"))]),
        (2, named("last first token after", short_duration(agent.ttft_s))),
    ]
    return Fact(7, "time", chunks)


def _errors(agent: AgentView, own: Sequence[RequestView]) -> Fact:
    counted = failures([request for request in own if request.last_error])
    chunks: list[Chunk] = [(0, [(counted, "bad")])] if counted else []
    if agent.last_error:
        chunks.append((1, named("last", *last_error(agent))))
    none: list[Chunk] = [(0, [("none among the remembered requests", "dim")])]
    return Fact(5, "errors", chunks) if chunks else Fact(9, "errors", none)


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
        ("stop", f"allows {it} again" if all(agent.stopped for agent in targets) else f"stops {it}"),
        ("budget", "changes the budget" if limited else "gives a budget"),
    ]


def _to(targets: Sequence[AgentView], step: int) -> str:
    if len(targets) > 1:
        return "more urgent" if step < 0 else "less urgent"
    wanted = targets[0].priority + step
    if not Priority.CRITICAL <= wanted <= Priority.LOW:
        return "no further"
    return f"to {PRIORITIES[Priority(wanted)][0]}"


def key_hint(name: str, what: str) -> Row:
    """Return a key, which can be clicked, and what it does."""
    key = BY_ID[name]
    return [linked(key.shown, "accent", f"app.{key.action}"), (f" {what}", "dim")]
