"""What a run that is resumed gives its client, so that it continues the session of the earlier run.

No conversation can be put back into a client from outside, but clients keep sessions of their own and name them in
their requests, so a checkpoint has the newest session's id. The client's facts say how its arguments change; the shim
changes them, because only it sees the call behind a shell or a script. The first call that the session may belong to
takes it, by removing a file; if the run had several sessions, its prompt has to be one of that session's.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.agents.clients.facts import RESUME_FILE_VARIABLE, RESUME_VARIABLE
from hivemind.agents.clients.known import PROGRAMS, client_of
from hivemind.store.checkpoints import SUFFIX, Checkpoint, Found, Unreadable, conversation, folder_in, read

AIDER = "aider:history"
"""aider has no sessions, but continues the chats of a folder."""
_BY_LITELLM = "litellm"
"""How aider's requests look, as those of other programs do."""
_MOST_PROMPTS = 200
_LONGEST_PROMPT = 64 << 10


class Resumption(Struct, frozen=True):
    """The session to continue."""

    session: str
    """`KIND:ID`, as :data:`~.clients.facts.RESUME_VARIABLE` has it."""
    prompts: tuple[str, ...] = ()
    """The prompts of that session, if the run had several: a script's calls are told apart by them."""

    @property
    def certain(self) -> bool:
        """Whether the client has named the session."""
        return self.session != AIDER


def resumption_of(checkpoint: Checkpoint, conversation: bytes | None) -> Resumption | None:
    """Return what the agent's client can continue; None: as far as is known, nothing."""
    known, request = checkpoint.session, checkpoint.request
    if known is not None and known.client in _kinds():
        prompts = prompts_in(conversation) if known.others and conversation is not None else ()
        return Resumption(f"{known.client}:{known.id}", prompts)
    return Resumption(AIDER) if request is not None and request.client == _BY_LITELLM else None


def resumption_kept(kept: Found) -> Resumption | None:
    """Return what the client of a checkpoint's agent can continue; None: as far as is known, nothing."""
    try:
        said = conversation(kept)
    except (OSError, Unreadable):
        said = None  # it only tells a script's calls apart
    return resumption_of(kept.checkpoint, said)


def resumption_in(state: Path | None, name: str | None) -> Resumption | None:
    """Return what can be continued from the checkpoint of that name in a state directory; None: nothing is known."""
    if state is None or name is None:
        return None
    try:
        return resumption_kept(read(folder_in(state) / f"{name}{SUFFIX}"))
    except (OSError, Unreadable):
        return None


def _kinds() -> set[str]:
    found = map(client_of, PROGRAMS)
    return {client.kind for client in found if client is not None and client.resume is not None}


def prompts_in(conversation: bytes) -> tuple[str, ...]:
    """Return the texts that the user's turns of a conversation consist of, the first ones."""
    try:
        body = msgspec.json.decode(conversation)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    turns: list[Any] = (
        next((body[name] for name in ("messages", "input", "contents") if isinstance(body.get(name), list)), [])
        if isinstance(body, dict)
        else []
    )
    texts = (text for turn in turns if isinstance(turn, dict) and turn.get("role") == "user" for text in _texts(turn))
    return tuple(text for text, _ in zip(texts, range(_MOST_PROMPTS), strict=False) if len(text) <= _LONGEST_PROMPT)


def _texts(turn: Mapping[str, Any]) -> Iterator[str]:
    content = turn.get("content", turn.get("parts"))
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


@contextlib.contextmanager
def variables_for(wanted: Resumption | None) -> Iterator[dict[str, str]]:
    """Yield the variables by which a shim knows the session, as long as the run lives."""
    if wanted is None:
        yield {}
        return
    number, path = tempfile.mkstemp(prefix="hivemind-resume-", suffix=".json")
    with open(number, "w", encoding="utf-8", errors="replace") as file:
        json.dump(wanted.prompts, file)
    try:
        yield {RESUME_VARIABLE: wanted.session, RESUME_FILE_VARIABLE: path}
    finally:
        with contextlib.suppress(FileNotFoundError):  # the client took it
            os.unlink(path)
