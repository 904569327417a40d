"""Bodies of somebody else's recording, as a journal may have them: without credentials."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from hivemind.journal.importers.parsed import ParsedAttempt
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.journal.write.bodies import LONGEST
from hivemind.providers.encoding import decode_body
from hivemind.redaction.bodies import redact_body
from hivemind.redaction.heads import masked_headers, masked_target, secrets_of
from hivemind.wire.headers import Headers
from hivemind.wire.recent_heads import Heads


def bodies_of(
    tried: ParsedAttempt, ticket: int, attempt: int, asked_at: float, answered_at: float
) -> Iterator[RequestBody | ResponseBody]:
    """What was sent, told with the first attempt, and what was answered."""
    entry = tried.entry
    heads = Heads(
        ticket,
        {
            "method": entry.method,
            "raw_path": tried.address.raw_path,
            "query_string": entry.query,
            "headers": entry.headers,
        },
    )
    heads.response = entry.answer_headers
    secrets = secrets_of(heads)
    if attempt == 1:
        method, path = masked_target(heads, secrets)
        shown = masked_headers(entry.headers, secrets)
        text, encoding, left_out = _written(entry.headers, entry.body, secrets)
        yield RequestBody(asked_at, ticket, method, path, shown, text, encoding, left_out)
    if entry.status:
        text, encoding, left_out = _written(entry.answer_headers, entry.answer, secrets)
        if not entry.whole:
            text, encoding, left_out = "", "", "whoever recorded it didn't keep all of it"
        shown = masked_headers(entry.answer_headers, secrets)
        yield ResponseBody(answered_at, ticket, attempt, entry.status, shown, text, encoding, left_out)


def _written(headers: Headers, body: bytes, secrets: tuple[str, ...]) -> tuple[str, str, str]:
    """The body as text, how that is to be read, and why there is none."""
    if not body:
        return "", "", ""
    plain = decode_body(headers, body)
    if not plain:
        return "", "", "it can't be unpacked"
    if len(plain) > LONGEST:
        return "", "", f"it is longer than {LONGEST >> 20} MiB"
    plain, _ = redact_body(plain, secrets)
    try:
        return plain.decode(), "", ""
    except UnicodeDecodeError:
        return base64.b64encode(plain).decode(), "base64", ""
