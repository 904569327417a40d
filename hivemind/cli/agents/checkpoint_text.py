"""Checkpoints for people: as a table, and one with everything in it. Pure; `now` is seconds since the epoch."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from hivemind.agents.transcript import printable
from hivemind.redaction.text import redact
from hivemind.store.checkpoints import Checkpoint, Found, TaskPlace, Used
from hivemind.text.amounts import how_used, owner
from hivemind.text.humanise import dollars, duration, size, usage
from hivemind.text.table import Cell, Column, lines

_COLUMNS = (
    Column("CHECKPOINT"),
    Column("AGENT", cut=True),
    Column("WHEN", spare=1),
    Column("BY", spare=2),
    Column("TOKENS", right=True, spare=3),
    Column("COST", right=True, spare=4),
    Column("SIZE", right=True, spare=5),
    Column("TASK", cut=True, spare=6),
    Column("COMMAND", spare=7),
)


def table(found: Sequence[Found], now: float, room: int | None) -> list[str]:
    """A row each, in at most so many cells where that can be done; None: as wide as it gets."""
    return lines(_COLUMNS, [_row(each, now) for each in found], room)


def _row(found: Found, now: float) -> list[Cell | str]:
    kept = found.checkpoint
    task = kept.task or next((each.id for each in kept.tasks), "")
    return [
        kept.name,
        printable(kept.agent),
        ago(now - kept.at),
        kept.reason,
        f"{kept.run.tokens:,}",
        dollars(kept.run.dollars, kept.run.unpriced),
        size(found.size),
        printable(task),
        "known" if kept.command else "",
    ]


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
    return f"{_used_in(kept.run)} in its last run; {_used_in(kept.ever)} in all"


def _used_in(used: Used) -> str:
    return usage(used.tokens, used.dollars, used.unpriced)


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
    """`3 min 12 s ago`."""
    return f"{duration(seconds)} ago"


def moment(at: float) -> str:
    """Local time, in full."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
