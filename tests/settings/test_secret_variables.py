"""Variables that hold secrets: none reaches what the programs start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from agents.running import TOKEN, before, ended

from hivemind.agents.environment import ProxyRoute, environment_for
from hivemind.settings.options import Option, options
from hivemind.settings.secret_variables import forget_secrets, is_secret, without_secrets

VALUES = {
    "token": "agents-token-canary",
    "control_token": "control-token-canary",
    "via": "http://user:via-canary@127.0.0.1:9",
    "fleet": "redis://:fleet-canary@127.0.0.1:9",
    "otlp": "http://user:otlp-canary@127.0.0.1:9",
    "agents.credentials": '{"ann": "credential-canary"}',
    "alerts.webhook": "https://127.0.0.1:9/webhook-canary",
    "alerts.webhook_secret": "signing-secret-canary",
}
"""A valid value of each setting that holds a secret."""
SECRET = [option for option in options() if option.secret]


def test_all_are_known() -> None:
    """A new one needs a value here, so that it is tried."""
    assert {option.key for option in SECRET} == set(VALUES)


@pytest.mark.parametrize("option", SECRET, ids=lambda option: option.key)
def test_each_is_stripped(option: Option) -> None:
    """In any case, with its section as JSON, and as a part of a mapping."""
    section = option.variable.rpartition("__")[0] or option.variable
    names = {option.variable, option.variable.lower(), f"{option.variable}__ANN", section, section.title()}
    environ = dict.fromkeys(names, VALUES[option.key])
    assert without_secrets({**environ, "PATH": "/bin", "HIVEMIND_PORT": "1"}) == {"PATH": "/bin", "HIVEMIND_PORT": "1"}
    agents = environment_for(ProxyRoute("http://127.0.0.1:1"), "ann", environ)
    assert not any(VALUES[option.key] in value for value in agents.values())


def test_others_stay() -> None:
    """Settings without a secret are no concern of it."""
    assert [option.key for option in options() if not option.secret and is_secret(option.variable)] == []


def test_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process itself has them no more, and everything else stays."""
    monkeypatch.setenv("HIVEMIND_ALERTS__WEBHOOK", VALUES["alerts.webhook"])
    monkeypatch.setenv("hivemind_control_token", "lower")
    monkeypatch.setenv("HIVEMIND_RPM", "5")
    forget_secrets()
    assert {name for name in os.environ if name.upper().startswith("HIVEMIND")} == {"HIVEMIND_RPM"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows a process's environment as a file")
@pytest.mark.parametrize("command", ["run", pytest.param("batch", marks=pytest.mark.e2e)])
async def test_no_agent_finds_them(tmp_path: Path, command: str) -> None:
    """Neither in its own environment nor in its runner's, as the system shows it."""
    (tmp_path / "shows.sh").write_text("cat /proc/$$/environ /proc/$RUNNER/environ > seen\n")
    (tmp_path / "plan.yaml").write_text("tasks:\n  show: sh shows.sh\n")
    script = 'export RUNNER=$$; exec hivemind "$@"'
    words = ["--", "sh", "shows.sh"] if command == "run" else ["plan.yaml"]
    left_out = ("token", "via", "fleet", "control_token")  # agents have to show one, and the others would be used
    given = {option.variable: VALUES[option.key] for option in SECRET if option.key not in left_out}
    async with before(tmp_path) as (_, place):
        process = await place.start("sh", "-c", script, "sh", command, *words, KEPT="kept", **given)
        done = await ended(process)
        assert done.code == 0, done.err
    seen = (tmp_path / "seen").read_bytes()
    assert seen.count(b"KEPT=kept") == 2
    assert b"canary" not in seen
    assert TOKEN.encode() not in seen
