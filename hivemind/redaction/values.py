"""The credentials that one request or answer carries, found by the names of headers and query fields."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from hivemind.redaction.text import MASK, decodings, holds_key, mask_values, printable, redact, shortened

# --- Names ------------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 1000
"""A longer name isn't searched, and counts as a credential's."""
_SECRET = re.compile(
    r"authori[sz]ation|authentication|cookie|passw|passphrase|secret|credential|signature|assertion|api[-_]?key|bearer"
    r"|jwt|(?:^|[-_.$])(?:key|token|auth|sig|pass|pwd|pat)$",
    re.IGNORECASE,
)
"""Not `tokens`: providers count those in headers."""
_HTTP = """
    accept accept-charset accept-encoding accept-language accept-ranges age allow alt-svc cache-control
    cdn-cache-control connection content-disposition content-encoding content-language content-length
    content-location content-range content-type date etag expect expires forwarded from host if-match
    if-modified-since if-none-match if-range if-unmodified-since keep-alive last-modified link location
    max-forwards origin pragma priority proxy-authenticate proxy-connection range referer refresh retry-after
    retry-after-ms server server-timing strict-transport-security te timing-allow-origin trailer
    transfer-encoding upgrade upgrade-insecure-requests user-agent vary via warning www-authenticate
"""
"""The IANA's registry of HTTP field names, as far as they are met with here."""
_EDGES = """
    alt-used cf-cache-status cf-connecting-ip cf-ipcountry cf-ray cf-visitor content-security-policy cdn-loop
    cross-origin-opener-policy cross-origin-resource-policy dnt fly-request-id nel permissions-policy
    referrer-policy report-to reporting-endpoints speculation-rules traceparent tracestate x-accel-buffering
    x-amz-cf-id x-amz-cf-pop x-amzn-requestid x-amzn-trace-id x-azure-ref x-b3-sampled x-b3-spanid x-b3-traceid
    x-cache x-cloud-trace-context x-content-type-options x-correlation-id x-dns-prefetch-control x-download-options
    x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-frame-options x-ms-region
    x-ms-client-request-id x-ms-request-id x-original-uri x-powered-by x-real-ip x-request-id x-requested-with
    x-response-time x-robots-tag x-runtime x-served-by x-timer x-trace-id x-vercel-cache x-vercel-id
    x-xss-protection
"""
"""Of gateways and content delivery networks, tracing and browsers."""
_CLIENTS = """
    anthropic-beta anthropic-client-platform anthropic-dangerous-direct-browser-access anthropic-version
    anthropic-workspace-id chatgpt-account-id conversation_id copilot-integration-id editor-plugin-version
    editor-version http-referer openai-intent originator session-id session_id thread-id version x-app
    x-claude-code-agent-id x-claude-code-parent-agent-id x-claude-code-request-class x-claude-code-session-id
    x-github-api-version x-goog-api-client x-goog-user-project x-hivemind-agent x-hivemind-agent-id
    x-hivemind-priority x-initiator x-stainless-arch x-stainless-async x-stainless-helper-method x-stainless-lang
    x-stainless-os x-stainless-package-version x-stainless-read-timeout x-stainless-retry-count x-stainless-runtime
    x-stainless-runtime-version x-stainless-timeout x-title
"""
_PROVIDERS = """
    anthropic-organization-id apim-request-id azureml-model-deployment azureml-model-session inference-id
    openai-organization openai-processing-ms openai-project openai-version request-id x-gemini-service-tier
    x-groq-region x-model x-model-id x-provider x-should-retry
"""

SHOWN = frozenset(f"{_HTTP}{_EDGES}{_CLIENTS}{_PROVIDERS}".split())
"""Headers that are known to carry no credential. A credential that is put into one all the same is recognised by its
form or its value."""

_FAMILIES = """
    access-control- anthropic-fast- anthropic-priority- anthropic-ratelimit- cerebras- helicone-cache- openai-beta
    ratelimit- sec-ch- sec-fetch- x-claude- x-codex- x-envoy- x-goog-request- x-hivemind- x-kong- x-litellm-
    x-ms-rai- x-openai- x-opencode- x-ratelimit- x-stainless-
"""
SHOWN_PREFIXES = tuple(_FAMILIES.split())
"""Prefixes of such headers. A name within one may still be a credential's, as `x-hivemind-token` is."""


def is_secret(name: str) -> bool:
    """Return whether the value of a header or query field of this name is a credential."""
    return len(name) > _LONGEST_NAME or _SECRET.search(name) is not None


def is_shown(name: str) -> bool:
    """Return whether a header, named in lower case, is known to carry no credential."""
    return name in SHOWN or (name.startswith(SHOWN_PREFIXES) and not is_secret(name))


def query_fields(query: str) -> Iterator[tuple[str, str, str]]:
    """Yield each raw field of a query, its decoded name, and its raw value."""
    for field in query.split("&"):
        name, _, value = field.partition("=")
        yield field, (unquote(name) if "%" in name else name).lower() if value else name, value


# --- Values -----------------------------------------------------------------------------------------------------------

Headers = Sequence[tuple[bytes, bytes]]

SHORTEST = 8
"""Shortest credential that is masked everywhere: a shorter one would match ordinary words."""
MOST = 64
"""Most credentials of one request that are masked everywhere; no client sends so many. Each is searched for in the
whole body, so their number is bounded."""
_SHORTEST_COOKIE = 16
_LONGEST_DECODED = 512
"""Longest credential that is searched for percent-decoded too."""
_HARMLESS = frozenset(name.encode() for name in SHOWN)
SCHEME = re.compile(r"(bearer|basic|token|key)\s++", re.IGNORECASE)
_PARAMETER = re.compile(r"""=\s*+"?([^\s,;"]{16,})""")
"""Of a credential of several parts, as a signature of AWS or an answer to a digest."""
_BEARER = re.compile(r"\bbearer\s++([^\s'\",;)]+)", re.IGNORECASE)
TOKEN_IN_PATH = re.compile(r"(/token/)([^/?]+)", re.IGNORECASE)


def credentials_in(headers: Headers, target: bytes) -> tuple[str, ...]:
    """Return all credentials that are long enough to be masked elsewhere, the longest first."""
    found = _in_target(target.decode("latin-1")) if b"=" in target or b"/token/" in target.lower() else frozenset()
    for name, value in headers:
        if name not in _HARMLESS:
            found |= _in_header(name, value)
    return longest_first(found)


def longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets that are long enough to be masked, the longest first, at most :data:`MOST`."""
    return tuple(sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)[:MOST])


def credentials_of_url(url: str) -> tuple[str, ...]:
    """Return user name and password of a URL in each spelling in which a peer may repeat them, the longest first."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    given = parts.netloc.rpartition("@")[0]
    if not given:
        return ()
    user, _, password = given.partition(":")
    plain = f"{unquote(user)}:{unquote(password)}"
    found = {given, user, password, plain, unquote(user), unquote(password)}
    found |= {base64.b64encode(each.encode()).decode() for each in (given, plain)}
    found |= {each.rstrip("=") for each in found}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def texts(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers as text, names in lower case."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1").strip()) for name, value in headers]


def _in_target(target: str) -> frozenset[str]:
    path, _, query = target.partition("?")
    found = {match[2] for match in TOKEN_IN_PATH.finditer(path)}
    found |= {value for _, name, value in query_fields(query) if len(value) >= SHORTEST and is_secret(name)}
    return _spelled(found)


def _in_header(name: bytes, value: bytes) -> frozenset[str]:
    ((name_, text),) = texts([(name, value)])
    found = set(_BEARER.findall(text)) if "bearer" in text.lower() else set()
    if is_secret(name_):
        bare = SCHEME.sub("", text, count=1)
        found |= {bare if len(bare) >= SHORTEST else text, *_cookies(name_, text)}
        if name_.endswith("authorization"):
            found.update(_PARAMETER.findall(bare))
        if text[:6].lower() == "basic ":
            found.update(_basic(bare))
    return _spelled(found)


def _spelled(found: set[str]) -> frozenset[str]:
    """Return the secrets that are long enough, unchanged and percent-decoded."""
    kept = longest_first(found)
    return frozenset((*kept, *(unquote(each) for each in kept if "%" in each and len(each) <= _LONGEST_DECODED)))


def _basic(encoded: str) -> Iterator[str]:
    """Return the decoded user name and password, because errors repeat those."""
    try:
        plain = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield plain
    yield plain.partition(":")[2]


def _cookies(name: str, value: str) -> Iterator[str]:
    """Return each cookie's value, without the attributes of `set-cookie`."""
    pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";") if name == "cookie" else []
    for pair in pairs:
        cookie = pair.partition("=")[2].strip()
        if len(cookie) >= _SHORTEST_COOKIE:
            yield cookie


_LONGEST_CACHED = 300
"""Most bytes of a header that is cached."""
_ODD_NAME = re.compile(r"%[0-9a-f]{2}|(?<![a-z0-9_])(?=[a-z_]{0,64}[0-9])[a-z0-9_]{20}")
"""A header's name that may be a key: in lower case few forms of keys can be recognised, and no word is that long."""
_LONGEST_VALUE = 4096
"""Most characters of a header's value that are shown."""
_LONGEST_PATH = 8192


def masked_method(method: str, secrets: Sequence[str]) -> str:
    """Return a request's method, credentials masked."""
    return printable(shortened(redact(mask_values(method, secrets)), SHORTEST * 4))


def masked_path(path: str, query: str = "", secrets: Sequence[str] = ()) -> str:
    """Return a path with its query, credentials masked; long ones are cut."""
    text = mask_values(TOKEN_IN_PATH.sub(rf"\1{MASK}", path), secrets)
    if query:
        text += "?" + "&".join(_field(*each) for each in query_fields(mask_values(query, secrets)))
    text = redact(text, _LONGEST_PATH)
    return MASK if _spells(text, secrets) else printable(text)


def masked_headers(headers: Headers, secrets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return names in lower case, and values with credentials masked."""
    return tuple([_header(name, value, secrets) for name, value in headers])


def _field(field: str, name: str, value: str) -> str:
    return f"{field[: len(field) - len(value)]}{MASK}" if value and is_secret(name) else field


def _header(name: bytes, value: bytes, secrets: Sequence[str]) -> tuple[str, str]:
    remembered = len(name) + len(value) <= _LONGEST_CACHED
    shown, text = _cached_by_name(name, value) if remembered else _by_name(name, value)
    return mask_values(shown, secrets), MASK if _spells(text, secrets) else mask_values(text, secrets)


def _by_name(name: bytes, value: bytes) -> tuple[str, str]:
    """Return the header, masked by its name and by the forms of keys, but not by the request's own secrets."""
    ((name_, text),) = texts([(name, value)])
    shown = printable(redact(shortened(name_, _LONGEST_CACHED)))
    if _ODD_NAME.search(name_) and not is_shown(name_):
        shown = MASK
    if is_secret(name_):
        scheme = SCHEME.match(text)
        return shown, f"{scheme[1]} {MASK}" if scheme else MASK
    # A value shorter than any credential is useful, and gives nothing away.
    if not is_shown(name_) and len(text) >= SHORTEST:
        return shown, MASK
    text = redact(text, _LONGEST_VALUE)
    return shown, MASK if "%" in text and holds_key(text) else printable(text)


_cached_by_name = lru_cache(maxsize=2048)(_by_name)  # most headers are the same in each request


def _spells(text: str, secrets: Sequence[str]) -> bool:
    """Return whether percent-decoding reveals a credential: one of `secrets`, or one recognised by its form."""
    if "%" not in text:
        return False
    decoded = decodings(text)[1:]
    return any(each in spelled for spelled in decoded for each in secrets) or any(map(holds_key, decoded))
