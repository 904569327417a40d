"""The proxy as a service of the user."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from program import called
from trusted import trusted_settings

from hivemind.setup.service import service

HIVEMIND = Path(sys.executable).with_name("hivemind")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home, with a settings file in a folder whose name is hard on quoting."""
    folder = tmp_path / 'of "a" $team 100%'
    folder.mkdir()
    trusted_settings(folder, "drain_s = 5\n", {"HOME": str(tmp_path)})
    return folder


def test_systemd(home: Path, tmp_path: Path) -> None:
    """The unit starts this program with the settings file that counts here, and is printed alone."""
    done = called(home, ("setup", "service", "--manager", "systemd"), {"HOME": str(tmp_path)})
    line = next(line for line in done.out.splitlines() if line.startswith("ExecStart="))
    quoted = str(home / "hivemind.toml").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    assert line == f'ExecStart={HIVEMIND} up --config "{quoted}"'
    assert "TimeoutStopSec=20\n" in done.out
    assert f"{tmp_path}/.config/systemd/user/hivemind.service" in done.err
    assert "systemctl --user enable --now hivemind" in done.err
    assert not (tmp_path / ".config").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't installed")
def test_systemd_takes_it(home: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say of the unit that is installed."""
    done = called(home, ("setup", "service", "--install", "--manager", "systemd"), {"HOME": str(tmp_path)})
    unit = tmp_path / ".config" / "systemd" / "user" / "hivemind.service"
    assert done.out.startswith(f"hivemind: {unit} is written")
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    words = ["systemd-analyze", "--user", "verify", str(unit)]
    found = subprocess.run(words, env=environ, capture_output=True, text=True)
    assert (found.returncode, found.stdout, _about(found.stderr, "hivemind")) == (0, "", "")
    unit.write_text(unit.read_text().replace("RestartSec=2", "RestartSec=soon"))
    found = subprocess.run(words, env=environ, capture_output=True, text=True)
    assert "Failed to parse sec value" in _about(found.stderr, "hivemind"), "it finds mistakes"


def _about(text: str, word: str) -> str:
    """Return the lines with that word: systemd also complains of units of the system's."""
    return "\n".join(line for line in text.splitlines() if word in line)


def test_launchd(home: Path, tmp_path: Path) -> None:
    """The property list says the same; no credential is in either."""
    environ = {"HOME": str(tmp_path), "HIVEMIND_TOKEN": "agents-own-token"}
    done = called(home, ("setup", "service", "--manager", "launchd"), environ)
    values = plistlib.loads(done.out.encode())
    assert values["ProgramArguments"] == [str(HIVEMIND), "up", "--config", str(home / "hivemind.toml")]
    assert (values["KeepAlive"], values["ExitTimeOut"]) == ({"SuccessfulExit": False}, 20)
    assert f"launchctl bootstrap gui/$(id -u) '{tmp_path}/Library/LaunchAgents/{values['Label']}.plist'" in done.err
    assert "agents-own-token" not in done.out + done.err


@pytest.mark.parametrize("manager", ["systemd", "launchd"])
def test_only_its_own_is_replaced(home: Path, tmp_path: Path, manager: str) -> None:
    """Installing again is fine; a file that somebody else wrote stays."""
    words, environ = ("setup", "service", "--install", "--manager", manager), {"HOME": str(tmp_path)}
    assert called(home, words, environ).code == 0
    trusted_settings(home, "drain_s = 6\n", environ)
    assert called(home, words, environ).code == 0
    made = service("systemd" if manager == "systemd" else "launchd", ["x"], 6, tmp_path, environ)
    assert "21" in made.path.read_text()
    made.path.write_text("mine")
    refused = called(home, words, environ)
    assert refused.both == (1, f"hivemind: {made.path} is there already, and not by this command; remove it first")
    assert made.path.read_text() == "mine"
