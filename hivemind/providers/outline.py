"""The outline of a long JSON object: its short members, read in small steps and in bounded memory; and the length of
a prompt, from which its tokens are estimated.

A body may be tens of megabytes, nearly all of it one conversation or image, while the fields that the proxy needs
(model, stream, usage, an error) are short members beside it. An outline is a JSON object with only those members,
so readers of short bodies read outlines too. Long strings and long members are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

SHORT = 1024 * 1024
"""Largest decoded body in bytes that a dialect reads whole in one step, which takes 10 ms at worst."""
SAMPLE = 256
"""Shortest base64 payload in bytes that isn't counted as text."""
SLICE = 8 * 1024
"""Bytes scanned at a time. If each is a bracket, that takes 2 or 3 ms."""
LONGEST_STRING = 1024
"""Longest string in bytes that is kept."""
LONGEST_MEMBER = 64 * 1024
"""Largest member in bytes that is kept, without its long strings."""
LONGEST = 256 * 1024
"""Largest outline in bytes."""
MOST_TOKENS = 400_000
"""Most strings and brackets scanned, some 150 ms of work; twenty times as many as a long conversation has."""
STEP_TOKENS = 2000
"""Strings and brackets per step, about a millisecond."""
_ODD_TOKENS = 4
"""Extra cost of a string that is long or has escapes, in the same unit."""
_BULK = 8
"""Strings and brackets that can be skipped in the time of scanning one."""
_SLICE_TOKENS = 48
"""Cost of a slice without any."""
_PIECE_TOKENS = 24
"""Cost of a piece, which may have been decoded."""

_TOKEN = re.compile(rb'["{}\[\]]')
_TOKEN_OUTSIDE = re.compile(rb'["{}\[\],]')
"""The depth at which members are distinguished."""
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string: possessive, to avoid backtracking."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ALIKE = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_MOST_NESTED = 32
"""Depth up to which members are skipped; deeper nesting in one slice is scanned bracket by bracket."""
_KEYS = (b"data", b"images", b"result", b"file_data", b"b64_json")
"""Whose values may be payloads: Anthropic's, Google's and OpenAI's sound; Ollama's; OpenAI's images and files."""
_PAYLOAD_HINTS = (b'"data"', b'"images"', b'"result":', b'"file_data"', b'"b64_json"', b";base64,")
_LEFT_OUT = b'"..."'
_HEAD = SAMPLE + 64
"""Bytes of a string's start by which a payload is recognised."""


class Outline(Struct):
    """The outline of one object. Anything else gives an empty one."""

    failed: str = ""
    """Why the rest wasn't scanned; empty if it was."""
    size: int = 0
    """Bytes received."""
    payload: int = 0
    """Bytes of base64 among them that don't count (see :func:`size_chars`)."""
    is_json: bool = True
    """Whether the body begins as an object."""
    _started: bool = False
    _work: int = 0
    _over: bool = False
    _depth: int = 0
    _tokens: int = 0
    _kept: list[bytes] = field(default_factory=list)
    _kept_bytes: int = 0
    _member: bytearray = field(default_factory=bytearray)
    _dropping: bool = False
    # The string that a slice ended in, if any: how much of it has come (-1: none is open), how it begins, and where
    # in the member its quote stands.
    _length: int = -1
    _head: bytes = b""
    _opened: int = 0
    _escaped: bool = False
    _before: bytes = b""
    """The short string before the next one, which may be its key."""
    _run: bool = False
    """The previous string was a payload, so the next item of its array is one too."""

    def look_at(self, pieces: Iterable[bytes]) -> Iterator[None]:
        """Scan a body, or the next part of one, in steps of about a millisecond."""
        for piece in pieces:
            self._work += _PIECE_TOKENS
            for at in range(0, len(piece), SLICE):
                self._work += self.feed(piece[at : at + SLICE]) + _SLICE_TOKENS
                if self.failed:
                    return
                if self._work >= STEP_TOKENS:
                    self._work = 0
                    yield

    def feed(self, data: bytes) -> int:
        """Scan the next bytes, at most :data:`SLICE`. Return the number of strings and brackets."""
        self.size += len(data)
        if self.failed or self._over:
            return 0
        if not self._started and not self._start(data):
            return 0
        at = mark = 0
        if self._length >= 0:
            at = self._string(data, 0)
            mark = self._opened_at(data, at)
            if at < 0:
                return 1
        depth = self._depth
        if self._dropping and depth > 1:
            passed = self._pass_over(data, at)
            if passed:
                return self._count(passed)
        tokens = 0
        before = None
        while found := (_TOKEN_OUTSIDE if depth == 1 else _TOKEN).search(data, at):
            at = found.end()
            tokens += 1
            token = data[at - 1]
            if token == 0x22:
                close = data.find(b'"', at, at + SAMPLE)
                if close >= 0 and data.find(b"\\", at, close) < 0:
                    before = (at, close)
                    self._run = False
                    at = close + 1
                    continue
                tokens += _ODD_TOKENS
                if before is not None:
                    self._before, before = data[before[0] : before[1]], None
                if not self._dropping:
                    self._member += data[mark:at]
                    mark = at
                self._length, self._head, self._opened = 0, b"", len(self._member) - 1
                at = self._string(data, at)
                mark = self._opened_at(data, at, mark)
                if at < 0:
                    break
            elif token == 0x2C:
                self._end_member(data[mark : at - 1])
                mark = at
            elif token in b"{[":
                depth += 1
                if depth == 1:
                    mark = at
            else:
                depth -= 1
                if depth <= 0:
                    self._end_member(data[mark : at - 1])
                    self._over = True
                    break
        self._depth = depth
        if before is not None:
            self._before = data[before[0] : before[1]]
        if at >= 0 and not self._over and not self._dropping:
            self._keep(data[mark:])
        return self._count(tokens)

    def end(self) -> bytes:
        """Return the outline as JSON."""
        return b"{" + b",".join(self._kept) + b"}"

    def _count(self, tokens: int) -> int:
        self._tokens += tokens
        if self._tokens > MOST_TOKENS:
            self.failed = "the JSON has too many parts"
        return tokens

    def _start(self, data: bytes) -> bool:
        first = data.lstrip()[:1]
        self._started = bool(first)
        self.is_json = first in (b"", b"{")
        if not self.is_json:
            self.failed = "the body isn't a JSON object"
        return first == b"{"

    # --- Strings that are long, have escapes, or go on in the next slice -----------------------------------------

    def _string(self, data: bytes, at: int) -> int:
        """Continue the open string. Return the position after its closing quote, -1 if it isn't in this slice."""
        end = self._close(data, at)
        stop = len(data) if end < 0 else end - 1
        if len(self._head) < _HEAD:
            self._head += data[at : min(stop, at + _HEAD - len(self._head))]
        self._length += stop - at
        return end

    def _close(self, data: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            at += 1
        close = data.find(b'"', at)
        if data.find(b"\\", at, len(data) if close < 0 else close) < 0:
            return close + 1 if close >= 0 else -1
        found = _TEXT.match(data, at)
        at = found.end() if found else at
        if at == len(data):
            return -1
        self._escaped = data[at] == 0x5C  # the last byte of the slice
        return -1 if self._escaped else at + 1

    def _opened_at(self, data: bytes, at: int, mark: int = 0) -> int:
        """Handle an open string that has ended before `at`, or (-1) continues. Keep what there is of a short one;
        return the position from which the following bytes are still to be kept."""
        if not self._dropping:
            if self._length <= LONGEST_STRING:
                self._keep(data[mark:] if at < 0 else data[mark:at])
            elif at >= 0:
                del self._member[self._opened :]
                self._keep(_LEFT_OUT)
        if at >= 0:
            payload = payload_in(self._head, self._length, self._run or self._before in _KEYS)
            self.payload += payload
            self._run = payload > 0
            self._before = self._head if self._length < SAMPLE else b""
            self._length = -1
        return max(at, 0)

    # --- A member that is left out, which is most of a long body ---------------------------------------------------

    def _pass_over(self, data: bytes, at: int) -> int:
        """Skip the rest of the slice if the member doesn't end in it and it has no payload; the brackets that
        remain without strings and pairs give the depth. Return the cost, 0 if it can't be skipped.
        """
        if self._run or self._before in _KEYS or any(hint in data for hint in _PAYLOAD_HINTS):
            return 0
        rest = data[at:]
        bare = _STRING.sub(b"", rest)
        quote = bare.find(b'"')
        brackets = (bare if quote < 0 else bare[:quote]).translate(_ALIKE, _NO_BRACKETS)
        cost = 1 + (rest.count(b'"') + len(brackets)) // _BULK
        for _ in range(_MOST_NESTED):
            if b"{}" not in brackets:
                break
            brackets = brackets.replace(b"{}", b"")
        else:
            return 0
        closing = brackets.count(b"}")
        if self._depth - closing < 2:
            return 0
        self._depth += len(brackets) - 2 * closing
        self._before = b""
        if quote >= 0:  # a string begins here and doesn't end
            self._length, self._head, self._opened = 0, b"", 0
            self._string(data, len(data) - len(bare) + quote + 1)
        return cost

    # --- Members -------------------------------------------------------------------------------------------------

    def _keep(self, part: bytes) -> None:
        self._member += part
        if len(self._member) > LONGEST_MEMBER:
            self._dropping = True
            self._member = bytearray()

    def _end_member(self, part: bytes) -> None:
        if not self._dropping:
            self._keep(part)
        member = self._member.strip()
        if member and not self._dropping and self._kept_bytes + len(member) <= LONGEST:
            self._kept.append(bytes(member))
            self._kept_bytes += len(member) + 1
        self._member = bytearray()
        self._dropping = False


# --- The length of a prompt -------------------------------------------------------------------------------------------

_DATA_URL = b";base64,"
_ALPHABET = bytes(b for b in range(256) if re.fullmatch(rb"[A-Za-z0-9+/_\\=-]", bytes((b,))))
"""Of base64 in its two forms, within JSON."""
_UPPER = bytes(range(ord("A"), ord("Z") + 1))
_WORD = 1000
"""Shortest word of that alphabet that is looked at closely."""
_OPENS = re.compile(rb'(?:"(?:%b)"\s{0,20}:\s{0,20}(?:\[\s{0,20})?"|;base64,)\Z' % b"|".join(_KEYS))
_NEXT_ITEM = re.compile(rb'"\s{0,20},\s{0,20}"')
_LOOK_BACK = 80
_RUN = re.compile(rb"[A-Za-z0-9+/_\\=-]*+")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\\-]++={0,2}+")
_BEGINNING = 64
PICTURE_CHARS = 4000
"""Characters, about 1,000 tokens, that a picture or file counts as at least: OpenAI's count up to 1,536, Anthropic's
1,568, Google's 1,120."""
BYTES_PER_CHAR = 250
"""Bytes of media that count as one character of a prompt, so a megabyte (a minute of sound, a photograph) counts
as about a thousand tokens."""


def size_chars(body: bytes) -> int:
    """Return the length of a JSON body, in which base64 payloads (images, documents, sound) count as what they usually
    are in tokens, not as text. Payloads follow a data URL's head, are values of known keys, or are words of a thousand
    characters that look like base64. :class:`Outline` counts those of bodies beyond a megabyte.
    """
    if len(body) > SHORT and not is_object(body):
        return len(body)
    size, at, before, last = len(body), 0, -1, len(body) - _WORD
    while at <= last:
        # A word that is long enough begins after the last of these that is none of its characters.
        space = body.rfind(b" ", at, at + _WORD)
        if space >= 0:
            at = space + 1
        elif others := body[at : at + _WORD].translate(None, _ALPHABET):
            at = body.rfind(others[-1:], at, at + _WORD) + 1
        else:
            run = _RUN.match(body, at)
            assert run is not None, "it matches anything"
            start, at = at, run.end()
            known = _OPENS.search(body, max(0, start - _LOOK_BACK), start) is not None
            known = known or (0 <= before < start and _NEXT_ITEM.fullmatch(body, before, start) is not None)
            if at < len(body) and (known or looks_encoded(body[start : start + _WORD])):
                size -= spared(at - start)
                before = at
    return size


PREFIX = 32_000
"""Bytes, about 8,000 tokens, of the shortest beginning of a prompt that is told from others."""
_SAMPLED = 1024


def prefix(model: str, instructions: Iterable[Any], messages: Any, mark: bytes = b"") -> int:
    """Return a number that requests to a model have in common whose prompts begin with the same long instructions
    (with tools) and, if it is long too, the same beginning of their messages. It is a hash of samples: taking two
    prompts for alike only makes one wait a few seconds. 0: they are short, or (`mark`) none asks to keep it."""
    sampled: list[object] = [model]
    size, marked = 0, not mark
    for part in instructions:
        if part is not None:
            view = memoryview(part)
            end = bytes(view[-_SAMPLED:])
            sampled += len(view), bytes(view[:_SAMPLED]), end
            size, marked = size + len(view), marked or mark in end
    if messages is not None:
        view = memoryview(messages)
        marked = marked or mark in bytes(view[-_SAMPLED:])
        if len(view) >= PREFIX:
            sampled += bytes(view[:_SAMPLED]), bytes(view[PREFIX - _SAMPLED : PREFIX])
            size += PREFIX
    return hash(tuple(sampled)) if marked and size >= PREFIX else 0


def is_object(body: bytes) -> bool:
    """Whether a long body begins as a JSON object, possibly after many spaces."""
    return body[:_BEGINNING].lstrip()[:1] in (b"", b"{")


def looks_encoded(word: bytes) -> bool:
    """Return whether a long word of base64's alphabet is more likely base64 than text."""
    return len(word.translate(None, _UPPER)) < len(word) and word.count(word[:1]) < len(word)


def spared(length: int) -> int:
    """Return how many characters of a payload don't count."""
    return max(0, length - max(PICTURE_CHARS, length // BYTES_PER_CHAR))


def payload_in(head: bytes, length: int, under_key: bool) -> int:
    """Return how many bytes of a string with this length and start don't count, since they are base64. `under_key`: it
    is the value of a payload key."""
    if length < SAMPLE:
        return 0
    start = head.find(_DATA_URL) + len(_DATA_URL) if _DATA_URL in head else 0
    if not _BASE64.fullmatch(head, start, start + SAMPLE):
        return 0
    known = under_key or start > 0 or (length >= _WORD and looks_encoded(head))
    return spared(length - start) if known else 0
