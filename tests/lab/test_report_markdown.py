"""The summary for a pull request, as GitHub would show it."""

from __future__ import annotations

import pytest
from lab.report_kit import EVIL, START, a_night, arrived, began, finished, granted, opened, run_of
from markdown_it import MarkdownIt

from hivemind.lab.report import tables
from hivemind.scheduler import events as ev

NASTY = [
    EVIL,
    "a | b \\| c",
    "`code` **bold** _under_ ~~struck~~ [link](https://example.org) ![x](y)",
    "$x^2$ \\ & &amp; <!-- hidden -->",
    "# heading",
    "1. first",
    "2) second",
    "- item",
    "+ item",
    "=====",
    "> quote",
    "line\nbreak\tand\r\nmore",
]


def shown(text: str) -> str:
    """What is left as text of it, without unseen joiners."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for child in token.children or []:
            assert child.type in ("text", "softbreak", "text_special"), child
            found.append(child.content or " ")
    return "".join(found).replace("\N{WORD JOINER}", "")


@pytest.mark.parametrize("text", NASTY)
def test_escapes(text: str) -> None:
    """Whatever a text holds, Markdown shows it letter for letter, as one paragraph."""
    made = tables.escaped(text)
    kinds = [token.type for token in MarkdownIt("commonmark").enable("table").parse(made)]
    assert kinds == ["paragraph_open", "inline", "paragraph_close"]
    assert shown(made) == " ".join(text.split())


@pytest.mark.parametrize(
    "text", ["@somebody", "org/repo#12", "https://evil.example", "WWW.evil.example", "GH-12", ":tada:"]
)
def test_nothing_becomes_a_link(text: str) -> None:
    """GitHub finds mentions, links and small pictures in plain text; an unseen sign parts what it would join."""
    made = tables.escaped(text)
    assert "\N{WORD JOINER}" in made
    assert shown(made) == text


def test_summary() -> None:
    """The summary has the headline, what was saved, faults, waits, why and operators' commands, in tables that
    GitHub takes."""
    text = tables.build(run_of(a_night()))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert [token.type for token in tokens].count("table_open") == 5
    for told in (
        "### HiveMind run night",
        "| agents finished | 2 of 3 |",
        "| failed attempts | 4 | 2 of them retried OK, unseen by the agent |",
        "| agents recovered | 1 | that had used 1,000 tokens (\\$1.00) |",
        "| overloaded | 529 | 2 | 2 | 1 | 1 |",
        "| you | all | aimd.beta is 0.6 now |",
    ):
        assert told in text
    assert text.endswith("|\n")
    assert len(text) < 4000


def test_summary_of_hostile_names() -> None:
    """Names from outside stay text in the summary."""
    events = [opened(), arrived(0, 1, EVIL, model=EVIL), granted(0, 1, EVIL), finished(1, 1, EVIL)]
    text = tables.build(run_of(events, began(journal=f"{EVIL} | # x")), f"{EVIL}\n\n# big")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert [token.content for token in tokens if token.type == "html_block"] == ["<!-- HiveMind report -->\n"]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3"]


def test_notes_in_the_summary() -> None:
    """Operators' notes stand in it; of many commands the first twenty, and it says how many more there were."""
    noted = [ev.Commanded(START + number, "ann", "AddNote", {"text": f"deployed {number}"}) for number in range(25)]
    text = tables.build(run_of(noted))
    assert "| 08:33:20 | ann | all | note: deployed 0 |" in text
    assert text.count("note: deployed") == 20
    assert "5 more aren't listed." in text


def test_summary_of_nothing() -> None:
    """A journal without a request has a summary too."""
    assert "| requests | 0 |" in tables.build(run_of([]))
