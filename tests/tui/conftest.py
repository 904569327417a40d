"""The control room's tests see no setting of the machine they run on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from tui.idle import idle


@pytest.fixture(autouse=True)
def _plain_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the machine's shows in a test."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _pilot_waits_for_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Textual pilot waits until the event loop is idle instead of sleeping until the process uses little CPU."""
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", idle)


_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, read_from: CSSLocation, *about: Any, **named: Any) -> list[RuleSet]:
    key = (css, read_from, *about, *named.items(), *sheet._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, *about, **named)
    return _parsed[key]


@pytest.fixture(autouse=True)
def _style_sheets_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All apps of a process share the parsed style sheets: a tenth of what starting an app takes."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parse_once)
