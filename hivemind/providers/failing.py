"""Answers with status 200 that are failures: what stands in an event, or in a whole reply, in place of an answer.

Nothing here names a provider: an object that has nothing of an answer and says that it failed, in whatever members,
is a failure. The forms that are known are rows of :mod:`hivemind.providers.known`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from hivemind.providers import json_fields
from hivemind.providers.errors import ErrorInfo, classify_event, judge
from hivemind.scheduler.types import Failure, FailureKind

LONGEST_FAILURE = 16 * 1024
"""Bytes of an event or reply that may be a failure of an unknown form; longer ones are answers."""
EMPTY = Failure(FailureKind.TRUNCATED, True, message="the answer was empty")

_ANSWERS = "choices candidates content output outputs response data result results embeddings"
_ANSWER = frozenset(_ANSWERS.split())
"""Members of which one is filled in every answer."""
_CODES = ("code", "status_code", "statuscode", "error_code", "errorcode", "errcode", "ret", "status")
_MESSAGES = "message msg status_msg error_msg errmsg error_message errormessage detail status_text"
_TEXTS = _MESSAGES.split()
_SAID = ("error", "errors", "exception", "fault", "__type", "error_msg", "error_message", "errormessage", "detail")
"""Members that stand only in failures."""
_GOOD = frozenset({"", "0", "200", "20000", "none", "true", "ok", "success", "succeeded"})
_KINDS = ("object", "type", "event", "status")
_BAD = re.compile(r"error|fail(?:ed|ure)?|exception", re.I)
_FINISH = re.compile(rb'"[A-Za-z_]{1,20}"\s{0,4}:\s{0,4}"([A-Za-z_ -]{1,60})"')
_USUAL_VALUES = tuple(
    b':%b"%b"' % (space, value)
    for value in (b"stop", b"tool_calls", b"end_turn", b"tool_use", b"STOP")
    for space in (b"", b" ")
)
_FAILED_FINISH = re.compile(r"error|abort|fail|timeout|timed_out|insufficient|overload|unavailable|interrupt", re.I)
_NO_CHOICE = re.compile(rb'"(?:choices|candidates)"\s{0,4}:\s{0,4}(?:null|\[\s{0,4}\])')
_FULL = re.compile(r"insufficient|overload|unavailable", re.I)


def error_in(data: bytes) -> bytes:
    """Return the JSON of the error that an object states in place of an answer; empty if it states none."""
    if not 2 < len(data) <= LONGEST_FAILURE:
        return b""
    value = json_fields.anything(data)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return b""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and (error := choice.get("error")):
            return msgspec.json.encode({"error": error})
    return data if _says_failed(value) else b""


def failure_in(data: bytes) -> Failure | None:
    """Return the failure that an object states in place of an answer; None if it states none."""
    error = error_in(data)
    return classify_event(error) if error else None


def failure_in_reply(body: bytes, member: bytes = b"") -> Failure | None:
    """Return the failure that a whole reply states, also one without any choice; None if it is an answer. `member` as
    in :func:`failed_finish`."""
    failure = failure_in(body) or failed_finish(body, member)
    if failure is None and _NO_CHOICE.search(body[:LONGEST_FAILURE]):
        return EMPTY
    return failure


def failed_finish(reply: bytes, member: bytes) -> Failure | None:
    """Return the failure that a reply's last finish reason names, which is this member in quotes; None: it names
    none."""
    at = reply.rfind(member) if member else -1
    if at < 0 or reply.startswith(_USUAL_VALUES, at + len(member)):
        return None
    found = _FINISH.match(reply, at)
    return finish_failure(found[1].decode()) if found is not None else None


def finish_failure(reason: str) -> Failure | None:
    """Return the failure that a finish reason names; None if it is that of an answer."""
    if not _FAILED_FINISH.search(reason):
        return None
    return judge(529 if _FULL.search(reason) else 502, ErrorInfo(words=(reason,)))


def _says_failed(value: dict[str, object]) -> bool:
    members = {str(name).lower(): each for name, each in value.items()}
    if any(map(_is_failed_part, _parts(members))):
        return True
    if any(members.get(name) for name in _ANSWER) or isinstance(members.get("message"), dict):
        return members.get("status") == "failed"
    return _is_failed(members)


def _parts(members: dict[str, object]) -> Iterator[dict[str, object]]:
    for each in members.values():
        if isinstance(each, dict):
            yield {str(name).lower(): member for name, member in each.items()}


def _is_failed_part(part: dict[str, object]) -> bool:
    """Return whether a member of an object (`base_resp`, `header`, `Response`) says that it failed."""
    return bool(part.get("error") or part.get("__type")) or (_has_code(part) and _has_text(part))


def _is_failed(members: dict[str, object]) -> bool:
    if any(members.get(name) for name in _SAID):
        return True
    if any(isinstance(kind := members.get(name), str) and _BAD.fullmatch(kind) for name in _KINDS):
        return True
    if members.get("success") is False or members.get("ok") is False:
        return True
    return _has_text(members) and (_has_code(members) or len(members) == 1)


def _has_code(members: dict[str, object]) -> bool:
    codes = (members.get(name) for name in _CODES)
    return any(isinstance(code, int | str) and str(code).lower() not in _GOOD for code in codes)


def _has_text(members: dict[str, object]) -> bool:
    return any(isinstance(text := members.get(name), str) and text for name in _TEXTS)
