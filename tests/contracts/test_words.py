"""One word for each thing, in all that people read: the glossary's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from contracts.sources import ROOT, modules

SOURCES = ("hivemind", "tui/hivemind_tui", "mock/hivemind_mock")
WORDS: Mapping[str, str] = {
    r"park(ed|s|ing)?": "rate-limited",
    r"paused by the provider|asked for (a|no) pause|provider's pause": "rate-limited",
    r"rescu(ed?|es|ing)": "retried OK",
    r"(requests?|agents?) saved": "retried OK (a request), recovered (an agent)",
    r"median": "p50",
    r"ceilings?": "max concurrency, or a budget's limit",
    r"concurrency limit": "max concurrency, or concurrency level",
    r"admissions": "everything (is paused)",
    r"(pause|pauses|paused) (its|an|the|your|this) agents?|agents? (is|are|was) paused": "hold",
    r"fly|flying|flies|flown": "in flight",
    r"deaths?": "failed requests, or agents that died",
    r"(answer|stream|journal|reply)s? (is|was|were|are) cut (off|short)": "truncated",
    r"1 (requests|agents|tokens|tasks|events|attempts|times|commands|proxies|members|journals|hours|days)": "1 request",
}
"""What isn't said, and what is said instead."""
NAMES: Mapping[str, str] = {
    r"(^|_)fly(ing)?(_|$)": "in_flight",
    r"rescued": "retried_ok",
    r"(^|_)parked|LaneParked": "rate_limited",
    r"agents_saved": "agents_recovered",
    r"(^|_)deaths?(_|$)": "failed",
    r"first_token_s(econds)?$": "ttft_s",
    r"cut_short": "truncated",
}
"""Parts of names that aren't used, and what is used instead."""
ANY_NAME = re.compile("|".join(NAMES), re.IGNORECASE)
ELSEWHERE: Mapping[str, str] = {
    "hivemind/earlier.py": "flying",  # what stands in databases of before
    "tui/hivemind_tui/commands/actions.py": "admissions",  # what the palette finds a command by
}
"""By the beginning of a path, a word that means something else there."""
FORBIDDEN = {re.compile(rf"(?<![-.'\w])(?:{found})(?![-'\w])", re.IGNORECASE): right for found, right in WORDS.items()}

ANY = re.compile("|".join(WORDS))
ANY_PART = re.compile(re.sub(r"\(\^\|_\)|\(_\|\$\)|\$", "", "|".join(NAMES)).lower())
"""Find in text in lower case all that any of these finds, and a little more: many times as fast."""


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All of a module's, for both kinds of words; none where its text, with the parts of texts joined, has no such
    word at all: reading its syntax takes the time."""
    text = path.read_text("utf-8")
    if not (ANY.search(re.sub(r'["\']\s*\n\s*[frb]*["\']', "", text.lower())) or ANY_PART.search(text.lower())):
        return []
    return list(ast.walk(ast.parse(text)))


def said_in(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences that a module may print, with their lines: texts with a blank in them, but for docstrings."""
    nodes = nodes_of(path)
    described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    described |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "0" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.lineno, node.value


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page without what is quoted as code."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```") and not line.startswith("```{glossary}")
        if not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "", line)


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """The names that a module uses, with their lines."""
    for node in nodes_of(path):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield node.lineno, name


def wrong_in(lines: Iterator[tuple[int, str]], where: str) -> list[str]:
    """What is said wrongly, and what would be right."""
    other = next((word for begin, word in ELSEWHERE.items() if where.startswith(begin)), "")
    return [
        f"{where}:{number}: {found[0]!r} in {text.strip()[:90]!r}: say {right}"
        for number, text in lines
        if " " in text
        if ANY.search(text.lower())
        for pattern, right in FORBIDDEN.items()
        if (found := pattern.search(text)) and found[0].lower() != other
    ]


@pytest.mark.parametrize("folder", SOURCES)
def test_programs_say_it_in_the_glossarys_words(folder: str) -> None:
    """Screens, commands, log lines, errors, tools."""
    wrong: list[str] = []
    for path in modules(folder):
        wrong += wrong_in(said_in(path), str(path.relative_to(ROOT)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", SOURCES)
def test_names_are_the_glossarys_words(folder: str) -> None:
    """Fields, functions, parameters and classes, but for the module that translates files of earlier versions."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}: say {right}"
        for path in modules(folder)
        if path.name != "earlier.py"
        for line, name in names_in(path)
        if ANY_NAME.search(name)
        for found, right in NAMES.items()
        if re.search(found, name, re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


def test_screens_say_setting() -> None:
    """Where commands and pages say knob."""
    screens = (ROOT / "tests/tui/golden").glob("*.txt")
    assert not [path.name for path in screens if re.search(r"\bknobs?\b", path.read_text("utf-8"))]


def test_pages_say_it_too() -> None:
    """The manual, but for what is measured there."""
    wrong: list[str] = []
    measured = re.compile(r"-figures|soak|measured|performance|fleet-sim|results")
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
        if not measured.search(path.name):
            wrong += wrong_in(prose_of(path), str(path.relative_to(ROOT)))
    assert not wrong, "\n".join(wrong)


def test_commands_print_it_so() -> None:
    """Whatever the sources say, this is what was printed last."""
    wrong: list[str] = []
    for path in sorted((ROOT / "tests/commands/golden").glob("*.txt")):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        wrong += wrong_in(iter(lines), str(path.relative_to(ROOT)))
    assert not wrong, "\n".join(wrong)


def test_a_wrong_word_is_found(tmp_path: Path) -> None:
    """In a text and in one with values, with the place and the right word; not in a docstring, a name or a comment."""
    path = tmp_path / "some.py"
    path.write_text(
        '"""It is parked here."""\nparked = "parked"  # it is parked\nprint("a", f"it is parked {parked}")\n'
    )
    assert wrong_in(said_in(path), "some.py") == ["some.py:3: 'parked' in 'it is parked 0': say rate-limited"]
    page = tmp_path / "some.md"
    page.write_text("The `parked` lane\n```\nis parked\n```\nThe lane is Parked.\n")
    assert [each.partition(" ")[0] for each in wrong_in(prose_of(page), "some.md")] == ["some.md:5:"]
