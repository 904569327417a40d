from __future__ import annotations

import subprocess
import sys
from itertools import cycle
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from msgspec import ValidationError, convert

from hivemind.settings import checks
from hivemind.settings.options import Option, options
from hivemind.settings.sections import BadSetting, Secret

FILE = """
upstream = ["a=http://127.0.0.1:9", "http://127.0.0.1:8"]
journal = {enabled = false, max_hours = 1}
agents.credentials.alice = "hidden"
"""
SCRIPT = """
import sys; from pathlib import Path; from hivemind.settings import load
flags = "--config named.toml --port 0 --rpm 1_000 --retry.max-s 12.5 --mcp.enabled off --queue.fairness agents".split()
found = load(flags, environ={"HIVEMIND_TOKEN": "sekrit", "HIVEMIND_ALLOWED_HOSTS": "a, b"}, cwd=Path.cwd())
print(found.rpm, found.retry.max_s, found.mcp.enabled, found.journal.max_hours, found.allowed_hosts)
print([name for name in sys.modules if "pydantic" in name])
"""
OF_A_TYPE: dict[type, object] = {str: "x", tuple: ["a", "b"], Path: "folder", Secret: "text", bool: False}
OF_A_TYPE[dict] = {"a": Secret("b")}


def outcome(option: Option, value: object) -> object:
    *section, name = option.path
    try:
        return checks.checked({section[0]: {name: value}} if section else {name: value})
    except BadSetting as error:
        return error.path, error.why


def test_usual_settings_need_no_pydantic(tmp_path: Path) -> None:
    """Files, flags and variables in their usual spelling are read without it, which a start would wait for."""
    (tmp_path / "named.toml").write_text(FILE)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert done.stdout == "1000 12.5 False 1.0 ('a', 'b')\n[]\n", done.stderr


@pytest.mark.parametrize("option", options(), ids=lambda option: option.key)
def test_pydantic_makes_no_difference(option: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes values of a setting's type as the same, or refuses them for the same reason, and no others."""
    if option.bounds is None:
        values: list[object] = [*option.choices] or [OF_A_TYPE[option.kind]]
    else:
        low, high = (
            next(option.kind(end) for end in ends if end is not None)
            for ends in ((option.bounds.ge, option.bounds.gt), (option.bounds.le, option.bounds.lt))
        )
        values = [low, high, option.kind((low + high) / 2)]
        for beyond in (low - 1, high + 1, f"{low - 1}", f"{high + 1}", "\udcff"):
            assert outcome(option, beyond) == (option.path, None)
    without = [outcome(option, value) for value in values]
    monkeypatch.setattr(checks, "convert", Mock(wraps=convert, side_effect=cycle([ValidationError, DEFAULT])))
    assert without == [outcome(option, value) for value in values]
