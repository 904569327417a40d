"""Completion scripts: printed for each shell, and accepted by those that are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import shtab

from hivemind.cli.main import GROUPS, main
from hivemind.parser import COMPLETED_SHELLS, Parser, PrintCompletion

CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


def test_every_shell_that_the_library_knows() -> None:
    """Nothing it can do is kept from the user."""
    assert set(COMPLETED_SHELLS) == set(shtab.SUPPORTED_SHELLS)


@pytest.mark.parametrize("shell", COMPLETED_SHELLS)
def test_of_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command is completed, and the shell can read the script."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for rows in GROUPS.values() for name in rows)
    check = CHECKS.get(shell)
    if check is not None and shutil.which(check[0]):
        done = subprocess.run(check, input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_no_such_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """The line names those that there are."""
    assert main(["completion", "ksh"]) == 2
    assert capsys.readouterr().err == "hivemind: ksh: must be bash, zsh, fish, tcsh or powershell\n"


def test_as_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """A program without commands has a flag for it; names to choose from, files and folders are completed."""
    parser = Parser(prog="fly")
    parser.add_argument("--print-completion", action=PrintCompletion)
    parser.add_argument("--speed", metavar="slow|fast")
    parser.add_argument("--config", metavar="FILE")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--print-completion", "bash"])
    script = capsys.readouterr().out
    assert ended.value.code == 0
    assert "_shtab_fly___speed_choices=(slow fast)" in script
    assert "_shtab_fly___config_COMPGEN=_shtab_compgen_files" in script


def test_flags_of_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    """A subcommand's own flags are completed, also where its module is imported only when it is used."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    flags = {"show": "--since", "stats": "--json", "export": "--har", "import": "--bodies", "ls": "--state-dir"}
    for word, flag in flags.items():
        found = next(line for line in script.splitlines() if line.startswith(f"_shtab_hivemind_journal_{word}_option_"))
        assert flag in found.partition("=")[2].strip("()").split()


def test_states_of_agents(capsys: pytest.CaptureFixture[str]) -> None:
    """The words to filter by are completed."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    found = next(line for line in script.splitlines() if line.startswith("_shtab_hivemind_agents___state_choices="))
    assert {"streaming", "idle", "ended"} <= set(found.partition("=")[2].strip("()").replace("'", "").split())
