"""The report as one self-contained HTML file: styles, scripts and data are inside, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from hivemind import __version__
from hivemind.lab.report import charts, headline, plots, tables
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.tables import Table
from hivemind.lab.report.theme import COLOURS, clean, shortened
from hivemind.text.humanise import duration

_UPSTREAMS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    message: str
    plot: go.Figure | None = None
    table: Table | None = None
    summary: str = ""
    """The label of the folded table under a plot; without a plot the table is always open."""


def build(run: RecordedRun, title: str = "") -> str:
    """Return the page of a run, about five megabytes, most of them plotly's own script."""
    sections = list(_sections(run))
    environment = Environment(
        loader=PackageLoader("hivemind.lab.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters["keep_percent"] = _keep_percent
    scripts = (get_plotlyjs(), files(__package__).joinpath("templates", "page.js").read_text("utf-8"))
    return environment.get_template("page.html").render(
        heading=shortened(title, 200) or f"Run {shortened(run.name)}",
        policy=_policy(scripts),
        colours=COLOURS,
        about=[text[:200] for text in _about(run)],
        notes=[clean(note) for note in run.notes],
        facts=headline.facts(run),
        saving_title=headline.saving_title(run),
        saving=headline.saving(run),
        groups=_grouped(sections),
        footer=(
            f"Made by hivemind report {__version__} from the journal {shortened(run.name)}."
            f" Times of day are {run.zone[0]}. Waited means: in HiveMind's queue, over all attempts of a request."
            " Dollars are by public prices."
        ),
        figures=_figures(sections),
        scripts=[Markup(script) for script in scripts],  # ours and plotly's; the template escapes all else
    )


def _sections(run: RecordedRun) -> Iterator[Section]:
    if run.figures.requests:
        yield from _sections_of_requests(run)
    if run.fold.commands.kept:
        yield Section("commands", "Commands of operators", "", None, tables.commands(run))
    settings = tables.settings(run)
    message = "" if settings.rows else "All settings had their default values."
    yield Section("settings", "Settings that differ from the defaults", message, None, settings)


def _sections_of_requests(run: RecordedRun) -> Iterator[Section]:
    yield Section(
        "course",
        "The whole run",
        headline.course_message(run),
        plots.course(run),
        tables.limit_changes(run),
        "Cuts, pauses and the circuit, as a table",
    )
    agents = run.agents_drawn(plots.ROWS_SHOWN)
    yield Section("agents", "What each agent did", headline.agents_message(run, len(agents)), plots.gantt(run, agents))
    if any(run.waits.values()):
        yield Section("waits", "Waits", headline.waits_message(run), charts.waits(run), tables.waits(run), "As a table")
    faults = run.fold.faults.count
    plot = charts.faults(run) if faults else None
    table = tables.faults(run) if faults else None
    yield Section(
        "faults", "Failed attempts and their outcome", headline.faults_message(run), plot, table, "As a table"
    )
    if any(window.fullest for _, window in run.windows()):
        message = headline.windows_message(run)
        yield Section("windows", "Rate windows", message, charts.windows(run), tables.windows(run), "As a table")
    if run.figures.tokens:
        title = "Money" if run.priced else "Tokens"
        message, table = headline.money_message(run), tables.models(run)
        yield Section("money", title, message, charts.money(run), table, "By model, as a table")
    yield Section("list", "Agents", "", None, tables.agents(run))


def _grouped(sections: Sequence[Section]) -> list[list[Section]]:
    """Return the sections as they stand below each other; waits and faults stand side by side."""
    groups: list[list[Section]] = []
    for section in sections:
        if section.name == "faults" and groups[-1][-1].name == "waits":
            groups[-1].append(section)
        else:
            groups.append([section])
    return groups


def _about(run: RecordedRun) -> Iterator[str]:
    yield run.date
    yield f"recorded for {duration(run.fold.ended_at)}"
    upstreams = run.began.upstreams
    for name, url in upstreams[:_UPSTREAMS_SHOWN]:
        yield f"{clean(name)}: {clean(url)}" if name != url else clean(url)
    if len(upstreams) > _UPSTREAMS_SHOWN:
        yield f"{len(upstreams) - _UPSTREAMS_SHOWN} more upstreams"
    yield clean(run.began.program)


def _keep_percent(text: str) -> str:
    """Keep each per cent sign on the line of its number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _policy(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that loads nothing and runs only these scripts. plotly writes styles, and makes
    pictures for saving."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _figures(sections: Sequence[Section]) -> dict[str, object]:
    """Return what the page's script draws the plots from."""
    figures = {each.name: each.plot.to_plotly_json() for each in sections if each.plot is not None}
    for figure in figures.values():
        figure["layout"].pop("template", None)
    return {"colours": list(COLOURS.values()), "figures": figures}
