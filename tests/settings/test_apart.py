from __future__ import annotations

import os
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from hivemind.settings import apart
from hivemind.settings.checks import checked
from hivemind.settings.sections import BadSetting

VALUES: dict[str, Any] = {
    "upstream": "a=http://127.0.0.1:9 b=http://127.0.0.1:8",
    "token": "sekrit",
    "retry": {"base_s": 2},
    "agents": {"credentials": '{"alice": "hidden"}'},
}


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_forks", lambda: True)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_the_process_that_goes_on_holds_no_pydantic() -> None:
    """A proxy's settings are checked without it; a wrong one is told in a line all the same."""
    script = (
        "import sys; from hivemind.cli.main import main; code = main(['proxy', '--port', 'x'])\n"
        "print(code, [name for name in sys.modules if 'pydantic' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "2 []\n"
    assert done.stderr == "hivemind: --port x: must be a whole number from 0 to 65,535\n"


def test_the_same_record_comes_back() -> None:
    """Secrets and sections too, and the process does what it has to do meanwhile, once."""
    done = Mock()
    assert apart.checked_apart(VALUES, done) == checked(VALUES)
    done.assert_called_once_with()


def test_the_same_refusal_comes_back() -> None:
    """With the setting that is wrong, and why."""
    for wrong in ({"port": "x"}, {"retry": {"base_s": 60}}):
        with pytest.raises(BadSetting) as here:
            checked(wrong)
        with pytest.raises(BadSetting) as caught:
            apart.checked_apart(wrong, lambda: None)
        assert (caught.value.path, caught.value.why) == (here.value.path, here.value.why)


def test_a_process_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the values are checked here."""
    monkeypatch.setattr(apart, "_answer", lambda values: os._exit(9))
    assert apart.checked_apart(VALUES, lambda: None) == checked(VALUES)
