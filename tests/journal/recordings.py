"""HAR files as several programs write them, in small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEY = "sk-ant-api03-" + "S3cr3t" * 6
HERE = Path(__file__).parent
MESSAGES = "https://api.anthropic.com/v1/messages"


def sse(*events: dict[str, Any]) -> str:
    """A stream of Anthropic's."""
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


STREAM = sse(
    {"type": "message_start", "message": {"model": "claude-sonnet-4-5", "usage": {"input_tokens": 90}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)


def entry(
    began: str = "2026-11-21T18:00:00.000Z",
    *,
    url: str = MESSAGES,
    status: int = 200,
    answer: str = STREAM,
    media: str = "text/event-stream",
    headers: dict[str, str] | None = None,
    answer_headers: dict[str, str] | None = None,
    timings: dict[str, float] | None = None,
    asked: object = None,
    **more: Any,
) -> dict[str, Any]:
    """An exchange, as the specification has it."""
    body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "stream": True, "messages": []} if asked is None else asked
    content: dict[str, Any] = {"size": len(answer), "mimeType": media}
    return {
        "startedDateTime": began,
        "time": 0,
        "request": {
            "method": "POST",
            "url": url,
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": pairs({"x-api-key": KEY} if headers is None else headers),
            "queryString": [],
            "postData": {"mimeType": "application/json", "text": json.dumps(body)},
            "headersSize": -1,
            "bodySize": -1,
        },
        "response": {
            "status": status,
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": pairs({"content-type": media, **(answer_headers or {})}),
            "content": content | ({"text": answer} if answer else {}),
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": -1,
        },
        "cache": {},
        "timings": timings or {"send": 0, "wait": 500, "receive": 1500},
        **more,
    }


def pairs(headers: dict[str, str]) -> list[dict[str, str]]:
    """As HAR has headers."""
    return [{"name": name, "value": value} for name, value in headers.items()]


def har(path: Path, *entries: object, creator: str = "test") -> Path:
    """A file of these."""
    log = {"version": "1.2", "creator": {"name": creator, "version": "1"}, "pages": [], "entries": entries}
    path.write_text(json.dumps({"log": log}, indent=2), "utf-8")
    return path
