"""All about one agent, at the top of its page."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.request_view import RequestView
from hivemind.world.snapshot import AgentView
from hivemind_tui.panels.agent_table import process, state
from hivemind_tui.render.budgets import bar, blind, ceilings, covered, figures, period
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.render.phases import failures
from hivemind_tui.render.wait_reason import far_back, first_of_each, lane_of, sentence
from hivemind_tui.render.wrapping import broken
from hivemind_tui.state.view import View, join

_LABEL = 10
_GAUGE = 20
_ROOMY = 8
"""From so many rows on, what is told in one row else has two."""
Fact = tuple[int, str, Sequence[tuple[int, Sequence[Span]]]]
"""Rank (the highest goes first where there are too few rows), label, and chunks with ranks of their own."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows, each a label and what there is to say; the least needed go where there are too few."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    if agent is None:
        text = "It isn't known any more: it asked for nothing for long, or the proxy was started anew."
        return pen.message(view.selected or "Agent", text if view.selected else "No agent is selected.", width, height)
    own = [request for request in view.requests if request.agent == agent.name]
    roomy = rows >= _ROOMY
    facts = [
        _state(agent, pen),
        *_why(view, agent, cells - _LABEL, 2 if roomy else 1, pen),
        _budget(view, agent, pen),
    ]
    facts += [_tokens(agent, with_cost=not roomy), *([_money(agent)] if roomy else [])]
    facts += [_requests(agent), _time(agent), _errors(agent, own)]
    while len(facts) > max(1, rows):
        facts.remove(max(facts, key=lambda fact: fact[0]))
    body = [
        pen.row(cells, (f"{label:<{_LABEL}}", "dim"), *fitting(cells - _LABEL, chunks)) for _, label, chunks in facts
    ]
    marked = "marked" if agent.name in view.marked else ""
    parent = f"child of {agent.parent}" if agent.parent else ""
    return pen.frame(agent.name, join(agent.client, parent, marked), body, width, height)


def _state(agent: AgentView, pen: Pen) -> Fact:
    word, colour = PRIORITIES[agent.priority]
    chunks: list[tuple[int, Sequence[Span]]] = [(0, [state(agent, pen)])]
    chunks.append((1, [("priority ", "dim"), (word, colour)]))
    if agent.boosted_for_s > 0:
        chunks.append((1, [(f"{pen.glyphs.boost} boosted for {short_duration(agent.boosted_for_s)}", "accent")]))
    chunks.append(
        (2, [(str(agent.flying), "text"), (" in flight, ", "dim"), (str(agent.queued), "text"), (" waiting", "dim")])
    )
    ran = process(agent)
    chunks += [(2, [("process ", "dim"), ran])] if ran is not None else []
    chunks += [(2, [("task ", "dim"), (agent.task, "text")])] if agent.task is not None else []
    chunks.append((3, [("seen ", "dim"), (short_duration(agent.last_seen_s), "text"), (" ago", "dim")]))
    return 0, "state", chunks


def _why(view: View, agent: AgentView, width: int, rows: int, pen: Pen) -> list[Fact]:
    """Why the first of its requests waits, on so many rows at most; nothing where none does."""
    ticket = first_of_each(view.snapshot.queue).get(agent.name)
    if ticket is None:
        behind = far_back(agent.state, view.snapshot.queue)
        return (
            [(1, "why", [(0, [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")])])]
            if behind
            else []
        )
    shown = gate_sign(ticket.gate)
    said = broken(sentence(ticket, lane_of(view.snapshot.lanes, ticket), agent), width - 2, rows, pen.glyphs.ellipsis)
    glyphs = (getattr(pen.glyphs, shown.glyph), " ")
    return [
        (1 if first else 8, "why" if first else "", [(0, [(f"{glyph} ", shown.role), (text, "text")])])
        for first, glyph, text in zip((True, False), glyphs, said, strict=False)
    ]


def _budget(view: View, agent: AgentView, pen: Pen) -> Fact:
    budget = agent.budget
    if budget is None:
        return 7, "budget", [(0, [("none", "text"), (", B gives it one" if view.live else "", "dim")])]
    chunks: list[tuple[int, Sequence[Span]]] = []
    for rank, each in enumerate(ceilings(budget)):
        chunks += [
            (3, bar(pen, _GAUGE, each)),
            (rank, [(figures(each.share), each.role), (" of ", "dim"), (each.of, "text")]),
            (rank + 1, [(each.left, each.role)]),
        ]
    chunks += [(1, [(word, "dim")]) for word in (period(budget), covered(budget)) if word]
    return 2, "budget", [*chunks, *([(2, [(blind(budget), "wait")])] if blind(budget) else [])]


def _tokens(agent: AgentView, with_cost: bool) -> Fact:
    usage = agent.usage
    parts = [("new", usage.input_tokens), ("cached", usage.cache_read_tokens), ("to cache", usage.cache_write_tokens)]
    told = [f"{short_count(part)} {word}" for word, part in parts if part]
    of: list[Span] = [(f" ({', '.join(told)})", "dim")] if len(told) > 1 else []
    chunks: list[tuple[int, Sequence[Span]]] = [(0, [("in ", "dim"), (short_count(usage.total_input), "text"), *of])]
    chunks.append((0, [("out ", "dim"), (short_count(usage.output_tokens), "text")]))
    if with_cost:
        chunks.append(
            (1, [("cost ", "dim"), (short_dollars(agent.dollars), "text"), ("+" if agent.unpriced else "", "text")])
        )
    return 3, "tokens", chunks


def _money(agent: AgentView) -> Fact:
    a_request = short_dollars(agent.dollars / agent.finished) if agent.finished and agent.dollars else NOTHING
    chunks: list[tuple[int, Sequence[Span]]] = [(0, [(short_dollars(agent.dollars), "text")])]
    chunks.append((1, [(a_request, "text"), (" a request", "dim")]))
    if agent.unpriced:
        chunks.append((2, [(f"+ {short_count(agent.unpriced)} tokens without a known price", "dim")]))
    return 6, "cost", chunks


def _requests(agent: AgentView) -> Fact:
    saved: list[Span] = [(str(agent.rescued), "recover" if agent.rescued else "text"), (" saved", "dim")]
    return (
        4,
        "requests",
        [
            (0, [(short_count(agent.requests), "text"), (" asked", "dim")]),
            (2, [(short_count(agent.finished), "text"), (" answered", "dim")]),
            (0, [(short_count(agent.failed), "bad" if agent.failed else "text"), (" failed", "dim")]),
            (1, saved),
            (3, [(short_plural(agent.retries, "error"), "text"), (" unseen", "dim")]),
        ],
    )


def _time(agent: AgentView) -> Fact:
    a_request = short_duration(agent.served_s / agent.finished) if agent.finished else NOTHING
    return (
        5,
        "time",
        [
            (0, [(a_request, "text"), (" a request", "dim")]),
            (1, [(short_duration(agent.waited_s), "text"), (" waited in all", "dim")]),
            (2, [("last first token ", "dim"), (short_duration(agent.ttft_s), "text")]),
        ],
    )


def _errors(agent: AgentView, own: Sequence[RequestView]) -> Fact:
    counted = failures([request for request in own if request.last_error])
    if not counted:
        return 9, "errors", [(0, [("none among those remembered", "dim")])]
    chunks: list[tuple[int, Sequence[Span]]] = [(0, [(counted, "bad")])]
    if agent.last_error:
        chunks.append((1, [("last ", "dim"), (agent.last_error, "text")]))
    return 5, "errors", chunks
