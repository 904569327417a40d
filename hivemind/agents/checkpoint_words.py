"""Checkpoints for people: as a table, and one with everything in it. Pure; `now` is seconds since the epoch."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from hivemind.amounts import dollars, how_used, owner
from hivemind.logs import redact

from .checkpoints import Checkpoint, Found, TaskPlace, Used
from .transcript import printable

_HEADS = ("CHECKPOINT", "AGENT", "WHEN", "BY", "TOKENS", "DOLLARS", "SIZE", "TASK", "COMMAND")
_RIGHT = {"TOKENS", "DOLLARS", "SIZE"}
_DISPENSABLE = ("COMMAND", "TASK", "SIZE", "DOLLARS", "TOKENS", "BY", "WHEN")
"""What a narrow terminal does without, in this order."""


def table(found: Sequence[Found], now: float, width: int | None) -> list[str]:
    """A row each, under a row of heads, in at most so many cells where that can be done; None: as wide as it gets."""
    rows = [dict(zip(_HEADS, _HEADS, strict=True)), *(_row(each, now) for each in found)]
    heads = list(_HEADS)
    for head in (None, *_DISPENSABLE):
        if head is not None:
            heads.remove(head)
        widths = {each: max(len(row[each]) for row in rows) for each in heads}
        if width is None or sum(widths.values()) + 2 * (len(heads) - 1) <= width:
            break
    return ["  ".join(_cell(row, each, widths[each]) for each in heads).rstrip() for row in rows]


def _cell(row: dict[str, str], head: str, width: int) -> str:
    return row[head].rjust(width) if head in _RIGHT else row[head].ljust(width)


def _row(found: Found, now: float) -> dict[str, str]:
    kept = found.checkpoint
    task = kept.task or next((each.id for each in kept.tasks), "-")
    cells = (
        kept.name,
        printable(kept.agent),
        ago(now - kept.at),
        kept.reason,
        f"{kept.run.tokens:,}",
        _money(kept.run),
        size(found.size),
        printable(task),
        "known" if kept.command else "-",
    )
    return dict(zip(_HEADS, cells, strict=True))


def facts(found: Found, now: float) -> list[str]:
    """Everything but the conversation, a fact a line."""
    kept = found.checkpoint
    rows = [
        ("agent", printable(kept.agent) + (f", started by {printable(kept.parent)}" if kept.parent else "")),
        ("stopped", f"{moment(kept.at)}, {ago(now - kept.at)}"),
        ("why", printable(kept.why)),
        ("used", _used(kept)),
        *(("budget", f"{printable(owner(each))}: {how_used(each)}") for each in kept.budgets),
        *(("task", _task(each)) for each in kept.tasks),
        *_process(kept),
        *_request(found),
    ]
    return [kept.name, *(f"  {name:<13}{text}" for name, text in rows)]


def _used(kept: Checkpoint) -> str:
    return f"{_tokens(kept.run)} in its last run; {_tokens(kept.ever)} in all"


def _tokens(used: Used) -> str:
    blind = f", {used.unpriced:,} without a known price" if used.unpriced else ""
    return f"{used.tokens:,} tokens, {dollars(used.dollars)}{blind}"


def _money(used: Used) -> str:
    return "?" if used.unpriced and used.unpriced == used.tokens else dollars(used.dollars)


def _task(task: TaskPlace) -> str:
    parts = [f"{task.id} is {task.state}{f' ({task.note})' if task.note else ''}, {task.priority} priority"]
    if task.attempt:
        parts.append(f"attempt {task.attempt}")
    if task.waits_for:
        parts.append(f"waits for {', '.join(task.waits_for)}")
    if task.waited_for_by:
        parts.append(f"{', '.join(task.waited_for_by)} wait{'' if len(task.waited_for_by) > 1 else 's'} for it")
    return printable("; ".join(parts))


def _process(kept: Checkpoint) -> list[tuple[str, str]]:
    rows = []
    if kept.exit_code is not None:
        code = kept.exit_code
        rows.append(("process", f"ended with exit code {code}" if code >= 0 else f"ended by signal {-code}"))
    if kept.command:
        rows.append(("command", printable(redact(shlex.join(kept.command)))))
        rows.append(("folder", printable(kept.cwd)))
    return rows


def _request(found: Found) -> list[tuple[str, str]]:
    kept, rows = found.checkpoint, []
    if kept.request is not None:
        asked = kept.request
        who = " ".join(filter(None, (asked.client and f"by {asked.client}", asked.model and f"for {asked.model}")))
        rows.append(("request", printable(f"{asked.method} {asked.path} to {asked.upstream} {who}".rstrip())))
        rows.append(("asked", moment(asked.at)))
    if kept.conversation_bytes:
        masked = f", {kept.masked} credential{'s' * (kept.masked > 1)} in it masked" if kept.masked else ""
        rows.append(("conversation", size(kept.conversation_bytes) + masked))
    else:
        rows.append(("conversation", f"not kept: {kept.left_out}"))
    return rows


def ago(seconds: float) -> str:
    """`3 min ago`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def moment(at: float) -> str:
    """Local time, in full."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))


def size(count: int) -> str:
    """`1.5 MiB`."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
