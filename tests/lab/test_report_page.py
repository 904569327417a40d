"""The page of a report: whole in itself, safe whatever names it shows, and readable by everybody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from lab.report_kit import EVIL, START, a_night, arrived, began, failed, finished, granted, opened, run_of
from msgspec import structs

from hivemind.lab.report import page
from hivemind.lab.report.run import RecordedRun
from hivemind.scheduler import events as ev

pytestmark = pytest.mark.e2e
VOID = {"meta", "link", "img", "br", "hr", "input"}


@dataclass
class Seen(HTMLParser):
    """A page taken apart."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append((self.tags[-1][1], data))
        elif self.open[-1:] == ["style"]:
            self.styles.append(data)
        else:
            self.texts.append(data)

    @property
    def policy(self) -> dict[str, str]:
        """What its Content-Security-Policy says, by directive."""
        content = next(attrs["content"] for _, attrs in self.tags if "http-equiv" in attrs)
        assert content is not None
        return {name: rest for name, _, rest in (part.strip().partition(" ") for part in content.split(";"))}

    @property
    def figures(self) -> dict[str, Any]:
        """What its plots are made of."""
        found: dict[str, Any] = json.loads(next(text for attrs, text in self.scripts if attrs.get("id") == "figures"))
        return found


def seen(run: RecordedRun, title: str = "") -> Seen:
    parser = Seen()
    parser.feed(page.build(run, title))
    assert parser.open == []
    return parser


@cache
def night() -> Seen:
    """The page of a night, which takes a third of a second to make."""
    return seen(run_of(a_night()))


@cache
def hostile() -> Seen:
    """The page of a run of which every name that comes from outside wants to be more than a name."""
    lane = f"{EVIL}:1"
    first = began(
        journal=EVIL, program=EVIL, upstreams=((EVIL, "javascript:alert(1)"), ("x", "https://example.org/\"onload='"))
    )
    events: list[ev.Event] = [opened(lane, EVIL)]
    for number, name in enumerate(
        [EVIL, '"><img src=x onerror=alert(1)>', "</script><b>", "%{y} <a href='javascript:x'>"]
    ):
        come = structs.replace(arrived(number, number, name, model=f"{EVIL}{name}"), lane=lane, client=name)
        events += [come, granted(number, number, name), failed(number + 0.1, number, name, 0.1)]
        events += [granted(number + 0.3, number, name, 2), finished(number + 0.5, number, name, 2)]
    events += [
        ev.Commanded(START + 5, EVIL, "PauseAgent", {"agent": EVIL, "paused": True}),
        ev.Commanded(START + 5, EVIL, EVIL, {EVIL: EVIL}),
        ev.LevelChanged(START + 5, lane, 2.0, EVIL),
        ev.CircuitChanged(START + 5, lane, "open", EVIL),
        ev.CircuitChanged(START + 6, lane, EVIL, EVIL),
        ev.LaneRateLimited(START + 6, lane, 3.0, EVIL),
    ]
    return seen(run_of(events, first), f"{EVIL}<h1>")


def test_nothing_is_loaded() -> None:
    """The page names no address to load anything from, and its policy forbids it."""
    found = night()
    loading = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction"}
    assert [(tag, attrs) for tag, attrs in found.tags if loading & set(attrs)] == []
    assert [style for style in found.styles if re.search(r"url\(|@import|@font-face", style)] == []
    assert found.policy["default-src"] == "'none'"
    assert not re.search(r"https?:|\*|unsafe-eval", " ".join(found.policy.values()))
    assert "unsafe" not in found.policy["script-src"]


def test_its_own_scripts_may_run() -> None:
    """The policy lets exactly the scripts run that are in the page: plotly's and its own."""
    found = night()
    run = [text for attrs, text in found.scripts if attrs.get("type") != "application/json"]
    assert len(run) == 2
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run}
    assert set(found.policy["script-src"].split()) == hashes


def test_plots_can_not_be_handed_on() -> None:
    """plotly's button that opens its makers' site with the plot isn't there."""
    own = [text for _, text in night().scripts][-1]
    assert "showSendToCloud: false" in own
    assert 'plotlyServerURL: ""' in own
    assert "sendChartToCloud" not in own


def test_names_stay_names() -> None:
    """Whatever an agent, a model, a lane or an operator is called, the page has no element or attribute of theirs."""
    plain, found = night(), hostile()
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in plain.tags} | {"aside", "ul", "li"}
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 3
    assert [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)] == []
    assert EVIL in "".join(found.texts)


def test_names_in_plots_are_escaped() -> None:
    """plotly takes some tags in texts for orders, and signs for gaps to fill, so no text from outside has any."""
    data = hostile().figures["figures"]
    texts: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list):
            for each in value:
                collect(each)
        elif isinstance(value, dict):
            for each in value.values():
                collect(each)

    collect(data)
    ours = re.compile(r"</?extra>|</?b>|<br>")
    assert [text for text in texts if "<" in ours.sub("", text)] == []
    assert [text for text in texts if "%{y}" in text and "alert" in text] == []
    assert [text for text in texts if "&lt;script&gt;" in text]


def test_every_plot_has_words_and_a_place() -> None:
    """Each plot has a place that says in words what it shows, and each place a plot."""
    found = night()
    places = {attrs["id"]: attrs for _, attrs in found.tags if attrs.get("role") == "img"}
    assert set(places) == {f"plot-{name}" for name in found.figures["figures"]}
    assert set(found.figures["figures"]) == {"course", "windows"}
    assert all(len((attrs["aria-label"] or "").split()) > 4 for attrs in places.values())
    assert ("html", {"lang": "en"}) in found.tags


def test_tables_tell_what_plots_show() -> None:
    """What the plots show is there as tables too, each with the titles of its columns."""
    found = night()
    text = "\n".join(found.texts)
    for told in ("level cut to 3.0", "circuit open", "rate-limited", "disconnected", "90 %", "$6.20"):
        assert told in text
    assert sum(1 for tag, _ in found.tags if tag == "table") >= 8
    assert all(attrs.get("scope") == "col" for tag, attrs in found.tags if tag == "th")


def test_headline() -> None:
    """The page begins with what the run came to."""
    text = " ".join("".join(seen(run_of(a_night()), "Night shift").texts).split())
    assert "Night shift" in text
    for told in ("2026-11-21 08:33:20 UTC", "recorded for 18 s", "2 of 3", "3 answered, 1 ended in an error"):
        assert told in text
    assert "that had used 1,000 tokens ($1.00)" in text
    assert "1 agent had such a request before seeing any error." in text
    assert "2 failed attempts belonged to requests that ended in an error." in text


def test_no_faults_nothing_saved() -> None:
    """Where nothing failed, nothing is said to be saved."""
    run = run_of([opened(), arrived(0, 1, "ann"), granted(0, 1, "ann"), finished(1, 1, "ann")])
    found = seen(run)
    assert "No attempt failed in this run, so there was nothing to save." in found.texts
    assert "faults" not in found.figures["figures"]


@pytest.mark.parametrize("source", ["har", "mitmproxy"])
def test_what_others_recorded_wasnt_saved(source: str) -> None:
    """Of traffic that didn't go through HiveMind nothing is claimed to be its doing."""
    run = run_of(a_night(), began(source=source))
    text = " ".join(seen(run).texts)
    assert run.saved == []
    assert "Nothing: this traffic didn't go through HiveMind" in text
    assert not re.search(r"unseen|no agent saw|never saw", text)


def test_what_was_simulated() -> None:
    """A simulated run says so, and that it would have been so."""
    text = " ".join(seen(run_of(a_night(), began(source="what-if"))).texts)
    assert "This run was simulated" in text
    assert "What HiveMind would have saved" in text


@pytest.mark.parametrize("events", [[], [opened()], [arrived(0, 1, "ann")]], ids=["none", "lane", "open"])
def test_hardly_anything(events: list[ev.Event]) -> None:
    """A run in which hardly anything happened has a page all the same."""
    found = seen(run_of(events))
    assert "HiveMind" in " ".join(found.texts)


def test_times_that_no_calendar_has() -> None:
    """A moment that no calendar has is told as unknown, and plots still have axes."""
    found = seen(run_of(a_night(), began(wall=1e300)))
    assert "at an unknown time" in " ".join(found.texts)
    assert "Infinity" not in json.dumps(found.figures)
