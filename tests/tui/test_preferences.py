"""The screen's own file: what it changes, and one line for what is wrong in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tui.kit import piloted, press, room, seen, settle
from tui.worlds import busy_source

from hivemind.errors import UsageError
from hivemind_tui.keys import keymap
from hivemind_tui.loop.gc_pacing import Collector
from hivemind_tui.panels import agent_table
from hivemind_tui.program import main
from hivemind_tui.program.preferences import Preferences, apply, read, remember
from hivemind_tui.program.screens import Screens
from hivemind_tui.render.notices import NoticesWanted


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with colours and all signs, whatever the tests run in."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def _as_usual() -> Iterator[None]:
    """Afterwards keys and columns are the usual ones."""
    yield
    keymap.remap({})
    agent_table.choose(())


def said(folder: Path, text: str) -> dict[str, str]:
    """An environment whose file says this."""
    path = folder / "screen.toml"
    path.write_text(text, "utf-8")
    return {"HIVEMIND_SCREEN": str(path)}


def screens() -> Screens:
    silent = NoticesWanted(False, False, False)
    return Screens(drain_s=1.0, token=False, collector=Collector(), first_frame=asyncio.Event(), notices=silent)


@pytest.mark.usefixtures("_as_usual")
async def test_keys_columns_and_order_are_the_files(tmp_path: Path) -> None:
    """The new key works and stands in the footer, the old one is free; the table has those columns in that order."""
    file = 'columns = ["cost", "state", "client"]\nsort = "-cost"\n'
    file += '[keys]\npause = "f4"\ndown = "f3"\nagents = "f2, circumflex_accent"\n'
    own = screens()
    apply(read(said(tmp_path, file)), own)
    source = busy_source()
    async with piloted(own.on(source)(), (160, 45)) as pilot:
        await settle(pilot)
        head = next(line for line in seen(pilot, "agents").splitlines() if "AGENT" in line)
        assert head.split()[1:5] == ["AGENT", "COST▴", "STATE", "CLIENT"]
        costs = [agent.dollars for agent in room(pilot).view.agents]
        assert costs == sorted(costs)
        first = room(pilot).view.agent
        await press(pilot, "f3")
        assert room(pilot).view.agent is not first
        await press(pilot, "p")
        assert source.applied == []
        await press(pilot, "f4")
        assert len(source.applied) == 1
        await press(pilot, "f2")
        assert room(pilot).view.page == "agents"
        await press(pilot, "1 circumflex_accent")
        assert room(pilot).view.page == "agents"
        assert "f4 pause all" in "".join(text for _, spans in keymap.footer(room(pilot).view) for text, _ in spans)
    await own.plots.aclose()


@pytest.mark.usefixtures("_as_usual")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("theme = 'drak'", "theme: must be one of dark, light"),
        ("theme = 3", "theme: must be text"),
        ("colour = 1", "there is no colour; did you mean columns?"),
        ("columns = 'cost'", "columns: must be a list"),
        ("columns = [1]", "columns: must be text"),
        ("columns = ['costs']", "columns: there is no costs; did you mean cost?"),
        ("sort = 'costs'", "sort: there is no costs; did you mean cost?"),
        ("keys = 1", "keys: must be a table"),
        ("[keys]\npause = 1", "keys.pause: must be text"),
        ("[keys]\npaus = 'P'", "keys: there is no paus; did you mean pause?"),
        ("[keys]\npause = 'hyper+p'", "keys.pause: there is no key 'hyper+p'"),
        ("[keys]\npause = 'h'", "keys.pause: h is the key of hold on the page"),
        ("[keys]\ndown = 'n'", "keys.down: n is the key of find on the page start of a replay"),
        ("[keys", "can't be read (Expected ']'"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    """It names the file and the place in it."""
    with pytest.raises(UsageError) as caught:
        apply(read(said(tmp_path, text)), screens())
    assert str(caught.value).startswith(f"{tmp_path / 'screen.toml'}: {told}")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("_as_usual")
def test_keys_of_before_are_taken(tmp_path: Path) -> None:
    """Every id of 0.4 may still have a key, also what has none by itself now; one that can't is told in one line."""
    names = ("step_up", "later", "theme", "cancel")
    before = "\n".join(f'{name} = "f{number}"' for number, name in enumerate(names, 5))
    assert apply(read(said(tmp_path, f"[keys]\n{before}")), screens()) == ""
    assert [keymap.BY_ID[name].keys for name in ("turn_up", "theme", "cut")] == ["f5,f6", "f7", "f8"]
    told = apply(read(said(tmp_path, '[keys]\nstep_up = "s"\nlater = "s"\npause = "f4"')), screens())
    assert told == f"{tmp_path / 'screen.toml'}: keys: step_up, later: no effect any more, as other keys are there now"
    assert (keymap.BY_ID["turn_up"].keys, keymap.BY_ID["pause"].keys) == ("right", "f4")


def test_without_a_file_all_is_as_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is named must be there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read({"TERM": "vt100"}) == Preferences()
    with pytest.raises(UsageError, match="no such file"):
        read({"HIVEMIND_SCREEN": str(tmp_path / "none.toml")})


def test_its_theme_gives_way_to_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HIVEMIND_THEME is for one run, the file for all."""
    monkeypatch.setenv("HIVEMIND_SCREEN", said(tmp_path, "theme = 'light'")["HIVEMIND_SCREEN"])
    options = main.parse(["--demo"], {}, tmp_path)
    for given, expected in (("", "light"), ("contrast", "contrast")):
        monkeypatch.setenv("HIVEMIND_THEME", given)
        assert main.with_preferences(options).preferences is not None
        assert os.environ["HIVEMIND_THEME"] == expected


def test_a_theme_is_remembered(tmp_path: Path) -> None:
    """In the file, whose other lines stay; not where it was given for one run, nor of a terminal with few colours."""
    environ = {
        **said(tmp_path, "# mine\nsort = 'cost'  # dear first\n[keys]\npause = 'f4'\n"),
        "TERM": "xterm-256color",
    }
    file = read(environ).remember_in
    assert file is not None
    remember(file, "nord")
    assert file.read_text("utf-8").startswith("# mine\nsort = 'cost'  # dear first\n")
    found = read(environ)
    assert (found.theme, found.sort, found.keys) == ("nord", "cost", {"pause": "f4"})
    remember(tmp_path / "new" / "screen.toml", "light")
    assert read({"HIVEMIND_SCREEN": str(tmp_path / "new" / "screen.toml")}).theme == "light"
    assert read({**environ, "HIVEMIND_THEME": "dark"}).remember_in is None
    assert read({**environ, "TERM": "xterm"}).remember_in is None


async def test_the_theme_that_was_turned_to_is_the_one(tmp_path: Path) -> None:
    """None before the operator has turned to another."""
    own = screens()
    assert own.chosen_theme == ""
    app = own.on(busy_source())()
    async with piloted(app, (100, 30)) as pilot:
        await settle(pilot)
        assert own.chosen_theme == ""
        await press(pilot, "@theme")
        assert own.chosen_theme == room(pilot).theme.removeprefix("hivemind-") != ""
    await own.plots.aclose()
