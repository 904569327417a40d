"""Agents' names: which are one agent's, which can't be names, and which look like another's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hivemind import agent_names
from hivemind.agent_names import BadName, KnownNames, fold, normalised, same, skeleton, spelled_in

SHOWN = {
    "plain": ("alice", "alice"),
    "case is kept": ("Alice", "Alice"),
    "spaces around": ("  alice ", "alice"),
    "spaces inside": ("team  a   b", "team a b"),
    "no-break space": ("team\u00a0a", "team a"),
    "ideographic space": ("\u3000alice", "alice"),
    "full width": ("\uff21\uff4c\uff49\uff43\uff45", "Alice"),
    "ligature": ("o\ufb03ce", "office"),
    "superscript": ("agent\u00b2", "agent2"),
    "decomposed accent": ("e\u0301mile", "\u00e9mile"),
    "Latin with accents": ("J\u00fcrgen", "J\u00fcrgen"),
    "Chinese": ("北京", "北京"),
    "Chinese with Latin": ("北京-agent", "北京-agent"),
    "Japanese": ("エージェント", "エージェント"),
    "half-width Japanese": ("\uff74\uff70\uff7c\uff9e\uff6a\uff9d\uff84", "エージェント"),
    "Korean": ("에이전트 1", "에이전트 1"),
    "Arabic": ("\u0648\u0643\u064a\u0644", "\u0648\u0643\u064a\u0644"),
    "Hebrew": ("\u05e1\u05d5\u05db\u05df", "\u05e1\u05d5\u05db\u05df"),
    "Devanagari": ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
    "Cyrillic": ("агент-1", "агент-1"),
    "Cyrillic, with a client's sub-agent": ("агент/abcdef01", "агент/abcdef01"),
    "Greek": ("πράκτωρ", "πράκτωρ"),
    "emoji": ("🚀 launcher", "🚀 launcher"),
    "80 characters": ("x" * 80, "x" * 80),
    "a fleet": ("worker-10/IO", "worker-10/IO"),
    "per cent": ("100% sure", "100% sure"),
}


@pytest.mark.parametrize(("claimed", "shown"), SHOWN.values(), ids=list(SHOWN))
def test_a_name_as_it_is_shown(claimed: str, shown: str) -> None:
    """In NFKC and trimmed; doing it again changes nothing."""
    assert normalised(claimed) == shown
    assert normalised(shown) == shown


REFUSED = {
    "empty": ("", "at least one visible"),
    "spaces": (" \u3000 ", "at least one visible"),
    "81 characters": ("x" * 81, "at most 80 characters"),
    "longer in NFKC": ("\ufdfa" * 10, "at most 80 characters"),
    "line feed": ("a\nb", r"U\+000A"),
    "escape": ("a\x1b[31m", r"U\+001B"),
    "zero-width space": ("ali\u200bce", r"U\+200B"),
    "zero-width joiner": ("ali\u200dce", r"U\+200D"),
    "soft hyphen": ("ali\u00adce", r"U\+00AD"),
    "byte-order mark": ("\ufeffalice", r"U\+FEFF"),
    "right-to-left mark": ("alice\u200f", r"U\+200F"),
    "right-to-left override": ("\u202eecila", r"U\+202E"),
    "isolate": ("\u2066alice\u2069", r"U\+2066"),
    "tag": ("alice\U000e0061", r"U\+E0061"),
    "variation selector": ("alice\ufe0f", r"U\+FE0F"),
    "combining grapheme joiner": ("ali\u034fce", r"U\+034F"),
    "Hangul filler": ("alice\u3164", r"U\+1160"),
    "blank Braille": ("alice\u2800", r"U\+2800"),
    "line separator": ("alice\u2028", r"U\+2028"),
    "private use": ("alice\ue000", r"U\+E000"),
    "unassigned": ("alice\u0378", r"U\+0378"),
    "surrogate": ("alice\ud800", r"U\+D800"),
    "no UTF-8": ("ali\ufffdce", "UTF-8"),
    "combining mark first": ("\u0301alice", "combining mark"),
    "encoded twice": ("alice%20", "percent-encoded"),
    "dot": (".", "can't be ."),
    "dots": ("\u2025", r"can't be \.\."),
    "key": ("sk-ant-api03-0123456789abcdef", "looks like a key"),
    "full-width key": ("\uff53\uff4b-ant-api03-0123456789abcdef", "looks like a key"),
    "Cyrillic in Latin": ("\u0430lice", "Cyrillic and Latin"),
    "Greek in Latin": ("alice-\u03bf", "Greek and Latin"),
    "Latin in Cyrillic": ("агенt", "Cyrillic and Latin"),
    "Arabic digits in Latin": ("agent-\u0661", "Arabic and Latin"),
    "Cherokee in Latin": ("\u13aalice", "Cherokee and Latin"),
    "mixed part": ("team/\u0430lice", "Cyrillic and Latin"),
}


@pytest.mark.parametrize(("claimed", "why"), REFUSED.values(), ids=list(REFUSED))
def test_what_cant_be_a_name(claimed: str, why: str) -> None:
    """One line says why."""
    with pytest.raises(BadName, match=why) as raised:
        normalised(claimed)
    assert "\n" not in str(raised.value)
    assert str(raised.value).isprintable()


SAME = [
    ("Alice", "alice"),
    ("ALICE", "alice"),
    ("\uff21lice", "alice"),
    ("Straße", "STRASSE"),
    ("e\u0301mile", "\u00c9MILE"),
    ("ΠΡΆΚΤΩΡΣ", "πράκτωρς"),
    ("АГЕНТ", "агент"),
    ("\u0130stanbul", "i\u0307stanbul"),
    ("ﬃ", "FFI"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_agent(one: str, other: str) -> None:
    """Case, width, normal form."""
    assert same(normalised(one), normalised(other))
    assert fold(fold(one)) == fold(one)


@pytest.mark.parametrize(("one", "other"), [("alice", "a1ice"), ("agent-1", "agent-l"), ("\u0131", "i"), ("e", "é")])
def test_other_agents(one: str, other: str) -> None:
    """Neither digits nor accents are folded, nor the dotless i."""
    assert not same(one, other)


@pytest.mark.parametrize(
    ("known", "claimed"),
    [
        ("coco", "сосо"),  # all of it Cyrillic
        ("Coco", "сосо"),
        ("alice", "al\u0131ce"),  # a dotless i
        ("alice", "\u0251lice"),  # a Latin alpha
        ("a/b", "a\u2215b"),  # a division slash
        ("РОР", "ΡΟΡ"),  # Cyrillic, Greek
        ("BOB", "ВОВ"),
        ("bob", "ВОВ"),
    ],
)
def test_look_alikes_are_refused(known: str, claimed: str) -> None:
    """A new name that looks like a known agent's isn't taken, and the text says whose it looks like."""
    names = KnownNames()
    names.spelled(normalised(known))
    with pytest.raises(BadName, match=f"looks like that of the agent {known}"):
        names.spelled(normalised(claimed))
    assert names.find(claimed) is None


def test_a_look_alike_that_is_known_stays() -> None:
    """What was known before, or is configured, may go on; and ASCII isn't kept out by what was there before it."""
    names = KnownNames()
    assert names.add("coco") == "coco"
    assert names.add("сосо") == names.spelled("сосо") == "сосо"
    names = KnownNames()
    assert [names.spelled(name) for name in ("сосо", "coco")] == ["сосо", "coco"]


def test_ascii_names_are_only_folded() -> None:
    """Ordinary fleets have names that look alike."""
    names = KnownNames()
    fleet = ["agent-1", "agent-l", "agent-I1", "worker-10", "worker-IO", "rn", "m", "0", "O1"]
    assert [names.spelled(name) for name in fleet] == fleet


def test_ascii_needs_no_tables() -> None:
    """Unicode's tables are loaded when a name needs them: by a thread, where there is an event loop."""
    script = (
        "import sys; from hivemind.agent_names import *\n"
        "names = KnownNames(); names.spelled(normalised('Alice')); names.spelled(normalised('alice'))\n"
        "print('confusable_homoglyphs' in sys.modules, tables_wanted('alice'), tables_wanted('алиса'))\n"
        "load_tables(); print(tables_wanted('алиса'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False", "True", "False"]


def test_skeletons_of_ascii_are_the_librarys() -> None:
    """The few of them that stand in the source."""
    for code in range(33, 127):
        letter = chr(code)
        mapped = agent_names._prototypes().get(code, letter)
        assert skeleton(letter) == skeleton(mapped), letter
    assert skeleton("I") == skeleton("i") == skeleton("1")


def test_the_first_spelling_is_shown() -> None:
    """To whoever comes with another one, also for parts of the agent."""
    names = KnownNames()
    assert names.spelled("Alice") == "Alice"
    assert names.spelled("aLICE") == names.add("ALICE") == names.find("alice") == "Alice"
    assert names.spelled("ALICE/sub/x") == "Alice/sub/x"
    assert names.spelled("alice/SUB") == "Alice/SUB"
    assert spelled_in(["bob", "Alice"], "alice") == "Alice"
    assert spelled_in(["ALICE", "alice"], "alice") == "alice"
    assert spelled_in(["bob"], "alice") == "alice"


def test_what_is_known_is_bounded() -> None:
    """Names that nobody goes by any more are dropped, however many come; those that are needed stay."""
    names = KnownNames(lambda name: name.startswith("kept"), most=50)
    for number in range(10):
        names.spelled(f"Kept-{number}".replace("K", "k"))
    for number in range(1000):
        names.spelled(f"gone-{number}")
    assert len(names._spellings) <= 60
    assert len(names._looks) <= len(names._spellings)
    assert all(names.find(f"KEPT-{number}") == f"kept-{number}" for number in range(10))
