"""The phases of a request: in the queue, failed attempts, pauses, until the first token, the stream.

Clocks are taken as they are: a phase that would end before it began is one of no length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from hivemind.text.humanise import short_duration
from hivemind.world.snapshot import AttemptView, RequestView
from hivemind_tui.render.glyphs import PHASES, sign
from hivemind_tui.render.pen import Pen, Span

_NOTHING_S = 0.005
"""A wait so short is none."""
FINE = ("in_flight", "answered", "left")
"""Outcomes of an attempt that isn't a failure."""


class Phase(Struct, frozen=True):
    """One part of a course; times are on the proxy's monotonic clock."""

    kind: str
    """A key of :data:`hivemind_tui.render.glyphs.PHASES`."""
    start_at: float
    end_at: float
    attempt: AttemptView | None = None
    """The attempt that it is a part of; a queue or a pause at the end may belong to none yet."""

    @property
    def length_s(self) -> float:
        """How long it took, or takes until now."""
        return self.end_at - self.start_at


def fine(value: float) -> str:
    """A duration in at most six cells, to the hundredth where it is short: `0.94s`, `12.4s`, `3m05s`."""
    value = max(0.0, value)
    return f"{value:.2f}s" if value < 9.995 else f"{value:.1f}s" if value < 59.95 else short_duration(value)


def phases_of(request: RequestView, at: float) -> list[Phase]:
    """Return the phases from a request's arrival to its end or to this moment, without gaps, at least one."""
    end = at if request.ended_at is None else request.ended_at
    made: list[Phase] = []
    now = request.arrived_at
    if not request.attempts:
        return [Phase("queue", now, max(now, end))]
    for attempt in request.attempts:
        made += _attempt_phases(attempt, now, end)
        now = max(now, made[-1].end_at)
    last = request.attempts[-1]
    if last.ended_at is not None and last.retry_in_s is not None:
        again = max(now, min(end, last.ended_at + last.retry_in_s))
        made += _some(Phase("pause", now, again), Phase("queue", again, end))
    return made


def _attempt_phases(attempt: AttemptView, since: float, now: float) -> list[Phase]:
    """Return one attempt's phases: the pause after the one before (`since`), its wait, and its outcome until now."""
    queued = max(since, attempt.queued_at)
    granted = max(queued, attempt.granted_at)
    end = max(granted, now if attempt.ended_at is None else attempt.ended_at)
    made = _some(Phase("pause", since, queued, attempt), Phase("queue", queued, granted, attempt))
    failed = attempt.outcome not in FINE
    if attempt.first_content_at is None:
        return [*made, Phase("failed" if failed else "first", granted, end, attempt)]
    content = min(end, max(granted, attempt.first_content_at))
    made += [Phase("first", granted, content, attempt), Phase("stream", content, end, attempt)]
    if failed:
        made.append(Phase("failed", end, end, attempt))
    return made


def _some(*made: Phase) -> list[Phase]:
    return [phase for phase in made if phase.length_s > _NOTHING_S]


def described(request: RequestView, made: Sequence[Phase], pen: Pen) -> list[list[Span]]:
    """Return each phase with its name and length, and how the request ended."""
    return [*(_chunk(phase, pen) for phase in made), *_end(request, pen)]


def summarised(request: RequestView, made: Sequence[Phase], pen: Pen) -> list[list[Span]]:
    """Return the same in short, for a request with many attempts: phases of one kind are added up."""
    chunks: list[list[Span]] = []
    for kind, words in (("queue", "queue"), ("failed", "failed tries"), ("pause", "retry delays")):
        alike = [phase for phase in made if phase.kind == kind]
        length = short_duration(sum(phase.length_s for phase in alike))
        if len(alike) == 1:
            chunks.append(_chunk(alike[0], pen))
        elif alike:
            # Every attempt before another one failed, kept or not.
            often = f"{alike[-1].attempt.number} " if kind == "failed" and alike[-1].attempt is not None else ""
            chunks.append([pen.sign(PHASES[kind]), (f" {often}{words} ", "dim"), (length, "text")])
            chunks += [[(failures([request]), "bad")]] if kind == "failed" else []
    chunks += [_chunk(phase, pen) for phase in made if phase.kind in ("first", "stream")]
    return [*chunks, *_end(request, pen)]


def failures(requests: Sequence[RequestView]) -> str:
    """Return failed attempts by error, the most frequent first: `529 x4, timeout x1`."""
    attempts = [attempt for request in requests for attempt in request.attempts]
    counted = Counter(failure(attempt) for attempt in attempts if attempt.outcome not in FINE)
    return ", ".join(f"{what} x{often}" for what, often in counted.most_common())


def failure(attempt: AttemptView) -> str:
    """Return what an attempt failed with: its status, or the kind of failure."""
    return str(attempt.status) if attempt.status is not None else attempt.outcome.replace("_", " ")


def prefill(attempt: AttemptView) -> str:
    """Return how much of the prompt the server has read, `prefill 2048/7218`, while that is so; else nothing."""
    if attempt.prefill is None or attempt.first_content_at is not None or attempt.ended_at is not None:
        return ""
    return f"prefill {attempt.prefill[0]}/{attempt.prefill[1]}"


def _chunk(phase: Phase, pen: Pen) -> list[Span]:
    length, attempt = short_duration(phase.length_s), phase.attempt
    chunk = [pen.sign(PHASES[phase.kind])]
    if phase.kind == "failed" and attempt is not None:
        chunk += [(f" try {attempt.number} failed ", "dim"), (failure(attempt), "bad")]
        return [*chunk, (" after ", "dim"), (length, "text")] if phase.length_s > 0 else chunk
    return [*chunk, (f" {_name(phase)} ", "dim"), (length, "text")]


def _name(phase: Phase) -> str:
    if phase.kind == "first" and phase.attempt is not None:
        if phase.attempt.first_content_at is not None:
            return "first token"
        if phase.attempt.outcome == "answered":
            return "answer"
        if read := prefill(phase.attempt):
            return read
    return PHASES[phase.kind].word


def _end(request: RequestView, pen: Pen) -> list[list[Span]]:
    word, role = pen.worded(sign(request.state))
    status = f" {request.status}" if request.status is not None else ""
    return [[(word + status, role)]] if request.over else []
