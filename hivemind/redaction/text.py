"""Text without credentials: for log lines, error messages, names, and whatever else is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import unquote

from hivemind.redaction.forms import text_finder

MASK = "***"
LONGEST_TEXT = 1 << 14
"""Characters of a text that are shown at most; a log line, say."""
LABEL_LENGTH = 200
"""Characters of a model's name or an id, at most."""
_LABEL_WINDOW = 1 << 12
"""Characters of a longer one that are looked at, and of those the last that aren't shown: a key may be cut there."""
_LABEL_MARGIN = 1 << 10
_LONGEST_REMEMBERED = LABEL_LENGTH
"""Characters of a text that is cached, so that a cache of a thousand is bounded in bytes too."""
_SHORTEST_WITHIN_WORDS = 4
_BREAKS = " \t\r\n\"'<>,;&"
"""Characters that no key goes across."""
_ENCODINGS = 3
"""Times that a text is percent-decoded to look for a key in it."""

# None of these has an unbounded repetition before something that can fail, except of characters that end it: so each
# takes linear time. What is masked already isn't masked again.
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
    """The text with every credential that can be recognised replaced by asterisks; cut after `longest` characters."""
    if longest is not None:
        text = shortened(text, longest)
    for pattern in _ANNOUNCED:
        text = pattern.sub(rf"\1\2{MASK}", text)
    return _without_keys(text)


def shortened(text: str, longest: int) -> str:
    """The text, cut where it is longer; never within a word, which may be a key of which a part mustn't be shown."""
    if len(text) <= longest:
        return text
    end = max(text.rfind(each, 0, longest) for each in _BREAKS)
    return text[: max(end, 0)] + "…"


def less(text: str, secrets: Iterable[str]) -> str:
    """The text with each of these replaced by asterisks; the longest comes first where one is a part of another."""
    for each in secrets:
        if each in text:
            text = text.replace(each, MASK)
    return text


def concealed(text: str, secrets: Iterable[str]) -> str:
    """The same for secrets of any length, of which the shortest are looked for as whole words only."""
    for each in secrets:
        if len(each) >= _SHORTEST_WITHIN_WORDS:
            text = text.replace(each, MASK)
        elif each in text:
            text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", MASK, text)
    return text


def holds_key(text: str) -> bool:
    """Whether a credential can be recognised in a text, also if it is percent-encoded there.

    Takes time linear in the text's length, so check that first.
    """
    return _remembered_holds_key(text) if len(text) <= _LONGEST_REMEMBERED else _holds_key(text)


def _holds_key(text: str) -> bool:
    return any(_recognises(each) for each in decodings(text))


def _recognises(text: str) -> bool:
    return text_finder().pattern.search(text) is not None or any(pattern.search(text) for pattern in _ANNOUNCED)


_remembered_holds_key = lru_cache(maxsize=1024)(_holds_key)


def decodings(text: str) -> list[str]:
    """The text, and what it becomes when it is percent-decoded, as often as that changes it."""
    found = [text]
    while "%" in found[-1] and len(found) <= _ENCODINGS and (decoded := unquote(found[-1])) != found[-1]:
        found.append(decoded)
    return found


def printable(text: str) -> str:
    """The text with nothing in it that would upset a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def label(text: str, secrets: Iterable[str] = ()) -> str:
    """A model's name as it may be shown and remembered: at most :data:`LABEL_LENGTH` printable characters without
    credentials. A longer one is cut and ends in a hash, so that different ones stay different."""
    if not text:
        return text
    if len(text) > _LABEL_WINDOW:
        return _long_label(text, secrets)
    text = less(text, secrets)
    return _remembered_label(text) if len(text) <= _LONGEST_REMEMBERED else _label(text)


def identifier(text: str, secrets: Iterable[str] = ()) -> str:
    """The same for the id of a session or an agent: one that holds a credential becomes a hash, since its mask alone
    would make all of them one."""
    made = label(text, secrets)
    return f"{MASK}{_digest(text)}" if MASK in made and MASK not in text else made


def _label(text: str) -> str:
    shown = _shown(text)
    return shown if len(shown) <= LABEL_LENGTH else _cut(shown, text)


_remembered_label = lru_cache(maxsize=1024)(_label)


def _long_label(text: str, secrets: Iterable[str]) -> str:
    window = less(text[:_LABEL_WINDOW], secrets)
    return _cut(_shown(window)[:-_LABEL_MARGIN], text)


def _shown(text: str) -> str:
    redacted = redact(text, None)
    return MASK if redacted == text and "%" in text and holds_key(text) else printable(redacted)


def _cut(shown: str, whole: str) -> str:
    mark = f"…{_digest(whole)}"
    return shown[: LABEL_LENGTH - len(mark)] + mark


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _without_keys(text: str) -> str:
    finder = text_finder()
    parts: list[str] = []
    done = 0
    for match in finder.pattern.finditer(text):
        start, end = finder.span(match)
        # A key may begin within the one before it; what is left of it follows that.
        parts += [text[done:start], MASK] if start >= done else []
        done = end
    return "".join((*parts, text[done:])) if parts else text
