"""Nothing that redacts takes more than linear time, whatever the input."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hivemind.redaction import text, values
from hivemind.redaction.bodies import redact_body
from hivemind.redaction.forms import FORMS, NAMED

SIZE = 1 << 11
UNITS = (
    *("a-", "a_", "a.", "authorization", "authorization ", "cookie:", "cookie ", "api_key", "bearer", "bearer "),
    *("eyJ", "-eyJ", ".eyJ", "eyJaaaaaaaaa.", "\\neyJ", "%20eyJ", "://", "://a", "://a@", "12345678:AA", "token "),
    *("_KEY", "A_KEY=", "A_KEY:aaaaaaaaaaaaaaaaa", "?a-", "?a-key", "&key=", "?", "/token/", "%", "%25", "\\"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-", "1", " ", '"', "\n", "uthori", '"uthori', "\\n"),
    *("sk-", "xsk-", '"authorization"', '"authorization":"', '"authorization":"\\\\', '"authorization" '),
    "a=" + "b" * 16 + ";",
)
OF_THE_TABLE = (
    *(prefix for form in FORMS for prefix in form.prefixes),
    *(name for _, each, _ in NAMED for name in each),
)
WAYS: dict[str, Callable[[str], object]] = {
    "text": lambda given: text.redact(given, None),
    "name": text.holds_key,
    "label": text.label,
    "body": lambda given: redact_body(given.encode(), ()),
    "path": lambda given: values.masked_path(given, given),
    "header": lambda given: values._by_name(b"user-agent", given.encode()),
    "header name": values.is_secret,
    "credentials": lambda given: values.credentials_in([(b"cookie", given.encode())], given.encode()),
}


def seconds(work: Callable[[str], object], given: str, times: int = 3) -> float:
    """Of processor time, the best of several."""
    best = float("inf")
    for _ in range(times):
        began = time.thread_time()
        work(given)
        best = min(best, time.thread_time() - began)
    return best


@pytest.mark.parametrize("way", WAYS)
def test_linear(way: str) -> None:
    """Four times as much takes about four times as long, for each pattern's own worst case; sixteen times as long where
    it is quadratic."""
    work, slow = WAYS[way], []
    for unit in (*UNITS, *(OF_THE_TABLE if way in ("text", "body") else ())):
        one = (unit * (SIZE // len(unit) + 1))[:SIZE]
        # What is quick at this size isn't quadratic, and too quick to be compared.
        if seconds(work, one * 4, 1) > 0.01 and seconds(work, one * 4, 9) > 9 * seconds(work, one, 9):
            slow.append(unit)
    assert slow == []


def test_caches_hold_nothing_long() -> None:
    """They are bounded in entries, so that their keys have to be bounded in length."""
    for cached in (text._cached_label, values._cached_by_name):
        cached.cache_clear()
    long = "x" * 10_000
    text.label(long)
    values.masked_headers([(b"user-agent", long.encode())], ())
    for cached in (text._cached_label, values._cached_by_name):
        assert cached.cache_info().currsize == 0
