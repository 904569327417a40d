"""Links in answers, as they lead through the proxy."""

from __future__ import annotations

from typing import Any

import pytest

from hivemind.wire.links import Links

US = b"http://localhost:8765/token/t/agent/ann"


def links(base_path: bytes = b"", told: list[tuple[str, str]] | None = None, **values: bytes) -> Links:
    """Those of a request to an upstream at api.example.com, of an agent with a token."""
    noted: list[tuple[str, str]] = [] if told is None else told
    own: dict[str, Any] = {"scheme": b"https", "authority": b"api.example.com", **values}
    return Links(US, b"/token/t/agent/ann", base_path=base_path, past=lambda path, *what: noted.append(what), **own)


@pytest.mark.parametrize(("name", "link", "through"), [
    ("location", "https://api.example.com/v1/operations/1?a=b%2F", US + b"/v1/operations/1?a=b%2F"),
    ("operation-location", "HTTPS://API.example.com:443/x", US + b"/x"),
    ("operation-location", "http://api.example.com/x", US + b"/x"),
    ("x-goog-upload-url", "https://api.example.com/upload/v1/files?upload_id=1", US + b"/upload/v1/files?upload_id=1"),
    ("x-goog-upload-url", "//api.example.com/x", US + b"/x"),
    ("location", "https://api.example.com", US),
    ("content-location", "/v1/files/1", b"/token/t/agent/ann/v1/files/1"),
    ("location", "jobs/1", b"jobs/1"),
    ("location", "", b""),
    ("location", "https://api.example.com.evil.org/x", b"https://api.example.com.evil.org/x"),
    ("location", "https://api.example.com:8443/x", b"https://api.example.com:8443/x"),
    ("location", "https://u@api.example.com/x", b"https://u@api.example.com/x"),
    ("link", '<https://api.example.com/l?p=2>; rel="next", <https://x.org/>; rel=help, </l?p=1>; rel=prev',
     b"<" + US + b'/l?p=2>; rel="next", <https://x.org/>; rel=help, </token/t/agent/ann/l?p=1>; rel=prev'),
])  # fmt: skip
def test_in_headers(name: str, link: str, through: bytes) -> None:
    """What leads to the upstream, in any spelling, leads through us, with token and agent; nothing else is touched."""
    assert links().in_header(name.encode(), link.encode()) == through


@pytest.mark.parametrize(("link", "through"), [
    (b"https://api.example.com/gate/v7/jobs/1", US + b"/jobs/1"),
    (b"/gate/v7/jobs/1", b"/token/t/agent/ann/jobs/1"),
    (b"https://api.example.com/gate/v7", US),
    (b"https://api.example.com/gate/v77/x", b"https://api.example.com/gate/v77/x"),
    (b"/elsewhere", b"/elsewhere"),
])  # fmt: skip
def test_below_a_base_path(link: bytes, through: bytes) -> None:
    """The upstream's base path is added again to each request, so it goes; what isn't below it can't be reached."""
    assert links(b"/gate/v7").in_header(b"location", link) == through


@pytest.mark.parametrize(("body", "through"), [
    (b'{"id":"b","results_url": "https://api.example.com/v1/messages/batches/b/results"}',
     b'{"id":"b","results_url": "' + US + b'/v1/messages/batches/b/results"}'),
    (b'{"urls":{"get":"https:\\/\\/api.example.com\\/p\\/1","cancel":"https://api.example.com/p/1/cancel"}}',
     b'{"urls":{"get":"' + US + b'/p/1","cancel":"' + US + b'/p/1/cancel"}}'),
    (b'[{"nextLink" :\n"https://api.example.com/l?p=2"}]', b'[{"nextLink" :\n"' + US + b'/l?p=2"}]'),
    # Others keep theirs: what is sent back to the provider in a prompt, text, and what leads elsewhere.
    *[(same, same) for same in (
        b'{"uri":"https://api.example.com/v1beta/files/1"}',
        b'{"content":"https://api.example.com/v1/x"}',
        b'{"text":"\\"results_url\\":\\"https://api.example.com/x\\""}',
        b'{"results_url":null,"url":"https://store.example.org/1.png"}',
        b"",
    )],
])  # fmt: skip
def test_in_bodies(body: bytes, through: bytes) -> None:
    """Members whose names say that they hold a link; the rest stays byte for byte, and the same object without one."""
    found = links().in_body(body)
    assert found == through
    assert (found is body) is (body == through)


def test_what_leads_past_us_is_told() -> None:
    """If clients follow it with their key: not a picture in a store of files, nor what only describes."""
    told: list[tuple[str, str]] = []
    its = links(b"/gate", told)
    its.in_header(b"operation-location", b"https://eu.example.com/operations/1")
    its.in_header(b"x-goog-upload-url", b"https://api.example.com/upload")
    its.in_header(b"content-location", b"https://eu.example.com/files/1")
    its.in_body(b'{"results_url":"https://api.example.org/b","url":"https://store.example.org/1.png"}')
    assert told == [
        ("operation-location", "eu.example.com"),
        ("x-goog-upload-url", "api.example.com"),
        ("results_url", "api.example.org"),
    ]
