"""Redaction: no key of a known form survives, wherever it stands, and what is redacted stays as it is."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.kit import choices, require, require_linear, target

from hivemind.redaction import text as texts
from hivemind.redaction import values
from hivemind.redaction.bodies import redact_body
from hivemind.redaction.forms import FORMS, NAMED, Form

_TOKENS = (
    *(prefix.encode() for form in FORMS for prefix in form.prefixes),
    *(name.encode() for _, names, _ in NAMED for name in names),
    *(b"authorization: ", b"bearer ", b"eyJ", b"-----BEGIN PRIVATE KEY-----", b"://a:b@", b"_KEY=", b"?key=", b"%20"),
    *(b"/token/", b"\\n", b"\\u0041", b"12345678:AA", b"***", b'"authorization":"', b"cookie: ", b'"x-api-key": "'),
)


def _example(form: Form, prefix: str) -> str:
    """Return a key of this form, a little longer than the shortest."""
    letter = next(each for each in "0aA" if each in "0123456789" or f"{each}-" in form.chars)
    return prefix + letter * (form.least + 3)


KEYS = tuple(_example(form, prefix) for form in FORMS for prefix in form.prefixes)
_AROUND = (b" ", b'"', b"\n", b"'", b"=", b"/", b"(", b"\\n", b", ", b">", b"[", b"\t", b"%20", b":")
"""What a key stands behind. Behind a letter or digit it is part of a word."""
_BEHIND = (b" ", b'"', b"\n", b"'", b"&", b"?", b"(", b"\\", b",", b"<", b"]", b"\t", b"@", b"!")


def _with_key(data: bytes) -> tuple[str, bytes]:
    """Return a key, and data with this key somewhere in it."""
    which, rest = choices(data, 5)
    key = KEYS[(which[0] * 48 + which[1]) % len(KEYS)]
    at = (which[2] * 48 + which[3]) % (len(rest) + 1)
    before, after = _AROUND[which[4] % len(_AROUND)], _BEHIND[which[4] // 3 % len(_BEHIND)]
    return key, rest[:at] + before + key.encode() + after + rest[at:]


def _secret(key: str) -> str:
    """Return the part of a key that isn't its prefix."""
    return next(key[len(prefix) :] for form in FORMS for prefix in form.prefixes if key.startswith(prefix))


@target("redaction", _TOKENS)
def redaction(data: bytes) -> None:
    key, given = _with_key(data)
    text = given.decode("utf-8", "replace")
    shown = texts.redact(text, None)
    require(key not in shown, "the key survives", key, shown)
    again = texts.redact(shown, None)
    # A key that was masked may have kept apart what is taken for a URL's password once it is gone.
    require(again == shown or "://" in shown, "redacted again, it changes", shown, again)
    require(texts.redact(again, None) == again, "redacted again and again, it changes", again)
    short = texts.redact(text)
    require(key not in short, "the key survives where it is cut", key, short)
    for made in (texts.label(text), texts.identifier(text)):
        require(len(made) <= texts.LABEL_LENGTH and made.isprintable(), "not a label", made)
        require(key not in made, "the key survives in a label", made)


@target("redacted_bodies", _TOKENS)
def bodies(data: bytes) -> None:
    key, body = _with_key(data)
    own = (_secret(key) * 2)[:40]
    shown, count = redact_body(body, (own,))
    require(key.encode() not in shown, "the key survives", key, shown)
    require(count > 0, "none was counted", shown)
    again, _ = redact_body(shown, ())
    require(again == shown or b"://" in shown, "redacted again, it changes", shown, again)
    require(redact_body(again, ())[0] == again, "redacted again and again, it changes", again)
    require(body.count(b'"') >= shown.count(b'"'), "more quotation marks", shown)


@target("redacted_heads", [*_TOKENS, b"x-api-key: ", b"set-cookie: a=", b"user-agent: ", b"authorization: Basic "])
def heads(data: bytes) -> None:
    key, given = _with_key(data)
    target_, _, rest = given.partition(b"\n")
    lines = [line.partition(b": ") for line in rest.split(b"\n")]
    headers = [(name.lower(), value) for name, _, value in lines]
    secrets = values.credentials_in(headers, target_)
    path, _, query = target_.decode("latin-1").partition("?")
    shown = [values.masked_path(path, query, secrets), values.masked_method(path[:40], secrets)]
    shown += [part for pair in values.masked_headers(headers, secrets) for part in pair]
    for each in shown:
        require(each.isprintable(), "not printable", each)
        require(key not in each, "the key survives", key, each)
        # What isn't printable is shown as a character that may be part of a secret that isn't either.
        require(
            not any(secret in each for secret in secrets if "\ufffd" not in secret),
            "the request's own secret survives",
            each,
        )


@target("redaction_time", _TOKENS, longest=200, timed=True)
def takes_linear_time(data: bytes) -> None:
    """Four times as much takes about four times as long; sixteen times where it is quadratic."""
    (way, once), unit = choices(data, 2)
    ways: tuple[Callable[[str], object], ...] = (
        lambda given: texts.redact(given, None),
        texts.holds_key,
        lambda given: redact_body(given.encode(), ()),
        lambda given: values.masked_path(given, given),
        lambda given: values.credentials_in([(b"cookie", given.encode())], given.encode("utf-8")),
    )
    first, rest = unit[: once % 16].decode("latin-1"), unit[once % 16 :].decode("latin-1")
    if not rest:
        return
    work = ways[way % len(ways)]
    one = first + (rest * (4096 // len(rest) + 1))[:4096]
    four = first + (rest * (16384 // len(rest) + 1))[:16384]
    require_linear(work, one, four, unit)
