"""Text without credentials: log lines, error messages, names, and all else that is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import unquote

from hivemind.redaction.forms import text_finder

MASK = "***"
LONGEST_TEXT = 1 << 14
"""Most characters of a text that are shown, a log line for example."""
LABEL_LENGTH = 200
"""Most characters of a model's name or an id."""
_LABEL_WINDOW = 1 << 12
"""Characters of a longer one that are searched; the last of them aren't shown, because a key may be cut there."""
_LABEL_MARGIN = 1 << 10
_LONGEST_CACHED = LABEL_LENGTH
"""Longest text that is cached, so that the caches are bounded in bytes too."""
_SHORTEST_WITHIN_WORDS = 4
_BREAKS = " \t\r\n\"'<>,;&"
"""Characters that no key contains."""
_ENCODINGS = 3
"""How often a text is percent-decoded in the search for a key."""
_SHORTEST_PART = 8
"""Characters of a key that are masked wherever they are repeated; fewer may be a word that stands there anyway."""
_ALIKE = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", "abcdefghijklmnopqrstuvwxyz-")

# None has an unbounded repetition before a part that can fail, except of characters that end it, so each takes linear
# time. What is masked already isn't masked again.
_ANNOUNCED = (
    # A header or a setting, by the end of its name: `authorization: x`, `'x-api-key': 'x'`, `(b'api-key', b'x')`.
    re.compile(
        r"""(authorization|(?:set-)?cookie|api[-_]?key|auth[-_]token|hivemind[-_]token|control[-_]token)"""
        r"""(['"]?\s*+[:=,]\s*+(?:b?['"])?(?:bearer\s++|basic\s++)?+)(?!\*{3})[^\s'",;)&]+""",
        re.IGNORECASE,
    ),
    # A key in a query: `?key=x`, `&access_token=x`.
    re.compile(
        r"([?&;](?:[\w.-]*[-_.])?(?:key|token|auth|sig|signature|secret|password|credential|assertion))"
        r"(=)(?!\*{3})[^\s&;'\"]+",
        re.IGNORECASE,
    ),
    # Anything after the word Bearer.
    re.compile(r"\b(bearer)(\s++)(?!\*{3})[^\s'\",;)]+", re.IGNORECASE),
)


def redact(text: str, longest: int | None = LONGEST_TEXT) -> str:
    """Return the text with every recognisable credential masked, cut after `longest` characters."""
    if longest is not None:
        text = shortened(text, longest)
    for pattern in _ANNOUNCED:
        text = pattern.sub(rf"\1\2{MASK}", text)
    return mask_keys(text)


def mask_keys(text: str) -> str:
    """Return the text with keys of known forms masked, and nothing else: for text of ours that speaks of tokens."""
    finder = text_finder()
    parts: list[str] = []
    done = 0
    for match in finder.pattern.finditer(text):
        start, end = finder.span(match)
        # A key may begin within the previous one; the rest of it follows that one.
        parts += [text[done:start], MASK] if start >= done else []
        done = end
    return "".join((*parts, text[done:])) if parts else text


def mask_arguments(text: str, arguments: Iterable[str]) -> str:
    """Return an error about a command line, without any part of a key of a known form that the line holds.

    Errors repeat words as they were understood: in lower case, with `-` for `_`, or cut. A key can't be recognised
    there by its form, so it is looked for in `arguments`, which are as they were given.
    """
    masked = mask_keys(text)
    keys = {key.translate(_ALIKE) for argument in arguments for key in _keys_in(argument)}
    parts = {key[at : at + _SHORTEST_PART] for key in keys for at in range(len(key) - _SHORTEST_PART + 1)}
    if not parts:
        return masked
    low, shown, end = masked.translate(_ALIKE), list[str](), 0
    for at, letter in enumerate(masked):
        if low[at : at + _SHORTEST_PART] in parts:
            shown += [] if at < end else [MASK]
            end = at + _SHORTEST_PART
        if at >= end:
            shown.append(letter)
    return "".join(shown)


def _keys_in(text: str) -> Iterator[str]:
    finder = text_finder()
    for each in decodings(text):
        for match in finder.pattern.finditer(each):
            start, end = finder.span(match)
            yield each[start:end]


def shortened(text: str, longest: int) -> str:
    """Return the text, cut where it is longer, but never within a word: it may be a key."""
    if len(text) <= longest:
        return text
    end = max(text.rfind(each, 0, longest) for each in _BREAKS)
    return text[: max(end, 0)] + "…"


def mask_values(text: str, secrets: Iterable[str]) -> str:
    """Return the text with these secrets masked; the longest come first, because one may contain another."""
    for each in secrets:
        if each in text:
            text = text.replace(each, MASK)
    return text


def mask_any_length(text: str, secrets: Iterable[str]) -> str:
    """Return the text with secrets of any length masked, the shortest only as whole words."""
    for each in secrets:
        if len(each) >= _SHORTEST_WITHIN_WORDS:
            text = text.replace(each, MASK)
        elif each in text:
            text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", MASK, text)
    return text


def holds_key(text: str) -> bool:
    """Return whether a text holds a recognisable credential, percent-encoded or not.

    Takes time linear in the text's length, so check that first.
    """
    patterns = (text_finder().pattern, *_ANNOUNCED)
    return any(pattern.search(each) for each in decodings(text) for pattern in patterns)


def decodings(text: str) -> list[str]:
    """Return the text and its successive percent-decodings, as long as they change it."""
    found = [text]
    while "%" in found[-1] and len(found) <= _ENCODINGS and (decoded := unquote(found[-1])) != found[-1]:
        found.append(decoded)
    return found


def printable(text: str) -> str:
    """Return the text with unprintable characters replaced."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def label(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a model's name fit to be shown and stored: at most :data:`LABEL_LENGTH` printable characters without
    credentials. A longer one is cut and ends in a hash, so that different ones stay different."""
    if not text:
        return text
    if len(text) > _LABEL_WINDOW:
        return _long_label(text, secrets)
    text = mask_values(text, secrets)
    return _cached_label(text) if len(text) <= _LONGEST_CACHED else _label(text)


def identifier(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a session's or agent's id as :func:`label` does; one that holds a credential becomes a hash, because the
    mask alone would make different ids equal."""
    made = label(text, secrets)
    return f"{MASK}{_digest(text)}" if MASK in made and MASK not in text else made


def _label(text: str) -> str:
    shown = _shown(text)
    return shown if len(shown) <= LABEL_LENGTH else _cut(shown, text)


_cached_label = lru_cache(maxsize=1024)(_label)


def _long_label(text: str, secrets: Iterable[str]) -> str:
    window = mask_values(text[:_LABEL_WINDOW], secrets)
    return _cut(_shown(window)[:-_LABEL_MARGIN], text)


def _shown(text: str) -> str:
    redacted = redact(text, None)
    return MASK if redacted == text and "%" in text and holds_key(text) else printable(redacted)


def _cut(shown: str, whole: str) -> str:
    mark = f"…{_digest(whole)}"
    return shown[: LABEL_LENGTH - len(mark)] + mark


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
