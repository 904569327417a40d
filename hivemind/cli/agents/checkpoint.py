"""`hivemind checkpoints`: what was kept of agents that were stopped or crashed. Reads the folder, so no proxy needs to
run."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hivemind.cli.address import add_folder_flags, folder_settings
from hivemind.cli.plugin import Command
from hivemind.console import print_json, print_note, printable
from hivemind.errors import HiveMindError, UsageError
from hivemind.redaction.text import redact
from hivemind.scheduler.accounts import Spent
from hivemind.store.checkpoints import (
    Found,
    TaskPlace,
    Unreadable,
    conversation,
    folder_in,
    latest,
    listed,
    superfluous,
)
from hivemind.store.token_file import state_dir
from hivemind.text.amounts import how_used, owner
from hivemind.text.humanise import dollars, duration, exit_text, first_few, plural, size, usage
from hivemind.text.table import Cell, TextColumn, lines, show, width

_COLUMNS = (
    TextColumn("CHECKPOINT"),
    TextColumn("AGENT", cut=True),
    TextColumn("WHEN", spare=1),
    TextColumn("BY", spare=2),
    TextColumn("TOKENS", right=True, spare=3),
    TextColumn("COST", right=True, spare=4),
    TextColumn("SIZE", right=True, spare=5),
    TextColumn("TASK", cut=True, spare=6),
    TextColumn("COMMAND", spare=7),
)
NAMES_SHOWN = 8

if TYPE_CHECKING:
    from hivemind.settings import Settings


class NotKept(HiveMindError):
    """A checkpoint or its conversation isn't there, or can't be read."""


def _configure(parser: argparse.ArgumentParser) -> None:
    words = "[list | show NAME [--conversation] | prune [NAME]]"
    parser.usage = f"%(prog)s {words} [--json] [--state-dir FOLDER] [--config FILE]"
    parser.epilog = (
        "prune removes the checkpoints of all agents, or of one, but for the newest of each; a checkpoint by its own"
        " name always."
    )
    what = "show: a checkpoint by its name, or an agent's latest; prune: remove old ones"
    parser.add_argument("what", nargs="*", metavar="list | show NAME | prune [NAME]", help=what)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--conversation", action="store_true", help="with show: print the conversation alone, as JSON")
    add_folder_flags(parser)


def checkpoint_folder(settings: Settings) -> Path:
    """Return the folder of the checkpoints. Raises: NotKept."""
    try:
        return folder_in(state_dir(settings.state_dir))
    except OSError as error:
        raise NotKept(f"no folder of checkpoints: {error.strerror}") from None


def all_in(folder: Path) -> list[Found]:
    """Return every checkpoint, the newest first, and print a note for each unreadable file. Raises: NotKept."""
    try:
        entries, wrong = listed(folder)
    except OSError as error:
        raise NotKept(f"{folder}: can't be read ({error.strerror})") from None
    for line in wrong:
        print_note(line)
    return entries


def names_known(entries: list[Found]) -> str:
    """Return the agents that have checkpoints, for a message about one that has none."""
    names = list(dict.fromkeys(each.checkpoint.agent for each in entries))
    return (
        f"there are checkpoints of {printable(first_few(names, NAMES_SHOWN))}" if names else "there are no checkpoints"
    )


def conversation_of(entry: Found) -> bytes:
    """Raises: NotKept: it was left out, or can't be read."""
    try:
        body = conversation(entry)
    except (OSError, Unreadable) as error:
        raise NotKept(f"{entry.path}: {getattr(error, 'strerror', None) or error}") from None
    if body is None:
        raise NotKept(f"{entry.checkpoint.name} holds no conversation: {entry.checkpoint.left_out}")
    return body


def _run(namespace: argparse.Namespace) -> int:
    what = namespace.what
    word = what[0] if what else "list"
    if len(what) not in {"list": (0, 1), "show": (2,), "prune": (1, 2)}.get(word, ()):
        raise UsageError("say `hivemind checkpoints`, `hivemind checkpoints show NAME` or `hivemind checkpoints prune`")
    if namespace.conversation and (word != "show" or namespace.json):
        raise UsageError("--conversation: goes with show, and without --json")
    folder = checkpoint_folder(folder_settings(namespace))
    entries = all_in(folder)
    if word == "prune":
        return _prune(namespace, entries, what[1] if len(what) > 1 else None)
    if word == "list" and namespace.json:
        return print_json([msgspec.to_builtins(each.checkpoint) | {"bytes": each.size} for each in entries])
    if word == "list":
        show(table(entries, time.time(), width()) if entries else [f"no checkpoints in {folder}"])
        return 0
    one = latest(entries, what[1])
    if one is None:
        raise _unknown(what[1], entries)
    _show(one, as_json=namespace.json, alone=namespace.conversation)
    return 0


def _unknown(name: str, entries: list[Found]) -> UsageError:
    return UsageError(f"{printable(name)}: no checkpoint, and no agent with one, has that name; {names_known(entries)}")


def _prune(namespace: argparse.Namespace, entries: list[Found], name: str | None) -> int:
    """Remove checkpoints, and print which and what is left. Raises: UsageError, NotKept."""
    one = None if name is None else latest(entries, name)
    if name is not None and one is None:
        raise _unknown(name, entries)
    if one is not None and one.checkpoint.name == name:
        chosen = [one]
    else:
        of = entries if one is None else [each for each in entries if each.checkpoint.agent == one.checkpoint.agent]
        chosen = superfluous(of)
    for each in chosen:
        try:
            each.path.unlink(missing_ok=True)
        except OSError as error:
            raise NotKept(f"{each.path}: can't be removed ({error.strerror})") from None
    freed, left = sum(each.size for each in chosen), len(entries) - len(chosen)
    if namespace.json:
        return print_json({"removed": [each.checkpoint.name for each in chosen], "bytes": freed, "left": left})
    removed = f"removed {plural(len(chosen), 'checkpoint')} ({size(freed)})" if chosen else "nothing to remove"
    print(f"{removed}; {left:,} {'is' if left == 1 else 'are'} left")
    return 0


def _show(one: Found, *, as_json: bool, alone: bool) -> None:
    if alone:
        write_out(conversation_of(one))
        return
    body = conversation_of(one) if one.checkpoint.conversation_bytes else None
    if as_json:
        head = msgspec.json.encode(one.checkpoint)[:-1]
        write_out(head + b',"conversation":' + (body or b"null") + b"}")
        return
    print("\n".join(facts(one, time.time())))
    if body is not None:
        print("\n" + "\n".join(transcript(body)))


def write_out(json: bytes) -> None:
    """Write bytes of JSON as they are to standard output, and end the line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json.strip() + b"\n")


def table(entries: Sequence[Found], now: float, room: int | None) -> list[str]:
    """Return a table in at most `room` cells, if possible; None: as wide as it gets."""
    return lines(_COLUMNS, [_row(each, now) for each in entries], room)


def _row(entry: Found, now: float) -> list[Cell | str]:
    kept = entry.checkpoint
    task = kept.task or next((each.id for each in kept.tasks), "")
    return [
        kept.name,
        printable(kept.agent),
        ago(now - kept.at),
        kept.reason,
        f"{kept.run.tokens:,}",
        dollars(kept.run.dollars, kept.run.unpriced),
        size(entry.size),
        printable(task),
        "known" if kept.command else "",
    ]


def facts(entry: Found, now: float) -> list[str]:
    """Return everything but the conversation, a fact a line."""
    kept = entry.checkpoint
    started_by = f", started by {printable(kept.parent)}" if kept.parent else ""
    rows = [
        ("agent", printable(kept.agent) + started_by),
        ("stopped", f"{moment(kept.at)}, {ago(now - kept.at)}"),
        ("why", printable(kept.why)),
        ("used", f"{_used(kept.run)} in its last run; {_used(kept.ever)} in all"),
        *(("budget", f"{printable(owner(each))}: {how_used(each)}") for each in kept.budgets),
        *(("task", _task(each)) for each in kept.tasks),
    ]
    if kept.exit_code is not None:
        rows.append(("process", exit_text(kept.exit_code)))
    if kept.command:
        rows += [("command", printable(redact(shlex.join(kept.command)))), ("folder", printable(kept.cwd))]
    if kept.request is not None:
        request = kept.request
        who = " ".join(
            filter(None, (request.client and f"by {request.client}", request.model and f"for {request.model}"))
        )
        rows.append(("request", printable(f"{request.method} {request.path} to {request.upstream} {who}".rstrip())))
        rows.append(("asked", moment(request.at)))
    if kept.session is not None:
        rows.append(("session", printable(f"{kept.session.id} of {kept.session.client}")))
    masked = f", {kept.masked} credential{'s' * (kept.masked > 1)} in it masked" if kept.masked else ""
    body = f"{size(kept.conversation_bytes)}{masked}" if kept.conversation_bytes else f"not kept: {kept.left_out}"
    rows.append(("conversation", body))
    return [kept.name, *(f"  {name:<13}{text}" for name, text in rows)]


def _used(used: Spent) -> str:
    return usage(used.tokens, used.dollars, used.unpriced, used.estimated)


def _task(task: TaskPlace) -> str:
    parts = [f"{task.id} is {task.state}{f' ({task.note})' if task.note else ''}, {task.priority} priority"]
    if task.attempt:
        parts.append(f"attempt {task.attempt}")
    if task.waits_for:
        parts.append(f"waits for {', '.join(task.waits_for)}")
    if task.waited_for_by:
        parts.append(f"{', '.join(task.waited_for_by)} wait{'' if len(task.waited_for_by) > 1 else 's'} for it")
    return printable("; ".join(parts))


def ago(seconds: float) -> str:
    """`3 min 12 s ago`."""
    return f"{duration(seconds)} ago"


def moment(at: float) -> str:
    """Return the local time in full."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))


command = Command(_configure, _run)


_TURNS = ("messages", "input", "contents")
"""Names of the list of turns: Anthropic, OpenAI's chat and Ollama; OpenAI's responses; Google."""
_BEFORE = ("system", "instructions", "systemInstruction", "system_instruction")
_TEXTS = ("text", "content", "parts", "input", "arguments", "output", "thinking", "summary", "prompt")
_LEFT_OUT = ("role", "type", "cache_control")


def transcript(conversation: bytes) -> list[str]:
    """Return lines of `role: text`. A conversation in an unknown form is shown as JSON."""
    body = msgspec.json.decode(conversation)
    turns = list(_turns(body)) if isinstance(body, dict) else []
    if not turns:
        turns = [("", msgspec.json.format(conversation, indent=2).decode())]
    lines = []
    for role, text in turns:
        first, *rest = [printable(line.replace("\t", "    ")) for line in text.splitlines()] or [""]
        lines += [f"{role}: {first}", *(f"  {line}" for line in rest)] if role else [first, *rest]
    return lines


def _turns(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _BEFORE:
        if body.get(name):
            yield "system", _text(body[name])
    for name in _TURNS:
        turns = body.get(name)
        if isinstance(turns, str):
            yield "user", turns
        for turn in turns if isinstance(turns, list) else ():
            role = turn.get("role") or turn.get("type") if isinstance(turn, dict) else None
            yield role if isinstance(role, str) else "user", _text(turn)
    if isinstance(body.get("prompt"), str):
        yield "user", body["prompt"]


def _text(part: Any) -> str:
    """Return the text of a turn or a part, after its kind if it isn't plain text."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(_text(each) for each in part)
    if not isinstance(part, dict):
        return _json(part)
    kind = part.get("type")
    content = next((part[name] for name in _TEXTS if part.get(name)), None)
    others = {key: value for key, value in part.items() if key not in _LEFT_OUT}
    if content is None or not isinstance(content, str | list):
        return f"[{kind}] {_json(others)}" if isinstance(kind, str) else _json(others)
    # A tool's name and call are as much a part of it as its text.
    more = {key: value for key, value in others.items() if key not in _TEXTS}
    if kind in (None, "text", "message", "input_text", "output_text"):
        return _text(content) + (f"\n{_json(more)}" if more else "")
    return f"[{kind}{' ' + _json(more) if more else ''}] {_text(content)}"


def _json(value: Any) -> str:
    text: str = msgspec.json.encode(value).decode()
    return text
