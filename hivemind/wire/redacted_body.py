"""Requests without their credentials, as they may be stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hivemind.providers.encoding import decode_body
from hivemind.redaction.bodies import redact_body
from hivemind.redaction.heads import masked_path
from hivemind.redaction.names import is_secret, query_fields
from hivemind.redaction.values import longest_first
from hivemind.store.checkpoints import Checkpoint, as_text
from hivemind.wire.call import Call


def path_of(call: Call, own: Iterable[str] = ()) -> str:
    """Return the path as the agent sent it, with its query, without credentials; `own` are the proxy's own."""
    path, _, query = call.head.target.decode("latin-1").partition("?")
    path = path.removeprefix(call.head.route.origin.base_path)
    kept = "&".join(field for field, name, _ in query_fields(query) if field and not is_secret(name))
    return masked_path(path, kept, longest_first((*own, *call.head.secrets)))


def with_conversation(
    checkpoint: Checkpoint, call: Call, limit: int, own: Iterable[str] = ()
) -> tuple[Checkpoint, bytes | None]:
    """Return the checkpoint and its conversation: the request's body, decoded, without the credentials that the request
    came with or lends the provider, or that are recognised by their form.

    Takes a while for a long body, but never holds the interpreter long; meant for a thread.
    """
    lower = [(name.lower(), value) for name, value in call.head.headers]
    body = decode_body(lower, call.body, limit)
    if not body:
        why = f"it can't be unpacked, or is larger than checkpoint.max_mb ({limit >> 20}) allows" if call.body else ""
        return replace(checkpoint, left_out=why or "the request had no body"), None
    body, masked = redact_body(body, (*own, *call.head.secrets))
    if not _looks_like_json(body):
        body = as_text(body)
        checkpoint = replace(checkpoint, encoding="base64")
    return replace(checkpoint, masked=masked, conversation_bytes=len(body)), body


def _looks_like_json(body: bytes) -> bool:
    """Return whether a body has the two ends of a JSON document; other dialects send forms or audio."""
    ends = body[:64].lstrip()[:1] + body[-64:].rstrip()[-1:]
    return ends in (b"{}", b"[]")
