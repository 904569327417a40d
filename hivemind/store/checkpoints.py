"""Checkpoints: what is kept of an agent that was stopped or crashed, so that it can go on, as one file each.

A file is JSON. Its first line holds everything but the conversation, which follows as the agent sent it, so a list of
many large ones reads little. It is there whole or not at all, for its owner's eyes alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from hivemind.agent_names import same
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.events import BudgetState
from hivemind.store.atomic import DRAFT_SUFFIX, remove_if_old, written_whole

FORMAT = 1
FOLDER = "checkpoints"
"""In the state directory."""
SUFFIX = ".json"
FOLDER_LIMIT = 1 << 30
"""Bytes of all checkpoints together, beyond which the oldest go."""
FILES_LIMIT = 5_000

Reason = Literal["budget", "operator", "crash"]

_NAME = re.compile(r"(?P<slug>[A-Za-z0-9_][A-Za-z0-9._-]*)-(?P<stamp>\d{8}T\d{6}\.\d{3}(?:\.\d+)?)")
_LINE_LIMIT = 4 << 20
_JOINT = b',"conversation":\n'
_END = b"\n}\n"
_NOTHING = b"null"


class TaskPlace(Struct, frozen=True):
    """The state of an agent's task at the checkpoint."""

    id: str
    state: str
    batch: str
    priority: str
    attempt: int
    note: str
    waits_for: tuple[str, ...]
    """Predecessors that weren't done."""
    waited_for_by: tuple[str, ...]


class StoppedRequest(Struct, frozen=True):
    """The request that the conversation was the body of."""

    method: str
    path: str
    """With its query, but no credential that stood there."""
    upstream: str
    client: str
    dialect: str
    model: str
    at: float
    """When it came, in seconds since the epoch."""


class ClientSession(Struct, frozen=True):
    """A client's own session, which it can continue."""

    client: str
    """As :class:`hivemind.providers.clients.Client` names it."""
    id: str
    others: int = 0
    """Sessions of this run before it, each of another call of the client."""


class Checkpoint(Struct, frozen=True):
    """All but the conversation."""

    name: str
    agent: str
    reason: Reason
    why: str
    """In words."""
    at: float
    """When the agent was stopped, in seconds since the epoch."""
    parent: str | None = None
    exit_code: int | None = None
    """Of its process, where that has ended; negative: the signal that ended it."""
    run: Spent = field(default_factory=Spent)
    """In its last run."""
    ever: Spent = field(default_factory=Spent)
    budgets: tuple[BudgetState, ...] = ()
    """All that it was charged to."""
    tasks: tuple[TaskPlace, ...] = ()
    task: str | None = None
    """The one that its process was started for."""
    command: tuple[str, ...] = ()
    """What started it; empty where no runner did. It may hold secrets."""
    cwd: str = ""
    request: StoppedRequest | None = None
    session: ClientSession | None = None
    """What the conversation belongs to; None: the client named none, or the version that wrote this kept none."""
    left_out: str = ""
    """Why the conversation isn't there, where it isn't."""
    masked: int = 0
    """Credentials in the conversation that were replaced."""
    encoding: Literal["json", "base64"] = "json"
    """How the conversation stands in the file; base64 where it isn't JSON."""
    conversation_bytes: int = 0
    """As it stands in the file; 0: it isn't there."""
    format: int = FORMAT


class Found(Struct, frozen=True):
    """A checkpoint and its file."""

    checkpoint: Checkpoint
    path: Path
    size: int


class Unreadable(ValueError):
    """A file that isn't a checkpoint, or not a whole one, or of a newer version; the text names it and says which."""


def folder_in(state: Path) -> Path:
    """Return the folder of a state directory's checkpoints."""
    return state / FOLDER


def checkpoint_name(agent: str, at: float) -> str:
    """A name that is safe as a file's, whatever the agent is called: its own where it can be, and the moment (UTC)."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", agent)[:48].lstrip(".-")
    if slug != agent:
        slug = f"{slug or 'agent'}-{blake2b(agent.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at))
    return f"{slug}-{stamp}.{int(at * 1000) % 1000:03d}"


def write(folder: Path, checkpoint: Checkpoint, conversation: bytes | None) -> int:
    """Write it, whole or not at all, in place of an earlier one of its name. :func:`prune` is to be called afterwards.

    `conversation` is as `encoding` says, and `conversation_bytes` long. Returns the file's size. Raises: OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{checkpoint.name}{SUFFIX}"
    body = _NOTHING if conversation is None else conversation
    parts = (msgspec.json.encode(checkpoint)[:-1], _JOINT, body, _END)
    with written_whole(path) as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    return sum(map(len, parts))


def prune(
    folder: Path, newest: Collection[str], keep: int, limit: int = FOLDER_LIMIT, files: int = FILES_LIMIT
) -> None:
    """Remove what is too old: of the agents of the `newest` checkpoints beyond `keep` each, and of all beyond `limit`
    bytes; but none of the newest. Files that aren't checkpoints by their names are left alone.

    It looks at every file, so it is called once after many were written.
    """
    known = sorted(_files(folder), key=lambda each: each[0]["stamp"], reverse=True)
    kept = Counter(mine["slug"] for each in newest if (mine := _NAME.fullmatch(each)))
    room, left = limit, files
    for match, entry in known:
        slug = match["slug"]
        own, is_newest = slug in kept, match[0] in newest
        if own and not is_newest:
            kept[slug] += 1
        with contextlib.suppress(OSError):  # gone already
            size = entry.stat().st_size
            room, left = room - size, left - 1
            if not is_newest and ((own and kept[slug] > keep) or room < 0 or left < 0):
                room, left = room + size, left + 1
                os.unlink(entry.path)


def superfluous(found: Sequence[Found]) -> list[Found]:
    """Return all but the newest checkpoint of each agent; `found` is as :func:`listed` returns it."""
    newest = {each.checkpoint.agent: each for each in reversed(found)}
    return [each for each in found if newest[each.checkpoint.agent] is not each]


def _files(folder: Path) -> Iterator[tuple[re.Match[str], os.DirEntry[str]]]:
    """Yield every checkpoint by its name; old drafts are removed on the way."""
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name.removesuffix(SUFFIX))
            if match and entry.name.endswith(SUFFIX):
                yield match, entry
            elif entry.name.startswith(".") and entry.name.endswith(DRAFT_SUFFIX):
                remove_if_old(entry)


def listed(folder: Path) -> tuple[list[Found], list[str]]:
    """All that can be read, the newest first, and a line for each file that can't.

    Raises: OSError: the folder can't be read; one that isn't there is empty.
    """
    found, wrong = [], []
    try:
        paths = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    except FileNotFoundError:
        return [], []
    for path in paths:
        try:
            found.append(read(path))
        except FileNotFoundError:
            continue  # pruned meanwhile
        except OSError as error:
            wrong.append(f"{path.name}: can't be read ({error.strerror})")
        except Unreadable as error:
            wrong.append(str(error))
    return sorted(found, key=lambda each: (each.checkpoint.at, each.checkpoint.name), reverse=True), wrong


def latest(found: Sequence[Found], name: str) -> Found | None:
    """The checkpoint of that name, or the newest of the agent of that name; None: there is neither."""
    exact = next((each for each in found if each.checkpoint.name == name), None)
    return exact or next((each for each in found if same(each.checkpoint.agent, name)), None)


def read(path: Path) -> Found:
    """All but the conversation. Raises: OSError, Unreadable."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise Unreadable(f"{path.name}: isn't a file")  # opening a pipe would wait for a writer
    with path.open("rb") as file:
        line = file.readline(_LINE_LIMIT)
        size = os.fstat(file.fileno()).st_size
    try:
        head = line.removesuffix(_JOINT) + b"}" if line.endswith(_JOINT) else line
        plain = msgspec.json.decode(head)
        written = plain["format"] if isinstance(plain, dict) else None
        if isinstance(written, int) and written > FORMAT:
            raise Unreadable(f"{path.name}: written by a newer HiveMind (format {written}; this one reads {FORMAT})")
        checkpoint = msgspec.convert(plain, Checkpoint)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError):
        raise Unreadable(f"{path.name}: isn't a checkpoint, or only a part of one") from None
    whole = len(line) + (checkpoint.conversation_bytes or len(_NOTHING)) + len(_END)
    if size != whole or not line.endswith(_JOINT):
        raise Unreadable(f"{path.name}: isn't whole ({size:,} bytes of {whole:,})")
    return Found(checkpoint, path, size)


def conversation(found: Found) -> bytes | None:
    """The conversation as JSON: an object as the agent sent it, or a string in base64 where that wasn't JSON; None
    where it was left out.

    Raises: OSError, Unreadable.
    """
    length = found.checkpoint.conversation_bytes
    if not length:
        return None
    with found.path.open("rb") as file:
        file.readline(_LINE_LIMIT)
        body = file.read(length)
    if len(body) != length:
        raise Unreadable(f"{found.path.name}: isn't whole")
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_text(body)
    return body


def as_text(body: bytes) -> bytes:
    """What isn't JSON, as a JSON string in base64."""
    return b'"' + b64encode(body) + b'"'
