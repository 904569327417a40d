from __future__ import annotations

import argparse
import os
import resource
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.settings import Parser, add_flags, from_flags, load, settings_file
from hivemind.settings.write import draft, write

FILES = (
    *("", "# nothing set yet\n", 'upstream = "https://api.anthropic.com" # the only one\nport = 9000\nrpm = 50\n'),
    "# top\n\nrpm = 1_000 # few\n\n# how fast\n[aimd]\nbeta = 0.5 # half\n\n# when to stop\n[circuit]\nwindow = 0x10\n",
    "[retry]\nbase_s = 1.5\nmax_s = 40\nmax_attempts = 3\n[aimd]\n[circuit]\n# window = 5\n",
    "aimd.beta = 0.5 # dotted\nport = 1\naimd.window = 7\nretry = {base_s = 0.5, deadline_s = 60} # inline\n",
    "tpm = 7\r\n\r\n[aimd]\r\nfloor = 2 # a pair\r\n\r\n[queue]\r\nmax_depth = 10\r\n",
    'upstream = [\n  "http://a", # [aimd]\n  "b=http://b",\n]\n["aimd"]\n"alpha" = 1\n# the end',
)


def allowed(knob: Knob) -> st.SearchStrategy[float]:
    """Values within a knob's range, of twelve digits at most."""
    if knob.whole:
        whole = st.integers(int(knob.lowest), int(knob.highest))
        return st.one_of(st.just(0), whole) if knob.zero_is_none else whole
    return st.floats(knob.lowest, knob.highest).map(lambda value: float(f"{value:.12g}"))


ANY = st.fixed_dictionaries({}, optional={name: allowed(knob) for name, knob in KNOBS.items()})


def nested(content: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """What a file's content is with these knobs."""
    for name, value in values.items():
        table, _, key = name.rpartition(".")
        (content.setdefault(table, {}) if table else content)[key] = value
    return content


def comments(text: str) -> list[str]:
    """Of the sample files, where a # is always the beginning of one."""
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.sampled_from(FILES), values=ANY)
def test_any_knobs_in_any_file(tmp_path: Path, text: str, values: dict[str, float]) -> None:
    """Whatever is tuned loads back as exactly that, all else is unchanged, and a second draft changes nothing."""
    content = nested(tomllib.loads(text), values)
    retry = {"base_s": 1.0, "max_s": 30.0, **content.get("retry", {})}
    path = tmp_path / "hivemind.toml"
    path.write_bytes(text.encode())
    if retry["max_s"] < retry["base_s"]:
        with pytest.raises(Rejected, match=r"max_s: must be at least retry\.base_s"):
            draft(path, values)
        return
    written = draft(path, values)
    write(written)
    found = load([], environ={}, cwd=tmp_path)
    assert tomllib.loads(path.read_bytes().decode()) == content
    for name, value in values.items():
        table, _, key = name.rpartition(".")
        assert getattr(getattr(found, table) if table else found, key) == value
    assert sorted(comments(written.after)) == sorted(comments(text))
    assert ("\r" in written.after) == ("\r" in text)
    assert draft(path, values).diff == ()


def test_numbers_are_short(tmp_path: Path) -> None:
    """What steps of a tenth add up to is written as a person would write it."""
    values = {"aimd.beta": 0.1 + 0.6, "rpm": 50.0, "retry.base_s": 2.0}
    assert draft(tmp_path / "a.toml", values).after == "rpm = 50\n\n[aimd]\nbeta = 0.7\n\n[retry]\nbase_s = 2\n"


def test_the_difference_shows_no_credential_of_an_agent(tmp_path: Path) -> None:
    """However the file spells the table."""
    path = tmp_path / "hivemind.toml"
    for table in (
        '[agents.credentials]\nalice = "sekrit"\n"b b" = \'sekrit2\'\n# c = "sekrit"\n',
        '[ "agents" . credentials ]\nalice = "sekrit"\n',
        '[agents]\ncredentials.alice = "sekrit"\ncredentials."b b" = "sekrit2"\n',
        *('[agents]\ncredentials = { alice = "sekrit", bob = "sekrit2" }\n', 'agents.credentials.alice = "sekrit"\n'),
        '# [agents.credentials]\n# alice = "sekrit"\n',
    ):
        path.write_text(f"{table}\n[circuit]\nwindow = 5\n")
        shown = "\n".join(draft(path, {"circuit.window": 7}).diff)
        assert "-window = 5\n+window = 7" in shown
        assert "sekrit" not in shown, table


def test_diff(tmp_path: Path) -> None:
    """The difference is what `diff -u` shows, without the secrets that stand near it."""
    path = tmp_path / "hivemind.toml"
    secrets = 'token = "sekrit" # old: sekrit\n# via = "http://me:sekrit@a"\nvia = """\nhttp://sekrit:x@b"""\n'
    path.write_text(f"{secrets}port = 1\nrpm = 5\n")
    shown = draft(path, {"rpm": 7})
    assert shown.diff == (
        f"--- {path}",
        f"+++ {path}",
        "@@ -2,4 +2,4 @@",
        " # via = ***",
        " via = ***",
        " port = 1",
        "-rpm = 5",
        "+rpm = 7",
    )
    assert "sekrit" in shown.after
    assert "sekrit" not in repr(shown)
    assert draft(tmp_path / "new.toml", {"rpm": 7}).diff[0] == "--- /dev/null"


@pytest.mark.parametrize(
    ("text", "values", "line"),
    [
        ("", {"aimd.gamma": 1}, "aimd.gamma: no such knob; did you mean aimd.alpha?"),
        ("", {"rpm": -1}, "rpm -1: must be a whole number from 1 to 1,000,000, or 0 for no limit"),
        ("", {"aimd.beta": 1}, "aimd.beta 1: must be a number from 0.05 to 0.99"),
        ("", {"aimd.alpha": float("inf")}, "aimd.alpha inf: must be a finite number"),
        ("", {"rpm": float("nan")}, "rpm nan: must be a finite number"),
        ("", {"circuit.window": 2.5}, "circuit.window 2.5: must be a whole number from 1 to 10,000"),
        ("", {"retry.max_s": 0.5}, "{path} [retry] max_s: must be at least retry.base_s, which is 1"),
        ("", {"retry.base_s": 31}, "{path} retry.max_s: must be at least retry.base_s, which is 31"),
        ("port = 'x'", {"rpm": 1}, "{path} port x: must be a whole number from 0 to 65,535"),
        ("prt = 1", {"rpm": 1}, "{path} prt: no such setting; did you mean port?"),
        ("rpm = ", {"rpm": 1}, "{path}: not TOML: invalid value (at end of document)"),
        (b"# \xe4", {"rpm": 1}, "{path}: can't be read (not UTF-8)"),
    ],
)
def test_what_would_not_load(tmp_path: Path, text: str | bytes, values: dict[str, float], line: str) -> None:
    """A file that the program wouldn't start with is never drafted, and one line says why."""
    path = tmp_path / "hivemind.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Rejected) as caught:
        draft(path, values)
    assert str(caught.value) == line.format(path=path)


def test_what_cannot_be_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should an edit ever change more than the knobs, nothing is drafted."""
    path = tmp_path / "hivemind.toml"
    path.write_text("port = 1\n")
    for damaged in ("port = 2\nrpm = 5\n", "rpm = 5\n", "port = 1\n", "port = \n"):
        monkeypatch.setattr("hivemind.settings.edit.edited", lambda text, numbers, damaged=damaged: damaged)
        with pytest.raises(Rejected, match="its form doesn't allow rpm to be set alone; edit it by hand"):
            draft(path, {"rpm": 5})


def test_a_value_that_mends_the_file(tmp_path: Path) -> None:
    """A file that doesn't load by itself is written where the new values are what it lacked."""
    path = tmp_path / "hivemind.toml"
    path.write_text("[retry]\nbase_s = 40\n")
    assert draft(path, {"retry.max_s": 60}).after == "[retry]\nbase_s = 40\nmax_s = 60\n"


def test_token_in_the_environment(tmp_path: Path) -> None:
    """A file whose host needs a token can be written though the token itself is in HIVEMIND_TOKEN."""
    path = tmp_path / "hivemind.toml"
    path.write_text('host = "0.0.0.0"\n')
    write(draft(path, {"rpm": 5}))
    assert load([], environ={"HIVEMIND_TOKEN": "3b1f0c9a7d52e846"}, cwd=tmp_path).rpm == 5


def test_what_is_no_file(tmp_path: Path) -> None:
    """A directory, a pipe, a folder that isn't there: one line each."""
    os.mkfifo(tmp_path / "pipe")
    for path, line in (
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "is no regular file"),
        (tmp_path / "no" / "a.toml", f"can't be written ({tmp_path / 'no'} is no folder)"),
    ):
        with pytest.raises(Rejected) as caught:
            draft(path, {"rpm": 1})
        assert str(caught.value) == f"{path}: {line}"


def test_mode_and_link(tmp_path: Path) -> None:
    """The file that a link leads to is replaced, with the mode it had; the link stays one."""
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "my.toml", tmp_path / "hivemind.toml"
    target.write_text("rpm = 1\n")
    target.chmod(0o640)
    link.symlink_to(target)
    write(draft(link, {"rpm": 2}))
    assert link.is_symlink()
    assert target.read_text() == "rpm = 2\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_mode_of_a_new_file(tmp_path: Path, mask: int, mode: int) -> None:
    """A new file is for everybody to read, as far as the umask lets it."""
    path = tmp_path / "hivemind.toml"
    old = os.umask(mask)
    try:
        write(draft(path, {"rpm": 2}))
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_changed_in_the_meantime(tmp_path: Path) -> None:
    """What somebody else wrote since the draft isn't overwritten, nor is a file made in a folder that has gone."""
    path = tmp_path / "a" / "hivemind.toml"
    path.parent.mkdir()
    drafted = draft(path, {"rpm": 2})
    path.write_text("rpm = 3\n")
    with pytest.raises(Rejected, match="has changed in the meantime; look at the difference again"):
        write(drafted)
    assert path.read_text() == "rpm = 3\n"
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(Rejected, match="is no folder"):
        write(drafted)


def test_nothing_to_write(tmp_path: Path) -> None:
    """A draft that changes nothing leaves the file alone, rather than replacing it by its like."""
    path = tmp_path / "hivemind.toml"
    path.write_text("rpm = 2\n")
    before = path.stat().st_ino
    write(draft(path, {"rpm": 2}))
    assert path.stat().st_ino == before


def test_disk_that_takes_no_more(tmp_path: Path) -> None:
    """Where writing breaks off, the old file is whole, nothing is left beside it, and one line says why."""
    path = tmp_path / "hivemind.toml"
    path.write_text("rpm = 2\n")
    drafted = draft(path, {"rpm": 3, "aimd.beta": 0.5})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, limits[1]))
    try:
        with pytest.raises(Rejected) as caught:
            write(drafted)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value) == f"{path}: can't be written (File too large)"
    assert path.read_text() == "rpm = 2\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text", ["upstream = [\n" + '["a"],\n' * 8_000 + "]\n", f"upstream = {'[' * 200}{']' * 200}\n"]
)
def test_a_form_that_takes_long(tmp_path: Path, text: str) -> None:
    """A file that came from somebody else may be one that takes minutes to edit, or that can't be: one line says so."""
    path = tmp_path / "hivemind.toml"
    path.write_text(text)
    with pytest.raises(Rejected, match="its form doesn't allow rpm to be set alone"):
        draft(path, {"rpm": 3})


def test_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was made read-only stays as it is, although its folder would let it be replaced."""
    path = tmp_path / "hivemind.toml"
    path.write_text("rpm = 2\n")
    path.chmod(0o444)
    # Root may write everything; it is treated like anybody else here.
    monkeypatch.setattr(os, "access", lambda file, _mode: bool(os.stat(file).st_mode & 0o200))
    with pytest.raises(Rejected, match="it is read-only"):
        write(draft(path, {"rpm": 3}))


@pytest.mark.parametrize("argv", [[], ["--config", "mine.toml"]])
@pytest.mark.parametrize("environ", [{}, {"HIVEMIND_CONFIG": "theirs.toml"}])
def test_settings_file(tmp_path: Path, argv: list[str], environ: dict[str, str]) -> None:
    """Knobs are written to the file that the settings are read from: what is written there is loaded."""
    for name in ("mine.toml", "theirs.toml"):
        (tmp_path / name).touch()
    parser = Parser()
    add_flags(parser)
    namespace: argparse.Namespace = parser.parse_args(argv)
    write(draft(settings_file(namespace, environ=environ, cwd=tmp_path), {"rpm": 77}))
    assert from_flags(namespace, environ=environ, cwd=tmp_path).rpm == 77
