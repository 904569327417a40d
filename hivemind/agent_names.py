"""Agents' names: normalisation, rules for valid names, and equality of spellings.

A name is Unicode text in NFKC (UAX 15) without invisible characters. Two names are the same agent's when they are equal
after case folding (:func:`fold`), so `Alice` and `alice` are one. A name in which the letters of several scripts are
mixed is refused unless it is "highly restrictive" by UTS 39, section 5.2, as Japanese with Latin letters is; one that
looks like another agent's name by UTS 39, section 4, is refused by :class:`KnownNames`. Names of ASCII alone need
neither check: they are compared folded only, so that `agent-1` and `agent-l` may both exist.

Names are resolved where they arrive, from a request, a command, a runner or a tool: each is replaced by the spelling
under which its agent was seen first. Behind that a name is a plain string.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import islice

from hivemind.redaction.text import holds_key

LONGEST = 80  # characters of a name
MOST_KNOWN = 65_536  # names that `KnownNames` holds; beyond it unused names are dropped

LOOKS_LIKE_A_KEY = "an agent's name would be shown, and this one looks like a key; choose another"
_TOO_LONG = f"an agent's name must be printable and at most {LONGEST} characters long"
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and show nothing: those that Unicode calls default-ignorable (PropList and
DerivedCoreProperties, 15.1) without being format characters or unassigned, and the blank Braille pattern."""
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_HIGHLY_RESTRICTIVE = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
"""Sets of scripts that may stand together in a name: UTS 39, section 5.2."""
_NO_SCRIPT = {"COMMON", "INHERITED"}
_PROTOTYPES_OF_ASCII = str.maketrans(
    {'"': "''", "%": "º/₀", "0": "o", "1": "l", "`": "'", "i": "l", "m": "rn", "|": "l"}
)
"""What confusables.txt maps ASCII to, after case folding; `i` as `I`, so that a skeleton doesn't depend on case."""


class BadName(ValueError):
    """A text that can't be an agent's name; the message says why, and what is valid."""


def normalised(text: str) -> str:
    """Return a claimed name as it is shown: in NFKC, stripped, with single spaces inside.

    Raises: BadName.
    """
    if len(text) > LONGEST:
        raise BadName(_TOO_LONG)
    return _normalised(text)


@lru_cache(maxsize=1024)
def _normalised(text: str) -> str:
    name = tidied(text)
    if len(name) > LONGEST:  # NFKC may make a text longer
        raise BadName(_TOO_LONG)
    if not name:
        raise BadName("an agent's name must have at least one visible character")
    _check_characters(name)
    if name in (".", ".."):
        raise BadName(f"an agent's name can't be {name}, which clients leave out of its path; choose another")
    if holds_key(name):
        raise BadName(LOOKS_LIKE_A_KEY)
    if not text.isascii():
        for part in name.split("/"):
            _check_scripts(part)
    return name


def tidied(text: str) -> str:
    """Return a text in NFKC and with single spaces, whether or not it can be a name."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(part for part in text.split(" ") if part)


def _check_characters(name: str) -> None:
    """Check that each character can be seen. Raises: BadName."""
    if "\ufffd" in name:
        raise BadName("an agent's name must be UTF-8")
    hidden = next((each for each in name if not each.isprintable() or _INVISIBLE.match(each)), None)
    if hidden is not None:
        raise BadName(f"{_TOO_LONG}, and this one holds U+{ord(hidden):04X}, which can't be seen")
    if unicodedata.category(name[0]) in ("Mn", "Mc", "Me"):
        raise BadName(f"an agent's name can't begin with a combining mark, as U+{ord(name[0]):04X} is")
    if _ESCAPE.search(name):
        raise BadName("an agent's name is percent-encoded once at most, and this one still holds an escape")


def _check_scripts(name: str) -> None:
    """Check that the scripts of a name may be mixed. Raises: BadName."""
    from confusable_homoglyphs.categories import unique_aliases

    scripts = unique_aliases(name) - _NO_SCRIPT
    if len(scripts) > 1 and not any(scripts <= allowed for allowed in _HIGHLY_RESTRICTIVE):
        mixed = " and ".join(sorted(script.replace("_", " ").title() for script in scripts))
        raise BadName(f"an agent's name can't mix {mixed} letters, which look alike; write it in one script")


def fold(name: str) -> str:
    """Return what is equal for all spellings of one agent's name: NFKC_Casefold (Unicode, D146, without removing what
    :func:`normalised` refuses)."""
    return name.lower() if name.isascii() else _fold(name)


def _fold(name: str) -> str:
    # A long one isn't cached, so that the cache is bounded in bytes too.
    return _fold_short(name) if len(name) <= 2 * LONGEST else _fold_short.__wrapped__(name)


@lru_cache(maxsize=1024)
def _fold_short(name: str) -> str:
    folded = unicodedata.normalize("NFD", name).casefold()
    folded = unicodedata.normalize("NFKC", folded).casefold()
    return unicodedata.normalize("NFKC", folded)


def same(one: str, other: str) -> bool:
    """Return whether both are spellings of one agent's name."""
    return one == other or fold(one) == fold(other)


def spelled_in(names: Iterable[str], name: str) -> str:
    """Return the one of these names that is the same agent's as `name`, or `name` itself where there is none."""
    key, found = fold(name), None
    for each in names:
        if each == name:
            return name
        if found is None and fold(each) == key:
            found = each
    return name if found is None else found


def skeleton(name: str) -> str:
    """Return what is equal for names that look alike (UTS 39, section 4), in whatever case they are written."""
    if not name.isascii():
        prototypes = _prototypes()
        seen = unicodedata.normalize("NFD", name).translate(prototypes).translate(prototypes)
        name = unicodedata.normalize("NFD", seen)
    return name.casefold().translate(_PROTOTYPES_OF_ASCII)


def tables_wanted(text: str) -> bool:
    """Return whether checking this text needs Unicode's tables and they aren't loaded yet.

    Loading takes a tenth of a second, so an event loop leaves :func:`load_tables` to a thread.
    """
    return not text.isascii() and not _prototypes.cache_info().currsize


def load_tables() -> None:
    """Load Unicode's tables of scripts and look-alikes."""
    _check_scripts("a")
    _prototypes()


@cache
def _prototypes() -> dict[int, str]:
    """Return the map from code points to their prototypes in Unicode's confusables.txt.

    The library gives pairs without their direction: a mapped character has one partner, its prototype, and a prototype
    has all characters that are mapped to it. In an isolated pair either may be the prototype; only a prototype can be a
    sequence. A prototype may hold characters that are mapped in turn, so mapping takes two passes.
    """
    from confusable_homoglyphs.confusables import confusables_data

    partners: dict[str, set[str]] = {}
    for text, found in confusables_data.items():
        # Right-to-left characters come with the marks that surround them in the file's comments.
        partners.setdefault(text.replace("\u200e", ""), set()).update(each["c"].replace("\u200e", "") for each in found)
    prototypes: dict[int, str] = {}
    for text, others in partners.items():
        if len(text) == 1 and len(others) == 1:
            (other,) = others
            if other != text and (len(other) > 1 or len(partners[other]) > 1 or other < text):
                prototypes[ord(text)] = other
    return prototypes


class KnownNames:
    """The spellings of known agents: the first one that was seen is the one that is shown.

    `needed` returns whether a spelling is still in use, so that it mustn't be dropped.
    """

    def __init__(self, needed: Callable[[str], bool] = lambda _: True, most: int = MOST_KNOWN) -> None:
        self._needed = needed
        self._most = most
        self._spellings: dict[str, str] = {}  # by folded name
        self._looks: dict[str, str] = {}  # by skeleton, the first folded name that looks so
        self.changes = 0
        """How often names were added or dropped."""

    def find(self, name: str) -> str | None:
        """Return the known spelling of a name; None where it isn't known."""
        return self._spellings.get(fold(name))

    def add(self, name: str) -> str:
        """Add a name, even if it looks like another one. Return the agent's spelling."""
        key = fold(name)
        found = self._spellings.get(key)
        return self._added(key, name) if found is None else found

    def spelled(self, name: str) -> str:
        """Return the spelling of the agent of this normalised name, and add it where it is new.

        A sub-agent's name, `alice/sub`, takes over the spelling of its parent.
        Raises: BadName: it isn't a known agent's name, but looks like one.
        """
        key = fold(name)
        found = self._spellings.get(key)
        if found is not None:
            return found
        name = self._within(name)
        if not name.isascii():
            other = self._looks.get(skeleton(name))
            if other is not None and other in self._spellings:
                shown = self._spellings[other]
                raise BadName(
                    f"the name {name} looks like that of the agent {shown}, and isn't the same; choose another"
                )
        return self._added(key, name)

    def _within(self, name: str) -> str:
        whole, slash, part = name.rpartition("/")
        return f"{self.find(whole) or self._within(whole)}/{part}" if slash else name

    def _added(self, key: str, name: str) -> str:
        if len(self._spellings) >= self._most:
            self._drop_old()
        self._spellings[key] = name
        self._looks.setdefault(skeleton(name), key)
        self.changes += 1
        return name

    def _drop_old(self) -> None:
        """Drop the two oldest names if they aren't in use; else make them the newest."""
        for key in list(islice(self._spellings, 2)):
            name = self._spellings.pop(key)
            if self._needed(name):
                self._spellings[key] = name
            elif self._looks.get(look := skeleton(name)) == key:
                del self._looks[look]
