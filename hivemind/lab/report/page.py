"""The report as one self-contained HTML file: styles, scripts and data are inside, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from operator import methodcaller

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct
from plotly.offline import get_plotlyjs

from hivemind import __version__
from hivemind.lab.report import headline, plots, tables
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.tables import ReportTable
from hivemind.lab.report.theme import COLOURS, clean, shortened
from hivemind.text.humanise import duration

_UPSTREAMS_SHOWN = 6


class PageSection(Struct, frozen=True):
    """A part of the page."""

    name: str
    title: str
    message: str
    plot: go.Figure | None = None
    table: ReportTable | None = None
    summary: str = "As a table"
    """The label of the folded table under a plot; without a plot the table is always open."""


def build(run: RecordedRun, title: str = "") -> str:
    """Return the page of a run, about five megabytes, most of them plotly's own script."""
    sections = list(_sections(run))
    figures = {each.name: each.plot.to_plotly_json() for each in sections if each.plot is not None}
    for figure in figures.values():
        figure["layout"].pop("template", None)
    environment = Environment(
        loader=PackageLoader("hivemind.lab.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    # A per cent sign stays on the line of its number.
    environment.filters["keep_percent"] = methodcaller("replace", " %", "\N{NO-BREAK SPACE}%")
    scripts = (get_plotlyjs(), files(__package__).joinpath("templates", "page.js").read_text("utf-8"))
    return environment.get_template("page.html").render(
        heading=shortened(title, 200) or f"Run {shortened(run.began.journal)}",
        policy=_policy(scripts),
        colours=COLOURS,
        about=[text[:200] for text in _about(run)],
        notes=[clean(note) for note in run.notes],
        facts=headline.facts(run),
        saving_title=headline.saving_title(run),
        saving=headline.saving(run),
        groups=_grouped(sections),
        footer=(
            f"Made by hivemind report {__version__} from the journal {shortened(run.began.journal)}."
            f" Times of day are {run.zone[0]}. Waited means: in HiveMind's queue or between two attempts."
            " Dollars are by public prices."
        ),
        figures={"colours": list(COLOURS.values()), "figures": figures},
        scripts=[Markup(script) for script in scripts],  # ours and plotly's; the template escapes all else
    )


def _sections(run: RecordedRun) -> Iterator[PageSection]:
    figures, fold = run.figures, run.fold
    if figures.requests:
        text, table = headline.course_message(run), tables.limit_changes(run)
        summary = "Cuts, pauses and the circuit, as a table"
        yield PageSection("course", "The whole run", text, plots.course(run), table, summary)
        if figures.causes.seconds:
            text = headline.causes_message(run)
            yield PageSection("causes", "Why requests waited", text, None, tables.causes(run))
        if figures.together.requests:
            yield PageSection("waits", "Waits", headline.waits_message(run), None, tables.waits(run))
        text, table = headline.faults_message(run), tables.faults(run)
        yield PageSection("faults", "Failed attempts and their outcome", text, None, table)
        if any(window.fullest for _, window in run.windows()):
            text = headline.windows_message(run)
            yield PageSection("windows", "Rate windows", text, plots.windows(run), tables.windows(run))
        if figures.tokens:
            text, table, title = headline.money_message(run), tables.models(run), "Money" if run.priced else "Tokens"
            yield PageSection("money", title, text, None, table)
        yield PageSection("list", "Agents", "", None, tables.agents(run))
    if fold.commands.kept:
        yield PageSection("commands", "Commands of operators", "", None, tables.commands(run))


def _grouped(sections: Sequence[PageSection]) -> list[list[PageSection]]:
    """Return the sections as they stand below each other; waits and faults stand side by side."""
    groups: list[list[PageSection]] = []
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


def _policy(scripts: Sequence[str]) -> str:
    # Nothing is loaded, and only these scripts run. plotly writes styles, and makes pictures for saving.
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )
