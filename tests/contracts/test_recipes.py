"""What CONTRIBUTING's recipes name belongs together: where a step was left out, a line says which."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from contracts.sources import ROOT, modules

from hivemind.cli.main import GROUPS
from hivemind.lab.loadtest import target
from hivemind.providers import paths
from hivemind.providers.dialect import Dialect
from hivemind.providers.known import providers
from hivemind.providers.paths import DIALECTS
from hivemind.providers.profiles import PROFILES
from hivemind.providers.signs import PROVIDERS
from hivemind.scheduler import events
from hivemind.scheduler.events import GATES, Event
from hivemind.world.snapshot import AgentFacts, AgentView
from hivemind_mock.provider.config import FaultConfig
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.formats.base import ApiError, ErrorKind
from hivemind_styles import THEME_NAMES

RECIPES = re.findall(r"^\d+\. \*\*(.*?)\*\*", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)


def source(*names: str) -> str:
    """The text of these files, or of all files in these folders."""
    found = [path for name in names for path in ([ROOT / name] if name.endswith(".py") else modules(name))]
    return "\n".join(path.read_text("utf-8") for path in found)


def kinds_of(base: type[Any]) -> set[type[Any]]:
    """Every class below this one."""
    return {each for kind in base.__subclasses__() for each in (kind, *kinds_of(kind))}


def missing(wanted: Iterable[str], text: str, pattern: str = r"\b(\w+)\b") -> list[str]:
    """The names that don't occur in the text, in such places."""
    return sorted(set(wanted).difference(re.findall(pattern, text)))


def test_files_are_there() -> None:
    """Each file that a recipe names, but for those that it makes."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = [name for name in re.findall(r"`([a-z_/]+/[\w/.]+\.(?:py|md))`", text) if not re.search("NAME|AREA", name)]
    assert len(RECIPES) == 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_provider() -> None:
    """Its signs, and what load tests need."""
    own = {name for name, profile in PROFILES.items() if not profile.anybodys}
    assert own - {each.name for each in PROVIDERS} == set(), "add its row to PROVIDERS in hivemind/providers/signs.py"
    assert own - target._VARIABLES.keys() == set(), "add its key's variable in hivemind/lab/loadtest/target.py"
    leaves = {kind for kind in kinds_of(Dialect) if not kind.__subclasses__()}
    assert leaves - set(map(type, DIALECTS.values())) == set(), "add it in hivemind/providers/paths.py"
    in_rows = {row.dialect for each in providers() for row in each.paths}
    unnamed = DIALECTS.keys() - {name for name, _ in paths._PATHS} - in_rows - {"plain"}
    assert unnamed == set(), "add its paths to _PATHS in hivemind/providers/paths.py"
    asked = source("hivemind/lab/loadtest/messages.py")
    unsent = {"plain", "stateless", "bedrock"}  # a load test can't sign Bedrock's requests anew
    assert missing(DIALECTS.keys() - unsent, asked, r'"(\w+)"') == [], "write its request in loadtest/messages.py"


def test_a_field_of_an_agent() -> None:
    """The view is given every one that it hasn't as the fold keeps it, but for what only a fleet's has."""
    given = re.findall(r"^ +(\w+)=", source("hivemind/world/agents.py"), re.MULTILINE)
    names = set(AgentView.__struct_fields__) - set(AgentFacts.__struct_fields__)
    assert names - set(given) == {"machines"}, "give the view its value in hivemind/world/agents.py"


@pytest.mark.parametrize("file", ["hivemind/scheduler", "hivemind/world/gates.py"])
def test_a_gate(file: str) -> None:
    """It is shut by something, and the log has a sentence for it."""
    text = re.sub(r"^GATES = \((?:.|\n)*?^\)", "", source(file), flags=re.MULTILINE)
    assert missing(GATES, text, r'"(\w+)"') == [], f"add it in {file}"


def test_a_command() -> None:
    """Each module that has commands is in the table."""
    listed = {row[0].partition(":")[0] for rows in GROUPS.values() for row in rows.values()}
    having = {
        ".".join(path.relative_to(ROOT / "hivemind/cli").with_suffix("").parts)
        for path in modules("hivemind/cli")
        if re.search(r"^\w+ = Command\(", path.read_text("utf-8"), re.MULTILINE)
    }
    assert having - listed == set(), "add its line to GROUPS in hivemind/cli/main.py"


def test_an_event() -> None:
    """Something emits it, and the world takes note of it."""
    names = {kind.__name__ for kind in kinds_of(Event) if kind.__module__ == events.__name__} - {"TicketEvent"}
    assert missing(names, source("hivemind"), r"(?<!class )\b([A-Z]\w+)\(") == [], "nothing emits it"
    world = source("hivemind/world")
    assert missing(names, world) == [], (
        "add its line in hivemind/world/lines.py, or its case in hivemind/world/world.py"
    )


def test_a_plot() -> None:
    """The page has it; a section isn't made without its sentence."""
    page = source("hivemind/lab/report/page.py")
    plots = re.findall(r"^def ([a-z]\w+)\(.*?\) -> go\.Figure", source("hivemind/lab/report/plots.py"), re.MULTILINE)
    assert missing(plots, page, r"plots\.(\w+)\(") == [], "add its section in hivemind/lab/report/page.py"


def test_a_theme() -> None:
    """The manual names it."""
    manual = (ROOT / "docs/control-room.md").read_text("utf-8")
    assert missing(THEME_NAMES, manual, r"`([\w-]+)`") == [], "name it in docs/control-room.md"


def test_a_fault_of_the_mock() -> None:
    """Its probability, its name, and what it does."""
    names = {name for name in FaultConfig.__struct_fields__ if not name.startswith("spell_")} - {"edge"}
    assert names == {each.value for each in Fault}, "name it in hivemind_mock/provider/faults.py and in config.py"
    done = source("mock/hivemind_mock/provider/answer.py", "mock/hivemind_mock/provider/app.py")
    assert missing({each.name for each in Fault} - {"OVERLOADED"}, done, r"Fault\.(\w+)") == [], "say what it does"
    errors = [ApiError(kind, "", "0" * 24) for kind in ErrorKind]
    assert all(wire.error(error) for wire in FORMATS.values() for error in errors), "each format needs its status"
