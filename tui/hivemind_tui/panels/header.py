"""The header: mode, health, why requests are slow, pages and totals. It is shown at every terminal size."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.scheduler.events import LaneState
from hivemind.text.humanise import share, short_count, short_dollars, short_duration, short_plural, short_size
from hivemind.world.alerts import unacknowledged
from hivemind.world.fleet import GOOD
from hivemind.world.slow import MAX_CONCURRENCY, PINNED, RPM, TPM, causes, waited
from hivemind.world.snapshot import Alarm, RecordingView, Snapshot, Totals
from hivemind.world.verdict import lanes_held_up, parts, short_sentence
from hivemind.world.work import going_on
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.panels.timeline_strip import state_of
from hivemind_tui.render.budgets import ceilings, figures, period
from hivemind_tui.render.format import clean, fit, local, uptime
from hivemind_tui.render.glyphs import VERDICT_SIGNS, lease_sign, sign
from hivemind_tui.render.pen import Chunk, Pen, Span, cells_of, fitting, linked
from hivemind_tui.render.rows import counted, named
from hivemind_tui.sources.playback import Playback, shown_speed
from hivemind_tui.state.view import PAGES, View

_WITH_NAMES = 4
"""Totals up to this rank take precedence over the names of the pages that aren't shown."""
_KEYS = {"paused": "pause", "draining": "drain", "circuit_forced": "circuit", "agent_died": "acknowledge"}
"""By code of a finding, the key that does something about it."""
_FREES = {MAX_CONCURRENCY: "more", PINNED: "pin", RPM: "tuning", TPM: "tuning"}
"""By what keeps requests and is HiveMind's own limit, the key that changes it, or its page."""
_OWN = re.compile(r" \((HiveMind's own limit|assumed by HiveMind)\)")
"""Beside a cause that is HiveMind's own limit."""
_OWN_IN_FULL = 120
"""Cells from which that is told in full."""
_FILTER = 24
_WIDE = 140
"""Cells from which on what else was found is named."""
_NAME = 32
_ABOUT = 24


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return one row of identity and health, below it why requests are slow if they are, then the pages and the totals
    since start."""
    lost = view.link.lost_for_s is not None
    moment = 0 if view.playback is None else cell_len("".join(_moment(view.playback, pen))) + 3
    chunks = _lost(view, width - 2, pen) if lost else _health(view, width - 2 - moment, pen)
    if view.playback is not None:
        first = _replayed(view, view.playback, width, chunks, pen)
    else:
        first = pen.row(width, (" ", "text"), *fitting(width - 2, chunks), selected=lost)
    slow = [pen.row(width, (" ", "text"), *_why_slow(view, width - 2, pen))] if is_slow(view) and height > 2 else []
    rows = [first, *slow, _second(view, width, pen)]
    return (rows + [pen.row(width)] * height)[:height]


def _lost(view: View, width: int, pen: Pen) -> list[Chunk]:
    """Return what to show without a connection, when everything else would be outdated: since when, to where, why."""
    link = view.link
    where = link.where or view.snapshot.address
    head = f"{pen.glyphs.cross} NOT CONNECTED for {short_duration(link.lost_for_s)}"
    why = link.why if len(link.why) + len(head) + 2 <= width else fit(link.why, max(0, width - len(head) - 2))
    return [
        (0, [(head, "bad")]),
        (1, [(f"to {where}", "bad")]),
        (0, [(why, "bad")] if why else []),
        (2, [("what is shown is outdated", "dim")]),
    ]


def _health(view: View, width: int, pen: Pen) -> list[Chunk]:
    snapshot, lane = view.snapshot, view.lane
    chunks: list[Chunk] = [(5, [("HiveMind", "title")])] if view.playback is None else []
    frozen = f"{pen.glyphs.pause} VIEW FROZEN" if view.frozen else ""
    verdict = _verdict(view, width - (cell_len(frozen) + 2 if frozen else 0), pen)
    chunks += verdict if view.playback is None else [(rank + 1, spans) for rank, spans in verdict]
    codes = {found.code for found in snapshot.verdict.findings[:1]}
    if view.link.kind in ("attached", "fleet"):
        chunks.append((2, [("attached", "info")]))
    if snapshot.alarms and "alarm" not in codes:
        chunks += _alarms(snapshot.alarms, pen)
    if waiting := unacknowledged(snapshot.alerts):
        text = f"{pen.glyphs.warn} {short_plural(len(waiting), 'alert')}"
        chunks.append((1, [linked(text, "bad", "app.alerts")]))
    if view.playback is None and not codes & {"journal", "journal_gaps"}:
        chunks += _recorded(snapshot.recording, pen)
    if frozen:
        chunks.append((0, [(frozen, "accent")]))
    pool = _pool(snapshot)
    cause = snapshot.verdict.cause
    if cause is not None and cause.code in ("budget_used", "budget_low") and not cause.about:
        pool = [(5, spans) for _, spans in pool]  # the verdict tells of it
    chunks += [*pool, *_tasks(snapshot)]
    if snapshot.work:
        chunks.append((4, named("work", going_on(snapshot.work))))
    if view.order.filter:
        chunks.append((3, named("filter", fit(view.order.filter, _FILTER).rstrip(), "accent")))
    chunks += _fleet(view, pen)
    upstreams = ", ".join(name for name, _ in snapshot.upstreams)
    here: list[Span] = [(snapshot.address, "text"), (" ", "text")] if snapshot.address else []
    there: list[Span] = [(f"{pen.glyphs.arrow} ", "dim"), (upstreams, "text")] if upstreams else []
    chunks += [(6, [*here, *there])] if here or there else []
    if lane is not None:
        states = [each.state for each in snapshot.lanes]
        chunks += _lane(lane.state, pen) if len(states) == 1 else _lanes(states, len(lanes_held_up(snapshot)), pen)
    chunks.append((2, named("queue", str(snapshot.queued), "wait" if snapshot.queued else "strong")))
    one = lane is not None and len(snapshot.lanes) == 1
    if one and lane is not None and lane.state.rate_limited_for_s > 0 and "rate_limited" not in codes:
        chunks.append(
            (3, [(f"{pen.glyphs.clock} rate-limited {short_duration(lane.state.rate_limited_for_s)}", "wait")])
        )
    chunks.append((7, named("up", uptime(snapshot.uptime_s))))
    return chunks


def _replayed(view: View, playback: Playback, width: int, chunks: list[Chunk], pen: Pen) -> Strip:
    banner, day = _moment(playback, pen)
    begun: list[Chunk] = [(0, [(day, "strong")]), (2, [(fit(playback.name, min(_NAME, len(playback.name))), "info")])]
    if playback.damage:
        first, *others = playback.damage
        more = f" (+{len(others)})" if others else ""
        begun.append((1, [(f"{pen.glyphs.warn} {fit(first, min(len(first), width // 3))}{more}", "wait")]))
    rest = max(0, width - cell_len(banner))
    chip = pen.row(width - rest, (banner, "accent"), selected=True)
    return Strip.join([chip, pen.row(rest, (" ", "text"), *fitting(rest - 2, begun + chunks))])


def _moment(playback: Playback, pen: Pen) -> tuple[str, str]:
    """Return how it is played back, and the recorded time of day."""
    glyph, _, _ = state_of(playback, pen)
    return f" {glyph} REPLAY {shown_speed(playback.speed)} ", time.strftime("%a %d %b %H:%M:%S", local(playback.wall))


def _verdict(view: View, width: int, pen: Pen) -> list[Chunk]:
    """Return the state with its cause, what ends it and the key that does, cut to the row; then how many wait, and for
    how long. A note gives way to what else is told."""
    found = view.snapshot.verdict
    word, role = pen.worded(VERDICT_SIGNS.get(found.state, VERDICT_SIGNS["degraded"]))
    cause, *more = [""] if found.cause is None else parts(found, brief=width < _WIDE)
    if found.cause is not None and found.cause.code == "slowed":
        cause = f"requests waited {share(waited(view.snapshot.waits))} of their time"
    if found.state == "healthy":
        notes = [(4, cause), *((5, each) for each in more)] if cause else []
        return [(0, [(word, role)]), *((rank, [(pen.glyphs.plain(clean(each)), "dim")]) for rank, each in notes)]
    hint = _undoing(view, role)
    room = max(0, width - cell_len(word) - 1 - cells_of(hint))
    if found.cause is not None and cell_len(cause) > room:
        cause = fit(short_sentence(found.cause), room).rstrip()
    spans = [(f"{word} ", role), (pen.glyphs.plain(clean(cause)), role), *hint]
    first = 1 if found.state == "blocked" else 3
    return [(0, spans), *((first + number, [(each, role)]) for number, each in enumerate(more))]


def _undoing(view: View, role: str) -> list[Span]:
    """Return the key that ends what an operator decided, or acknowledges what the operator was told of; before it the
    key that leads to a lane that isn't in focus."""
    cause, lane = view.snapshot.verdict.cause, view.lane
    if not view.live or cause is None or (cause.code == "agent_died" and not unacknowledged(view.snapshot.alerts)):
        return []
    name = _KEYS.get(cause.code)
    if name is None:
        return []
    key = BY_ID[name]
    if cause.code == "circuit_forced" and (lane is None or lane.state.lane != cause.about):
        return [(f" ({BY_ID['lane'].shown} {key.shown})", role)]
    return [linked(f" ({key.shown})", role, f"app.{key.action}")]


def is_slow(view: View) -> bool:
    """Return whether the header has a row that says why requests are slow."""
    return view.link.lost_for_s is None and waited(view.snapshot.waits) > 0


def _why_slow(view: View, width: int, pen: Pen) -> list[Span]:
    """Return what kept requests in the last ten minutes, the largest first, as far as there is room, and the key that
    frees what is HiveMind's own limit."""
    brief = width < _OWN_IN_FULL
    chunks: list[Chunk] = [(0, [("waits:" if brief else "waits in 10 min:", "dim")])]
    for rank, (cause, part) in enumerate(causes(view.snapshot.waits.seconds), 1):
        named = _OWN.sub(" (HiveMind's)", cause) if brief else cause
        spans: list[Span] = [(f"{share(part)} {named}", "wait")]
        if view.live and cause in _FREES:
            key = BY_ID[_FREES[cause]]
            spans.append(linked(f" {key.shown} frees it", "accent", f"app.{key.action}"))
        chunks.append((rank, spans))
    return fitting(width, chunks)


def _alarms(alarms: tuple[Alarm, ...], pen: Pen) -> list[Chunk]:
    """Return what is broken; the log has the sentences."""
    first, *others = alarms
    more = f" (+{len(others)})" if others else ""
    about = first.agent or first.lane
    where = f" {fit(about, min(len(about), _ABOUT)).rstrip()}" if about else ""
    return [(1, [(f"{pen.glyphs.warn} ALARM {first.rule}{where}{more}", "bad")])]


def _recorded(recording: RecordingView | None, pen: Pen) -> list[Chunk]:
    if recording is None:
        return []
    size = short_size(recording.bytes)
    if recording.failing:
        why = fit(recording.failing, min(30, len(recording.failing)))
        return [(1, [(f"{pen.glyphs.warn} not recorded: {why}", "bad")])]
    if recording.lost:
        return [(1, [(f"{pen.glyphs.warn} journal {size}, {short_count(recording.lost)} events lost", "wait")])]
    return [(7, named("journal", size))]


def _pool(snapshot: Snapshot) -> list[Chunk]:
    state = snapshot.pool
    if state is None:
        return []
    nearest = ceilings(state)[0]
    spans = [*named("budget", figures(nearest.share), nearest.role), (f" of {nearest.of} {period(state)}", "dim")]
    return [(5 if nearest.role == "text" else 0, spans)]


def _tasks(snapshot: Snapshot) -> list[Chunk]:
    counts = snapshot.task_counts
    if not counts:
        return []
    open_page = "app.page('tasks')"
    done = f"{short_count(counts.get('done', 0))}/{short_count(sum(counts.values()))}"
    spans = [linked("tasks ", "dim", open_page), linked(done, "strong", open_page)]
    if counts.get("running"):
        spans.append(linked(f" {short_count(counts['running'])} run", "ok", open_page))
    if counts.get("failed"):
        spans.append(linked(f" {short_count(counts['failed'])} failed", "bad", open_page))
    return [(5, spans)]


def _fleet(view: View, pen: Pen) -> list[Chunk]:
    """Return how the proxy stands to its fleet; for a screen of the whole fleet, how many it has."""
    fleet = view.fleet
    if not fleet.store:
        return []
    count, action = len(fleet.members), "app.page('fleet')"
    state = fleet.state if fleet.me else "leased"
    glyph, role = pen.sign(lease_sign(state))
    if fleet.away and state in GOOD:  # leases are good for a few seconds more, or there is no lane yet
        return [(0, [linked(f"{pen.glyphs.warn} fleet's store away", "wait", action)])]
    words = {
        "safe": "store away, SAFE SHARE",
        "alone": "ALONE, without the fleet",
        "joining": "joining the fleet",
    }
    text = words.get(state, f"fleet of {count}" + (" learning" if state == "learning" else ""))
    troubled = fleet.troubled
    spans = [linked(f"{glyph} {text}", "dim" if state == "idle" else role, action)]
    if troubled and state in GOOD:
        spans.append(linked(f", {troubled} in trouble", "wait", action))
    return [(3 if state in GOOD and not troubled else 0, spans)]


def _lanes(states: Sequence[LaneState], held: int, pen: Pen) -> list[Chunk]:
    """Return what the whole proxy has in flight, and how many of its lanes are held up."""
    active, limit = sum(state.active for state in states), sum(state.level for state in states)
    limit = limit if math.isinf(limit) else sum(int(state.level) for state in states)
    chunks: list[Chunk] = [(1, named("in flight", _of_level(active, limit), "strong"))]
    if held:
        chunks.insert(0, (3, [(f"{pen.glyphs.warn} {held} of {len(states)} lanes held up", "wait")]))
    return chunks


def _lane(state: LaneState, pen: Pen) -> list[Chunk]:
    word, role = pen.worded(sign(state.circuit))
    circuit = named("circuit", word + (" forced" if state.circuit_forced else ""), role)
    if state.circuit == "open" and state.circuit_reopens_in_s is not None:
        circuit.append((f" {short_duration(state.circuit_reopens_in_s)}", "wait"))
    return [(4, circuit), (1, named("in flight", _of_level(state.active, state.level), "strong"))]


def _of_level(active: int, level: float) -> str:
    if active > level:
        return f"{active}, {active - int(level)} over the level"
    return f"{active}/{'∞' if math.isinf(level) else int(level)}"


def _second(view: View, width: int, pen: Pen) -> Strip:
    """Return the pages at the left and as many totals as fit; the other pages' names give way to them."""
    here = (view.trail[0],)
    for names, rank, of_agents in (
        (PAGES, _WITH_NAMES, "agents recovered by retries"),
        (here, 0, "agents recovered"),
        (here, 0, "recovered"),
    ):
        totals, tabs = _totals(view, of_agents), _tabs(view, names)
        if cells_of(tabs) + sum(cells_of(chunk) + 3 for least, chunk in totals if least <= rank) <= width:
            break
    left = cells_of(tabs)
    shown = fitting(width - left - 3, totals, gap=" · ")
    gap = width - left - 2 - cells_of(shown)
    return pen.row(width, (" ", "text"), *tabs, (" " * max(0, gap), "text"), *shown)


def _tabs(view: View, named: tuple[str, ...]) -> list[Span]:
    spans: list[Span] = []
    for number, name in enumerate(PAGES, 1):
        here = view.trail[0] == name
        if not here and not view.has(name):
            continue  # the palette has it
        text = f"{number} {name.capitalize()}" if name in named else str(number)
        shown = f"[{text}]" if here else f" {text} "
        spans.append(linked(shown, "title" if here else "dim", f"app.page({name!r})"))
    return spans


def _totals(view: View, of_agents: str) -> list[Chunk]:
    """Return the totals since start; failures and what retries avoided, if anything, are always shown. An agent's death
    that was acknowledged isn't told any more."""
    snapshot, totals = view.snapshot, view.snapshot.totals
    raised = {alert.about for alert in snapshot.alerts if alert.rule == "died"}
    seen = raised - {alert.about for alert in unacknowledged(snapshot.alerts) if alert.rule == "died"}
    died = sum(agent.state == "died" and agent.name not in seen for agent in snapshot.agents)
    blind = not totals.failed and view.lacks("refusals")
    recovered = of_agents.replace("agents", "agent") if totals.agents_recovered == 1 else of_agents
    chunks: list[Chunk] = [
        (6, counted(short_count(totals.requests), "request" if totals.requests == 1 else "requests", "strong")),
        (5, counted(short_count(totals.finished), "answered", "ok")),
        (0, [] if blind else counted(short_count(totals.failed), "failed", "bad" if totals.failed else "dim")),
        (0, counted(f"{died}", "agent died" if died == 1 else "agents died", "bad") if died else []),
        (0, counted(short_count(totals.refused), "refused", "wait") if totals.refused else []),
        (0, counted(short_count(totals.retried_ok), "retried OK", "recover") if totals.retried_ok else []),
        (
            1 if totals.refused else 0,
            counted(short_count(totals.agents_recovered), recovered, "recover") if totals.agents_recovered else [],
        ),
        *([(4, [("tokens and cost not recorded", "dim")])] if view.lacks("tokens") else _used(totals)),
        (9, counted(short_count(totals.abandoned), "left by clients") if totals.abandoned else []),
    ]
    return [chunk for chunk in chunks if chunk[1]]


def _used(totals: Totals) -> list[Chunk]:
    spent = short_dollars(totals.dollars) + ("+" if totals.unpriced else "")
    expired = totals.expired_waiting + totals.expired_thinking + totals.switched
    return [
        (7, named("in", short_count(totals.usage.total_input), "strong")),
        (7, named("out", short_count(totals.usage.output_tokens), "strong")),
        (4, counted(spent, "spent", "strong")),
        (9, counted(short_dollars(totals.order_saved), "saved by order", "ok") if totals.order_saved else []),
        (9, counted(short_dollars(expired), "of cached prompts lost", "wait") if expired else []),
        (8, counted(short_count(totals.wasted.total), "tokens of failed tries", "wait") if totals.wasted.total else []),
    ]
