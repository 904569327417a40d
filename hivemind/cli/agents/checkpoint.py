"""`hivemind checkpoints`: what was kept of agents that were stopped or crashed. Reads the folder, so no proxy needs to
run."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hivemind.agents.transcript import printable, transcript
from hivemind.cli.agents.checkpoint_text import facts, table
from hivemind.cli.plugin import Command
from hivemind.console import json_text
from hivemind.errors import HiveMindError, UsageError
from hivemind.store.checkpoints import Found, Unreadable, conversation, folder_in, latest, listed
from hivemind.store.token_file import state_dir
from hivemind.text.table import width

_NAMES_TOLD = 8


class NotKept(HiveMindError):
    """What was asked for isn't in a checkpoint, or can't be read."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [show NAME] [--json | --conversation] [--state-dir FOLDER] [--config FILE]"
    parser.add_argument("what", nargs="*", metavar="show NAME", help="a checkpoint by its name, or an agent's latest")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--conversation", action="store_true", help="with show: print the conversation alone, as JSON")
    add_folder_flags(parser)


def add_folder_flags(parser: argparse.ArgumentParser) -> None:
    """Where to look; :func:`checkpoint_folder` reads them."""
    parser.add_argument("--state-dir", metavar="FOLDER", help="the proxy's [as set in hivemind.toml]")
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")


def settings_flags(namespace: argparse.Namespace) -> list[str]:
    """Those flags, as a command line of settings."""
    named = (("--state-dir", namespace.state_dir), ("--config", namespace.config))
    return [f"{flag}={value}" for flag, value in named if value is not None]


def checkpoint_folder(namespace: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> Path:
    """The folder of the checkpoints. Raises: UsageError, NotKept."""
    from hivemind.settings import load

    settings = load(settings_flags(namespace), environ=environ, cwd=cwd, prog="hivemind checkpoints")
    try:
        return folder_in(state_dir(settings.state_dir))
    except OSError as error:
        raise NotKept(f"no folder of checkpoints: {error.strerror}") from None


def all_in(folder: Path) -> list[Found]:
    """Every checkpoint, the newest first; of files that can't be read a line is said each. Raises: NotKept."""
    try:
        found, wrong = listed(folder)
    except OSError as error:
        raise NotKept(f"{folder}: can't be read ({error.strerror})") from None
    for line in wrong:
        print(f"hivemind: {printable(line)}", file=sys.stderr)
    return found


def names_known(found: list[Found]) -> str:
    """For whoever asked for one that isn't there."""
    names = list(dict.fromkeys(each.checkpoint.agent for each in found))
    if not names:
        return "there are no checkpoints"
    more = " and others" if len(names) > _NAMES_TOLD else ""
    return f"there are checkpoints of {printable(', '.join(names[:_NAMES_TOLD]))}{more}"


def conversation_of(found: Found) -> bytes:
    """Raises: NotKept: it was left out, or can't be read."""
    try:
        body = conversation(found)
    except (OSError, Unreadable) as error:
        raise NotKept(f"{found.path}: {getattr(error, 'strerror', None) or error}") from None
    if body is None:
        raise NotKept(f"{found.checkpoint.name} holds no conversation: {found.checkpoint.left_out}")
    return body


def _run(namespace: argparse.Namespace) -> int:
    what = namespace.what
    if what and (what[0] != "show" or len(what) != 2):
        raise UsageError("say `hivemind checkpoints`, or `hivemind checkpoints show NAME`")
    if namespace.conversation and (not what or namespace.json):
        raise UsageError("--conversation: goes with show, and without --json")
    folder = checkpoint_folder(namespace, os.environ, Path.cwd())
    found = all_in(folder)
    if not what:
        _list(found, folder, as_json=namespace.json)
        return 0
    one = latest(found, what[1])
    if one is None:
        raise UsageError(
            f"{printable(what[1])}: no checkpoint, and no agent with one, has that name; {names_known(found)}"
        )
    _show(one, as_json=namespace.json, alone=namespace.conversation)
    return 0


def _list(found: list[Found], folder: Path, *, as_json: bool) -> None:
    if as_json:
        rows: list[Any] = [msgspec.to_builtins(each.checkpoint) | {"bytes": each.size} for each in found]
        print(_pretty(msgspec.json.encode(rows)))
    elif not found:
        print(f"no checkpoints in {folder}")
    else:
        print("\n".join(table(found, time.time(), width())))


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
    """On standard output, as it is, and a line's end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json.strip() + b"\n")


def _pretty(json: bytes) -> str:
    return json_text(json)


command = Command(_configure, _run)
