"""Every place of a request in which a client can put a key, as bytes on the wire."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

from security.canaries.answers import ANSWERS
from security.canaries.keys import Keys

Request = tuple[str, bytes]
"""The place, and the request; the last connection is closed by the client."""
CREDENTIALS = (
    *("x-api-key: {}", "authorization: Bearer {}", "authorization: bearer  {}", "authorization: {}"),
    *("authorization: Token {}", "authorization: Key {}", "authorization: Digest username=x, response={}"),
    *("x-goog-api-key: {}", "api-key: {}", "ocp-apim-subscription-key: {}", "x-amz-security-token: {}"),
    *("authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature={}", "proxy-authorization: {}"),
    *("cookie: session={}; a=b", "cookie: {}", "x-hivemind-token: {}", "x-auth: {}", "x-session-token: {}"),
    *("helicone-auth: Bearer {}", "cf-access-client-secret: {}", "x-portkey-api-key: {}", "x-litellm-api-key: {}"),
    *("openai-api-key: {}", "anthropic-api-key: {}", "x-vault-token: {}", "x-gitlab-private-token: {}", "jwt: {}"),
    *("x-password: {}", "x-signature: {}", "x-client-secret: {}", "x-tenant: {}", "x-made-up: {}", "x-{}"),
)
"""Headers that hold a credential, by their name or because nobody knows them."""
TEXTS = (
    *("user-agent: me/{}", "x-stainless-os: {}", "accept: text/{}", "referer: http://x/?a={}", "x-request-id: {}"),
    *("anthropic-beta: {}", "openai-organization: {}", "x-hivemind-priority: {}", "x-title: {}", "traceparent: {}"),
    *("{}: 1", "x-{}: 1", "content-type: application/{}", "expect: {}", "x-forwarded-for: {}", "te: {}", "via: 1 {}"),
)
"""Headers in which a key stands by mistake, so that only its form tells."""
NAMES = (
    *("x-hivemind-agent: {}", "x-hivemind-agent-id: {}", "x-claude-code-session-id: {}", "session-id: {}"),
    *("x-claude-code-agent-id: {}", "x-claude-code-parent-agent-id: {}", "session_id: {}", "conversation_id: {}"),
)
QUERIES = (
    *("key={}", "api_key={}", "access_token={}", "a=1&token={}&b=2", "sig={}", "X-Amz-Signature={}", "%6bey={}"),
    *("client_secret={}", "password={}", "auth={}"),
)
TARGETS = (
    *("/v1beta/models/{}:generateContent", "/openai/deployments/{}/chat/completions", "/{}", "/v1/{}/messages"),
    *("/to/{}/v1/messages", "/agent/{}/v1/messages", "/token/x/{}", "/v1/messages?q={}", "/v1/messages?{}=1"),
    *("/v1/models/{}", "/_control/{}", "/_{}", "/.well-known/oauth-{}", "/_control/checkpoints/{}"),
)
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
OWN = "own credential"


def _request(target: str, *headers: str, body: bytes | None = None, method: str = "POST", key: str = "") -> bytes:
    body = json.dumps(BODY).encode() if body is None else body
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *headers, f"content-length: {len(body)}"]
    lines += [f"x-api-key: {key}"] if key else []
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body


def spelled(text: str) -> str:
    """Every character percent-encoded."""
    return "".join(f"%{byte:02X}" for byte in text.encode())


def requests(keys: Keys) -> Iterator[Request]:
    """All of them."""
    yield from _heads(keys)
    yield from _targets(keys)
    yield from _bodies(keys)
    yield from _odd(keys)


def _heads(keys: Keys) -> Iterator[Request]:
    for line in CREDENTIALS:
        for made in (keys.unknown, keys.known):
            place = f"client: header {line}"
            yield place, _request("/v1/messages", line.format(made(place)))
    for user in ("", "user:", ":", "user:pass:"):
        place = "client: Basic"
        plain = f"{user}{keys.unknown(place)}"
        yield place, _request("/v1/messages", "authorization: Basic " + base64.b64encode(plain.encode()).decode())
    for line in (*TEXTS, *NAMES):
        for coded in (str, spelled):
            place = f"client: header {line}"
            key = keys.known(place, lower=line.endswith("{}: 1"))
            yield place, _request("/v1/messages", line.format(coded(key)), key=keys.unknown(OWN))
        # The request's own credential once more, in another place.
        own = keys.unknown(OWN)
        yield OWN, _request("/v1/messages", line.format(own), key=own)
    for line in ("x-tenant: {}", "x-made-up: {}"):
        for _ in ANSWERS:  # so that one of these answers repeats it
            place = f"client: header {line}"
            yield place, _request("/v1/messages", line.format(keys.unknown(place)))
    place = "client: very long header"
    yield place, _request("/v1/messages", f"x-long: {'a ' * 5000}{keys.known(place)}", key=keys.unknown(OWN))


def _targets(keys: Keys) -> Iterator[Request]:
    for query in QUERIES:
        for coded in (str, spelled):
            place = f"client: query {query}"
            yield place, _request("/v1/messages?" + query.format(coded(keys.unknown(place))))
    for target in TARGETS:
        for coded in (str, spelled, lambda text: quote(spelled(text), safe="")):
            for method in ("POST", "GET"):
                place = f"client: target {target}"
                yield place, _request(target.format(coded(keys.known(place))), method=method)
                own = keys.unknown(OWN)
                yield OWN, _request(target.format(coded(own)), key=own, method=method)
    for target in ("http://user:{}@localhost/v1/messages", "http://{}/v1/messages", "/token/{}/v1/messages"):
        place = f"client: target {target}"
        yield place, _request(target.format(keys.unknown(place)))


def _bodies(keys: Keys) -> Iterator[Request]:
    def made(place: str, key: str) -> Iterator[dict[str, object]]:
        text = {"role": "user", "content": f"mine is {key}, is it?"}
        yield {**BODY, "model": key}
        yield {**BODY, "model": f"gateway/{key}", "stream": True}
        yield {**BODY, "model": "m" * 300 + key}
        yield {**BODY, "metadata": {"user_id": key, "session_id": key}, "user": key, "prompt_cache_key": key}
        yield {**BODY, "metadata": {"user_id": json.dumps({"session_id": key, "account_uuid": key})}}
        yield {**BODY, "messages": [text], "system": key, "stop_sequences": [key]}
        yield {**BODY, "tools": [{"name": key, "description": key, "input_schema": {"title": key}}]}
        yield {
            **BODY,
            "messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": f'{{"a":"{key}"}}'}}]}],
        }
        yield {**BODY, key: 1, "service_tier": key, "reasoning": {"effort": key}}

    for number in range(9):
        place = f"client: body {number}"
        key = keys.known(place)
        body = json.dumps(list(made(place, key))[number]).encode()
        for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/api/chat"):
            yield place, _request(path, body=body, key=keys.unknown(OWN))
        own = keys.unknown(OWN)
        yield OWN, _request("/v1/messages", body=json.dumps(list(made(OWN, own))[number]).encode(), key=own)
    for field in ("authorization_token", "authorization", "api-key"):
        place = f"client: lent in {field}"
        server = {"type": "url", "url": "https://x", "name": "x", field: keys.unknown(place)}
        yield place, _request("/v1/messages", body=json.dumps({**BODY, "mcp_servers": [server]}).encode())
    yield from _multipart(keys)
    place = "client: escapes of JSON"
    escaped = "".join(f"\\u{ord(each):04x}" for each in keys.known(place))
    yield place, _request("/v1/messages", body=json.dumps({**BODY, "model": "@"}).replace("@", escaped).encode())


def _multipart(keys: Keys) -> Iterator[Request]:
    """Uploads, with a key in each part of one."""
    for path in ("/v1/files", "/v1/audio/transcriptions", "/v1/messages"):
        for number in range(4):
            place = f"client: multipart {number}"
            name, file, kind, content = (keys.known(place) if number == each else "x" for each in range(4))
            part = f'--b\r\ncontent-disposition: form-data; name="{name}"; filename="{file}"\r\n'
            part += f"content-type: text/{kind}\r\n\r\nit is {content}.\r\n--b--\r\n"
            headers = ("content-type: multipart/form-data; boundary=b",)
            yield place, _request(path, *headers, body=part.encode(), key=keys.unknown(OWN))
        place = "client: boundary"
        key = keys.known(place)
        headers = (f"content-type: multipart/form-data; boundary={key}",)
        yield place, _request(path, *headers, body=f"--{key}--\r\n".encode(), key=keys.unknown(OWN))


def _odd(keys: Keys) -> Iterator[Request]:
    def head(place: str, *lines: str) -> Request:
        return place, "\r\n".join((lines[0], "connection: close", *lines[1:], "", "")).encode("latin-1")

    post, host, chunked = "POST /v1/messages HTTP/1.1", "host: localhost", "transfer-encoding: chunked"
    place = "client: trailer"
    trailer = f"5\r\n{{   }}\r\n0\r\nx-api-key: {keys.unknown(place)}\r\nx-t: {keys.known(place)}\r\n\r\n"
    yield place, head(place, post, host, chunked)[1] + trailer.encode()
    place = "client: chunk extension"
    yield place, head(place, post, host, chunked)[1] + f"2;{keys.known(place)}=x\r\n{{}}\r\n0\r\n\r\n".encode()
    for place, lines in {
        "client: method": (f"{keys.known('client: method')} / HTTP/1.1", host),
        "client: version": (f"GET / {keys.known('client: version')}", host),
        "client: first line": (keys.known("client: first line"),),
        "client: host": ("GET /v1/models HTTP/1.1", f"host: {keys.known('client: host', lower=True)}"),
        "client: folded line": (post, host, "x-api-key: a", f" {keys.unknown('client: folded line')}"),
        "client: no colon": (post, host, f"x-api-key {keys.unknown('client: no colon')}"),
        "client: space before the colon": (post, host, f"x-api-key : {keys.unknown('client: space before the colon')}"),
        "client: length": (post, host, f"content-length: {keys.known('client: length')}"),
        "client: coding": (post, host, f"transfer-encoding: {keys.known('client: coding')}"),
        "client: content coding": (
            post,
            host,
            f"content-encoding: {keys.known('client: content coding')}",
            "content-length: 2",
            "",
            "{}",
        ),
        "client: upgrade": ("GET / HTTP/1.1", host, f"upgrade: {keys.known('client: upgrade')}"),
        "client: origin": ("GET /v1/models HTTP/1.1", host, f"origin: http://{keys.known('client: origin')}"),
        "client: CONNECT": (f"CONNECT {keys.known('client: CONNECT')}:443 HTTP/1.1", host),
        "client: control token": (
            "GET /_control/about HTTP/1.1",
            host,
            f"authorization: Bearer {keys.unknown('client: control token')}",
        ),
        "client: scraper": ("GET /metrics HTTP/1.1", host, f"authorization: Bearer {keys.unknown('client: scraper')}"),
        "client: MCP": (
            "POST /mcp HTTP/1.1",
            host,
            f"authorization: Bearer {keys.unknown('client: MCP')}",
            "content-length: 0",
        ),
        "client: cut off": (post, host, f"x-api-key: {keys.unknown('client: cut off')}", "content-length: 900"),
        "client: dot segments": (f"GET /../{keys.known('client: dot segments')} HTTP/1.1", host),
        "client: two lengths": (
            post,
            host,
            f"x-api-key: {keys.unknown('client: two lengths')}",
            "content-length: 1",
            "content-length: 2",
        ),
    }.items():
        yield head(place, *lines)
