"""`hivemind trust`: a settings file that is found counts as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Ended, called
from trusted import trusted_settings

TEXT = """
upstream = ["http://gate.example/a", "lab=http://127.0.0.1:9"]
via = "http://me:sekrit@127.0.0.1:8080/sekrit"
token = "sekrit"
rpm = 5
[alerts]
webhook = "https://hooks.example/sekrit"
[agents.credentials]
alice = "sekrit-of-alice"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project, in whose folder the commands are given."""
    (tmp_path / "project" / "below").mkdir(parents=True)
    (tmp_path / "project" / "hivemind.toml").write_text(TEXT)
    return tmp_path


def does(home: Path, *words: str, folder: str = "project", **environ: str) -> Ended:
    """Give the command in a folder of the home."""
    return called(home / folder, ("trust", *words), {"HOME": str(home), **environ})


@pytest.mark.parametrize(
    ("folder", "words"),
    [("project", ()), ("project/below", ()), (".", ("project",)), (".", ("project/hivemind.toml",))],
)
def test_it_tells_what_counts(home: Path, folder: str, words: tuple[str, ...]) -> None:
    """The file of the folder, of one above, or named: what counts from now on is listed, without secrets."""
    path = home / "project" / "hivemind.toml"
    assert does(home, *words, folder=folder) == Ended(
        0,
        f"{path} is trusted as it is now\n"
        "from now on these count from it too:\n"
        "  upstream = ['http://gate.example/a', 'lab=http://127.0.0.1:9']\n"
        "  via = http://127.0.0.1:8080\n"
        "  token = ***\n"
        "  alerts.webhook = https://hooks.example\n"
        "  agents.credentials = ***\n",
        "",
    )
    assert does(home, "--list", folder=".") == Ended(0, f"{path}\n", "")
    assert called(home / "project", ("setup", "service", "--manager", "systemd"), {"HOME": str(home)}).code == 0


def test_the_list(home: Path) -> None:
    """Each file with what became of it, and none."""
    assert does(home, "--list") == Ended(0, "", "hivemind: no settings file is trusted\n")
    other = home / "other"
    other.mkdir()
    for folder in (home / "project", other):
        trusted_settings(folder, "rpm = 1\n", {"HOME": str(home)})
    (other / "hivemind.toml").unlink()
    (home / "project" / "hivemind.toml").write_text("rpm = 2\n")
    assert does(home, "--list").out == (
        f"{other}/hivemind.toml  gone\n{home}/project/hivemind.toml  changed since, so not trusted any more\n"
    )


def test_revoke(home: Path) -> None:
    """It counts no more then, even one that is gone; one that wasn't trusted is told."""
    assert does(home).code == 0
    (home / "project" / "hivemind.toml").unlink()
    path = home / "project" / "hivemind.toml"
    revoked = does(home, "--revoke", "hivemind.toml")
    assert revoked == Ended(0, f"{path} isn't trusted any more\n", "")
    assert does(home, "--revoke", "hivemind.toml") == Ended(1, "", f"hivemind: {path} wasn't trusted\n")


def test_a_changed_file(home: Path) -> None:
    """It is told that it was trusted once."""
    assert does(home).code == 0
    with (home / "project" / "hivemind.toml").open("a") as file:
        file.write("# a comment\n")
    done = called(home / "project", ("proxy",), {"HOME": str(home)})
    assert done.code == 2
    assert "has changed since it was trusted, and no upstream is given but in it" in done.err


@pytest.mark.parametrize(
    ("words", "text", "environ", "line"),
    [
        ((), "port = [", {}, "/project/hivemind.toml: not TOML: "),
        ((), "prot = 1", {}, "/project/hivemind.toml prot: no such setting; did you mean port?"),
        ((), 'pace = "slow"', {}, "/project/hivemind.toml pace: must be "),
        (("below",), "", {}, "/below/hivemind.toml: can't be read (No such file or directory)"),
        (("below/x.toml",), "", {}, "below/x.toml: only a hivemind.toml is found; a file of another name counts where"),
        ((), "", {"HIVEMIND_AGENT": "eve"}, "the agent eve can't trust settings; whoever started it can"),
    ],
)
def test_what_cant_be_trusted(
    home: Path, words: tuple[str, ...], text: str, environ: dict[str, str], line: str
) -> None:
    """One line says why, and nothing is recorded."""
    (home / "project" / "hivemind.toml").write_text(text)
    done = does(home, *words, **environ)
    assert (done.code in (1, 2), done.out, done.err.count("\n")) == (True, "", 1)
    assert line in done.err
    assert does(home, "--list").out == ""


def test_nothing_is_found(home: Path) -> None:
    """Without a file the command says how to name one."""
    (home / "project" / "hivemind.toml").unlink()
    line = "no hivemind.toml is here or in a folder above; name one, as in hivemind trust FOLDER"
    assert does(home) == Ended(2, "", f"hivemind: {line}\n")


def test_no_folder_for_records(home: Path) -> None:
    """Where nothing can be recorded, one line says so."""
    (home / "state").write_text("in the way")
    done = does(home, XDG_STATE_HOME=str(home / "state"))
    assert (done.code, done.out, done.err) == (1, "", f"hivemind: {home}/state/hivemind/trusted: Not a directory\n")


@pytest.mark.parametrize("words", [("status",), ("agents",), ("setup", "codex")])
def test_commands_that_look_for_the_proxy(home: Path, words: tuple[str, ...]) -> None:
    """Address and token of a file that isn't trusted don't count, and one line says so; what doesn't concern them isn't
    named."""
    (home / "project" / "hivemind.toml").write_text(
        'host = "hive.example"\nport = 9\nrpm = 5\ncontrol_token = "x"\nvia = "http://127.0.0.1:9"\n'
    )
    done = called(home / "project", words, {"HOME": str(home)})
    assert "hive.example" not in done.out + done.err
    assert done.err.count("so host, port and control_token in it don't count; look at it, then to trust it") == 1
    (home / "project" / "hivemind.toml").write_text("port = [")
    assert called(home / "project", words, {"HOME": str(home)}).err.count("so nothing in it counts") == 1


def test_a_service_takes_no_file_that_isnt_trusted(home: Path) -> None:
    """Its unit would name the file, which then counted at every start."""
    done = called(home / "project", ("setup", "service", "--install"), {"HOME": str(home)})
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "isn't trusted, and the service would take it as it is; to trust it: hivemind trust" in done.err
