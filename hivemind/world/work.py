"""Work that goes on after the replies that began it, in words."""

from __future__ import annotations

from collections.abc import Iterable

from hivemind.scheduler.events import WorkState
from hivemind.text.humanise import duration


def going_on(work: Iterable[WorkState]) -> str:
    """`background 2, oldest 12 min of ann; batch 1, oldest 3 h of bob`."""
    kinds: dict[str, list[WorkState]] = {}
    for each in work:
        kinds.setdefault(each.kind, []).append(each)
    parts = []
    for kind, states in kinds.items():
        oldest = max(states, key=lambda each: each.oldest_s)
        parts.append(
            f"{kind} {sum(each.count for each in states)}, oldest {duration(oldest.oldest_s)} of {oldest.agent}"
        )
    return "; ".join(parts)
