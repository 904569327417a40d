from __future__ import annotations

import io
import logging
import sys

import pytest

from hivemind.logs import LineFormatter, configure, log_line
from hivemind.redaction.text import redact
from hivemind.world.snapshot import Line

SECRET = "s3kr1t-value-000"
FORMS = ("gsk_", "hf_", "r8_", "xai-", "pplx-", "ghp_", "glpat-", "github_pat_", "nvapi-", "ya29.")
"""Of keys of providers that have one."""


@pytest.mark.parametrize(
    "text",
    [
        f"authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}",
        f"proxy-authorization={SECRET}",
        f"{{'x-api-key': '{SECRET}', 'a': 1}}",
        f"[(b'x-api-key', b'{SECRET}')]",
        f"x-goog-api-key: {SECRET}",
        f"api-key: {SECRET}",
        f"x-hivemind-token: {SECRET}",
        f"HIVEMIND_TOKEN={SECRET}",
        f"HIVEMIND_CONTROL_TOKEN={SECRET}",
        f"ANTHROPIC_API_KEY={SECRET}",
        f"ANTHROPIC_AUTH_TOKEN={SECRET}",
        f"Cookie: {SECRET}",
        f"GET /v1beta/models?alt=sse&key={SECRET}&x=1",
        f"GET /v1beta/models?key={SECRET} HTTP/1.1",
        f"could not reach http://user:{SECRET}@proxy:8080",
        f"the token was bearer {SECRET}",
        f"used sk-ant-{SECRET} there",
        f"used AIza{SECRET}abcd there",
        f"GET /y?a=b&access_token={SECRET}",
        f"referer: https://x/y?X-Amz-Signature={SECRET}&b=1",
        f"GET /y?a=1;key={SECRET}",
        f"assertion eyJhbGciOiJSUzI1NiJ9.eyJzdWIi{SECRET}.c2ln, it said",
        *(f"used {form}{'A1' * 10}{SECRET} there" for form in FORMS),
    ],
)
def test_redact(text: str) -> None:
    """Whatever looks like a credential is replaced, in every form a log line is likely to have it."""
    assert SECRET not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        *("POST /v1/messages 200 in 1.2 s", "api.example:443: connection refused", "the key of the map", "tokens=12"),
        *("GET /v1/models?limit=5&max_tokens=12&pageToken=3", "agent xai-researcher, agent hf_dataset_downloader_2"),
    ],
)
def test_redact_leaves_the_rest(text: str) -> None:
    """Ordinary text stays as it is."""
    assert redact(text) == text


def record(message: str, *, exception: bool = False) -> logging.LogRecord:
    try:
        raise ValueError(f"no\nx-api-key: {SECRET}")
    except ValueError:
        info = sys.exc_info() if exception else None
    return logging.LogRecord("hivemind.x", logging.ERROR, __file__, 1, message, None, info)


def test_one_line() -> None:
    """A record is one line, its exception and where that was raised included, and free of secrets."""
    line = LineFormatter().format(record("first\nsecond", exception=True))
    assert "\n" not in line
    assert "ERROR hivemind.x: first | second | ValueError: no | x-api-key: ***" in line
    assert "test_logs.py:" in line


def test_traceback() -> None:
    """For debugging the whole traceback is there, still free of secrets."""
    text = LineFormatter(tracebacks=True).format(record("x", exception=True))
    assert "Traceback (most recent call last):\n" in text
    assert SECRET not in text


def test_configure() -> None:
    """Lines from the level on come out, once, and the chatter of libraries doesn't."""
    stream = io.StringIO()
    configure("debug")
    configure("info", stream)
    logging.getLogger("hivemind.x").info("kept")
    logging.getLogger("hivemind.x").debug("dropped")
    logging.getLogger("httpx").info("dropped")
    logging.getLogger("uvicorn.error").info("dropped")
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == ["INFO hivemind.x: kept"]


def test_a_lease_that_is_back_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The log says that the fleet is gone, and so it says that it is back; other good news needs the level debug."""
    caplog.set_level(logging.INFO, "hivemind")
    for level, tag in (("bad", "fleet"), ("good", "fleet"), ("good", "retried")):
        log_line(Line(1, 0.0, level, tag, "lane", "x"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "fleet lane: x"),
        ("INFO", "fleet lane: x"),
    ]
