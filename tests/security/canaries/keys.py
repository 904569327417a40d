"""Keys that exist nowhere else, in every form that is known and in none, and the search for them in what comes out."""

from __future__ import annotations

import base64
import gzip
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

from hivemind.redaction.forms import FORMS

MARK = "decafc0ffee1"
"""At both ends of every key, so that a part of one is found too. Hexadecimal digits fit into every form."""
_ID = re.compile(rb"decafc0ffee1([0-9a-f]{4})")
_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the place where it was put."""

    number: int
    place: str
    text: str


class Keys:
    """All keys that were made."""

    def __init__(self) -> None:
        self.made: list[Key] = []
        self._forms = itertools.cycle([(prefix, form) for form in FORMS for prefix in form.prefixes])

    def unknown(self, place: str) -> str:
        """A key of no known form."""
        return self._made(place, f"{MARK}{len(self.made):04x}{MARK}")

    def known(self, place: str, *, lower: bool = False) -> str:
        """A key of the next known form; `lower`: of one that is the same in lower case, as its place is repeated."""
        prefix, form = next(self._forms)
        while lower and not (prefix.islower() and re.match(f"[{form.chars}]", "a")):
            prefix, form = next(self._forms)
        body = f"{MARK}{len(self.made):04x}"
        body += "0" * (form.least - len(body) - len(MARK)) + MARK
        return self._made(place, prefix + (body if re.match(f"[{form.chars}]", "a") else body.upper()))

    def _made(self, place: str, text: str) -> str:
        self.made.append(Key(len(self.made), place, text))
        return text

    def place(self, number: int) -> str:
        """Where a key was put."""
        return self.made[number].place if number < len(self.made) else "part of a key"


def every_form() -> int:
    """How many keys it takes for each form to occur."""
    return sum(len(form.prefixes) for form in FORMS)


def _aligned(text: bytes) -> Iterator[bytes]:
    """What base64 makes of a text at each of the three places in its groups, as far as that depends on nothing else."""
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + text)
        first = -(-before * 4 // 3)
        yield coded[first : (before + len(text)) * 4 // 3]


_NEEDLES: dict[str, tuple[bytes, ...]] = {
    "base64": (*_aligned(MARK.encode()), *_aligned(MARK.upper().encode())),
    "hexadecimal": (MARK.encode().hex().encode(), MARK.upper().encode().hex().encode()),
    "percent-encoded": tuple(
        "".join(f"%{byte:02x}" for byte in text.encode()).encode() for text in (MARK, MARK.upper())
    ),
    "JSON escapes": tuple("".join(f"\\u{ord(each):04x}" for each in text).encode() for text in (MARK, MARK.upper())),
    "entities": tuple("".join(f"&#{ord(each)};" for each in text).encode() for text in (MARK, MARK.upper())),
    "UTF-16": (MARK.encode("utf-16-le"),),
    "backwards": (MARK[::-1].encode(),),
}


def found(data: bytes, keys: Keys) -> set[str]:
    """The places whose keys stand in this, whole or in part, in whichever encoding."""
    places = set()
    for each in _readings(data):
        low = each.lower()
        start = low.find(MARK.encode())
        while start >= 0:
            match = _ID.match(low, start)
            places.add(keys.place(int(match[1], 16)) if match else "part of a key")
            # Its own end is no further find; a key that is cut has none.
            end = low.find(MARK.encode(), start + 1) if match else start
            start = low.find(MARK.encode(), end + 1) if end >= 0 else -1
        for name, needles in _NEEDLES.items():
            if any(needle in (each if name == "base64" else low) for needle in needles):
                places.add(name)
    return places


def _readings(data: bytes) -> Iterator[bytes]:
    """The data, and what is compressed in it."""
    yield data
    if data.startswith(_GZIP):
        yield gzip.decompress(data)
    for start in (match.start() for match in re.finditer(re.escape(_ZSTD), data)):
        try:
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[start:])
        except zstandard.ZstdError:
            continue
