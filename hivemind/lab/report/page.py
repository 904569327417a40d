"""The page: one file of HTML with everything in it, that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from hivemind import __version__
from hivemind.lab.report import charts, headline, plots, tables
from hivemind.lab.report import output as keeping
from hivemind.lab.report.headline import Fact
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.tables import Table
from hivemind.lab.report.theme import COLOURS, variables
from hivemind.lab.report.words import clean, seconds, shortened


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    message: str
    plot: go.Figure | None = None
    table: Table | None = None
    summary: str = ""
    """What the table is behind, where a plot says the same; empty: it is shown."""


def build(run: RecordedRun, title: str = "") -> str:
    """The page of a run. Takes about a second, and five megabytes, most of them plotly's own script."""
    heading = shortened(title, 200) or f"Run {shortened(run.name)}"
    sections = list(_sections(run))
    figures = {section.name: section.plot for section in sections if section.plot is not None}
    scripts = (get_plotlyjs(), _own("page.js"))
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            keeping.MARKS[0],
            '<meta name="referrer" content="no-referrer">',
            f"<title>{html.escape(heading)}</title>",
            f"<style>{_style()}</style>",
            "</head>",
            "<body>",
            _header(run, heading),
            "<main>",
            _notes(run),
            _facts(headline.facts(run)),
            _saving(run),
            *_arranged(sections),
            "</main>",
            _footer(run),
            f'<script type="application/json" id="figures">{_json(figures)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        )
    )


def _sections(run: RecordedRun) -> Iterator[Section]:
    if run.figures.requests:
        yield from _sections_of_requests(run)
    if run.fold.words.kept:
        yield Section("commands", "What operators did", "", None, tables.commands(run))
    settings = tables.settings(run)
    told = "" if settings.rows else "All settings were left as they usually are."
    yield Section("settings", "Settings that differ from the defaults", told, None, settings)


def _sections_of_requests(run: RecordedRun) -> Iterator[Section]:
    yield Section(
        "course",
        "The whole run",
        headline.of_course(run),
        plots.course(run),
        tables.spans(run),
        "Cuts, pauses and the circuit, as a table",
    )
    agents = run.agents_drawn(plots.ROWS_SHOWN)
    yield Section("agents", "What each agent did", headline.of_agents(run, len(agents)), plots.gantt(run, agents))
    if any(run.waits.values()):
        yield Section("waits", "Waits", headline.of_waits(run), charts.waits(run), tables.waits(run), "As a table")
    faults = run.fold.faults.all
    plot = charts.faults(run) if faults else None
    table = tables.faults(run) if faults else None
    yield Section("faults", "Faults, and what became of them", headline.of_faults(run), plot, table, "As a table")
    if any(window.fullest for lane in run.fold.lanes.values() for window in lane.windows.values()):
        told = headline.of_windows(run)
        yield Section("windows", "Rate windows", told, charts.windows(run), tables.windows(run), "As a table")
    if run.figures.tokens:
        title = "Money" if run.priced else "Tokens"
        told, table = headline.of_money(run), tables.models(run)
        yield Section("money", title, told, charts.money(run), table, "By model, as a table")
    yield Section("list", "Agents", "", None, tables.agents(run))


def _arranged(sections: Sequence[Section]) -> Iterator[str]:
    """Waits and faults stand side by side."""
    shown = {section.name: _section(section) for section in sections}
    both = [shown.pop(name) for name in ("waits", "faults") if name in shown]
    for name, text in shown.items():
        yield text
        if name == "agents" and both:
            yield f'<div class="{"pair" if len(both) == 2 else "one"}">{"".join(both)}</div>'


def _section(section: Section) -> str:
    parts = [f'<section id="{section.name}" aria-labelledby="title-{section.name}">']
    parts.append(f'<h2 id="title-{section.name}">{html.escape(section.title)}</h2>')
    if section.message:
        parts.append(f'<p class="message">{_prose(section.message)}</p>')
    if section.plot is not None:
        about = html.escape(f"{section.title}. {section.message}", quote=True)
        parts.append(
            f'<figure><div class="plot" id="plot-{section.name}" role="img" aria-label="{about}"></div></figure>'
        )
    if section.table is not None and section.table.rows:
        table = _table(section.table, section.title)
        if section.plot is not None:
            table = f"<details><summary>{html.escape(section.summary)}</summary>{table}</details>"
        parts.append(table)
    return "".join((*parts, "</section>"))


def _table(table: Table, caption: str) -> str:
    numbers = [title.startswith(">") for title in table.columns]
    rows = [[title.removeprefix(">") for title in table.columns], *table.rows]
    shown = []
    for place, row in enumerate(rows):
        tag = "td" if place else 'th scope="col"'
        end = "td" if place else "th"
        cells = [
            f"<{tag}{' class=number' if number else ''}>{html.escape(text)}</{end}>"
            for text, number in zip(row, numbers, strict=True)
        ]
        shown.append(f"<tr>{''.join(cells)}</tr>")
    note = f"<p class=message>{html.escape(table.note)}</p>" if table.note else ""
    label = html.escape(caption, quote=True)
    body = f"<thead>{shown[0]}</thead><tbody>{''.join(shown[1:])}</tbody>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{body}</table></div>{note}'


def _header(run: RecordedRun, heading: str) -> str:
    began = run.began
    about = [run.date, f"recorded for {seconds(run.fold.ended_at)}"]
    about += [f"{clean(name)}: {clean(url)}" if name != url else clean(url) for name, url in began.upstreams[:6]]
    if len(began.upstreams) > 6:
        about.append(f"{len(began.upstreams) - 6} more upstreams")
    about.append(clean(began.program))
    spans = "".join(f"<span>{html.escape(text[:200])}</span>" for text in about)
    return (
        f'<header><p class="kicker">HiveMind, report of a run</p><h1>{html.escape(heading)}</h1>'
        f'<p class="about">{spans}</p></header>'
    )


def _notes(run: RecordedRun) -> str:
    if not run.notes:
        return ""
    notes = "".join(f"<li>{html.escape(clean(note))}</li>" for note in run.notes)
    return f'<aside class="notes" aria-label="About the recording"><h2>About the recording</h2><ul>{notes}</ul></aside>'


def _facts(facts: Sequence[Fact]) -> str:
    looks = {True: ' class="good"', False: ' class="bad"', None: ""}
    cells = [
        f'<div{looks[fact.good]}><dt>{html.escape(fact.what)}</dt><dd class="value">{html.escape(fact.value)}</dd>'
        f'<dd class="more">{_prose(fact.more)}</dd></div>'
        for fact in facts
    ]
    return f'<dl class="facts">{"".join(cells)}</dl>'


def _saving(run: RecordedRun) -> str:
    lines = "".join(f"<p>{_prose(line)}</p>" for line in headline.saving(run))
    title = f'<h2 id="title-saved">{headline.saving_title(run)}</h2>'
    return f'<section id="saved" aria-labelledby="title-saved">{title}{lines}</section>'


def _footer(run: RecordedRun) -> str:
    lines = (
        f"Made by hivemind report {__version__} from the journal {shortened(run.name)}.",
        f"Times of day are {run.zone[0]}. Waited means: in HiveMind's queue, over all attempts of a request.",
        "Dollars are by public prices.",
    )
    script = "<noscript><p>The plots need JavaScript; the tables tell the same.</p></noscript>"
    return f"<footer><p>{html.escape(' '.join(lines))}</p>{script}</footer>"


def _prose(text: str) -> str:
    """Text in which a per cent sign stays with its number."""
    return html.escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _style() -> str:
    light, dark = variables(0), variables(1)
    at_night = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return f":root {{ {light} }}\n{at_night}\n{_own('page.css')}"


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is loaded, and no script runs but these two. plotly writes styles, and pictures that are saved."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _json(figures: Mapping[str, go.Figure]) -> str:
    """For a script element, which must not end within a text."""
    made = {name: figure.to_plotly_json() for name, figure in figures.items()}
    for figure in made.values():
        figure["layout"].pop("template", None)
    text = json.dumps({"colours": list(COLOURS.values()), "figures": made}, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
