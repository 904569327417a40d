from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from hivemind.agents.clients import shim
from hivemind.agents.clients.shims import shims_for
from hivemind.agents.environment import ProxyRoute, environment_for
from hivemind.agents.run import CannotRun, check_command

URL = "http://127.0.0.1:8765"
BASE = f"{URL}/agent/alice"
_PROGRAM = """\
#!/bin/sh
printf '%s\\n' "$@" >&2
env
"""


class Machine:
    """A folder of programs that print their arguments and environment, and the environment of a run there."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin with a space"
        self.bin.mkdir()
        self.state = folder / "state's"
        self.way = ProxyRoute(URL, state_dir=self.state)

    def install(self, name: str, text: str = _PROGRAM) -> Path:
        program = self.bin / name
        program.write_text(text)
        program.chmod(0o755)
        return program

    def environ(self, **more: str) -> dict[str, str]:
        return environment_for(self.way, "alice", {"PATH": f"{self.bin}:/usr/bin:/bin", **more})

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.environ(**more), capture_output=True, text=True, timeout=60)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def arguments(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """The arguments that the program printed."""
    return ended.stderr.splitlines()


CODEX = ["-c", f"openai_base_url={BASE}/v1"]


@pytest.mark.parametrize(
    "command",
    [
        ["codex", "exec", "a b"],
        ["sh", "-c", "codex exec 'a b'"],
        ["sh", "-c", "exec env nohup codex exec 'a b'"],
        ["bash", "-c", 'f() { command codex "$@"; }; f exec "a b"'],
    ],
)
def test_flags_however_it_is_called(command: Sequence[str], machine: Machine) -> None:
    """The client's flags come first, then its own arguments as they were; its exit code and environment are kept."""
    machine.install("codex", _PROGRAM + "exit 7\n")
    ended = machine.run(*command, EDITOR="vi")
    assert ended.returncode == 7
    words = arguments(ended)
    assert words[:2] == CODEX
    assert words[-2:] == ["exec", "a b"]
    environ = dict(line.partition("=")[::2] for line in ended.stdout.splitlines())
    ours = machine.environ(EDITOR="vi")
    own = {"PWD", "OLDPWD", "SHLVL", "_"}  # set by shells
    assert {key: value for key, value in environ.items() if key not in own} == ours


def test_variables_that_a_script_changed(machine: Machine) -> None:
    """A wrapper that sets a base URL of its own, or takes ours away, doesn't lead the client past the run's path."""
    machine.install("claude")
    machine.install("wrapper", '#!/bin/sh\nexport ANTHROPIC_BASE_URL=https://elsewhere\nexec claude -p "$@"\n')
    ended = machine.run("wrapper", "hello")
    assert arguments(ended) == ["--settings", json.dumps({"env": {"ANTHROPIC_BASE_URL": BASE}}), "-p", "hello"]
    assert f"ANTHROPIC_BASE_URL={BASE}\n" in ended.stdout


def test_npx(machine: Machine) -> None:
    """A package's client gets its flags from the launcher, because that one goes past the shims."""
    machine.install("npx")
    words = arguments(machine.run("sh", "-c", "npx -y @openai/codex exec hello"))
    assert words[:4] == ["-y", "@openai/codex", *CODEX]
    assert words[-2:] == ["exec", "hello"]


def test_outside_of_a_run(machine: Machine) -> None:
    """A program without the run's route is started as it is."""
    machine.install("codex")
    assert arguments(machine.run("sh", "-c", "unset HIVEMIND_ROUTE; codex exec hello")) == ["exec", "hello"]


def test_a_client_that_is_not_installed(machine: Machine) -> None:
    """It has no shim, and a shim whose client was removed says what a shell says."""
    assert machine.run("sh", "-c", "command -v claude").returncode == 127
    assert machine.run("sh", "-c", "claude -p x").returncode == 127
    program = machine.install("claude")
    environ = machine.environ()
    check_command(("claude",), machine.bin, environ)
    program.unlink()
    ended = subprocess.run(["sh", "-c", "claude -p x"], env=environ, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (127, "hivemind: claude: command not found\n")
    with pytest.raises(CannotRun, match="claude: no such command in PATH"):
        check_command(("claude",), machine.bin, environ)


def test_shims_of_two_hiveminds(machine: Machine, tmp_path: Path) -> None:
    """Neither takes the other's shim for the client, whichever order PATH has them in."""
    machine.install("codex")
    first = machine.environ()
    other = shims_for(tmp_path / "other", first["PATH"])
    assert other is not None
    for path in (f"{other}:{first['PATH']}", f"{first['PATH']}:{other}", f"{other}:{first['PATH']}:{other}"):
        environ = {**first, "PATH": path}
        ended = subprocess.run(["codex", "exec"], env=environ, capture_output=True, text=True, timeout=60)
        assert arguments(ended).count(CODEX[1]) == 1


def test_a_script_without_a_first_line(machine: Machine) -> None:
    """As in a shell, which reads such a script itself."""
    machine.install("claude", 'echo "$3"\n')
    assert machine.run("sh", "-c", "claude hello").stdout == "hello\n"


def test_signals_are_as_they_were(machine: Machine) -> None:
    """A pipe that is closed ends the client, as it would without a shim."""
    machine.install("claude", "#!/bin/sh\ntrap - PIPE\nwhile echo x; do :; done\n")
    ended = machine.run("bash", "-c", "claude 2>/dev/null | head -1; exit ${PIPESTATUS[0]}")
    assert ended.returncode == 128 + 13


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "de_DE.UTF-8"}])
def test_locale(locale: dict[str, str], machine: Machine) -> None:
    """Python's own change to the locale isn't passed on."""
    machine.install("codex")
    lines = machine.run("codex", **locale).stdout.splitlines()
    assert [line for line in lines if line.startswith("LC_")] == [f"{name}={value}" for name, value in locale.items()]


def test_arguments_that_are_no_text(machine: Machine) -> None:
    """Bytes of another encoding arrive unchanged."""
    machine.install("codex")
    command = (b"codex", b"exec", b"caf\xe9")
    ended = subprocess.run(command, env=machine.environ(), capture_output=True, timeout=60)
    assert ended.stderr.splitlines()[-1] == b"caf\xe9"


def test_imports_nothing_that_takes_long(machine: Machine) -> None:
    """It stands before every call of a client, so it takes no more than Python's own start."""
    machine.install("codex")
    folder = machine.environ()["PATH"].partition(":")[0]
    command = [sys.executable, "-I", "-S", "-X", "importtime", shim.__file__, folder, "", "codex", "exec"]
    ended = subprocess.run(command, env=machine.environ(), capture_output=True, text=True, timeout=60)
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    assert "hivemind.agents.clients.codex" in loaded
    assert loaded.isdisjoint({"typing", "re", "dataclasses", "json", "subprocess", "enum", "pathlib", "site"})
    ours = {name for name in loaded if name.startswith("hivemind")}
    assert {name for name in ours if not name.startswith(("hivemind.agents", "hivemind.setup"))} == {"hivemind"}


def test_settings_files_do_not_pile_up(machine: Machine) -> None:
    """A file that a call was given long ago is removed by a later run."""
    machine.install("claude")
    machine.run("claude", "--settings", '{"model": "m"}')
    folder = Path(machine.environ()["PATH"].partition(":")[0])
    (file,) = folder.glob("*-claude.json")
    assert file.stat().st_mode & 0o777 == 0o600
    os.utime(file, (1, 1))
    machine.environ()
    assert list(folder.glob("*-claude.json")) == []


def test_a_full_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without shims, and none is left that isn't whole."""
    machine.install("codex")
    monkeypatch.setattr(Path, "write_text", Mock(side_effect=OSError(28, "No space left on device")))
    assert shims_for(machine.state, str(machine.bin)) is None
    assert list((machine.state / "shims").iterdir()) == []


def test_no_folder_for_shims(machine: Machine) -> None:
    """Where none can be made, the run goes on without."""
    machine.install("codex")
    shutil.rmtree(machine.state, ignore_errors=True)
    machine.state.write_text("a file")
    assert machine.environ()["PATH"] == f"{machine.bin}:/usr/bin:/bin"
