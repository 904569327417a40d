from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trusted import trusted_settings

from hivemind.errors import UsageError
from hivemind.providers.profiles import PROFILES
from hivemind.settings import Settings, load
from hivemind.settings.load import _note_removed
from hivemind.settings.options import find
from hivemind.settings_file import REMOVED

NO_EFFECT = "has no effect any more; delete it"
UPSTREAM = ("--upstream", "http://127.0.0.1:9")

Loader = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Loader:
    """Settings from flags, variables and the text of a file."""

    def read_(*argv: str, file: str | None = None, **environ: str) -> Settings:
        if file is not None:
            trusted_settings(tmp_path, file)
        return load(argv, environ=environ, cwd=tmp_path)

    return read_


def complaint(read: Loader, *argv: str, file: str | None = None, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(*argv, file=file, **environ)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_precedence(read: Loader) -> None:
    """A flag wins over a variable, a variable over the file, the file over the default; section by section too."""
    file = "port = 1\nrpm = 1\ntpm = 1\n[circuit]\nwindow = 1\nthreshold = 0.1\ncooldown_s = 1"
    found = read(
        *("--port", "3", "--circuit.window", "3"),
        file=file,
        HIVEMIND_PORT="2",
        HIVEMIND_RPM="2",
        HIVEMIND_CIRCUIT__WINDOW="2",
        HIVEMIND_CIRCUIT__THRESHOLD="0.2",
    )
    assert (found.port, found.rpm, found.tpm, found.max_concurrency) == (3, 2, 1, None)
    assert (found.circuit.window, found.circuit.threshold, found.circuit.cooldown_s) == (3, 0.2, 1)
    assert found.circuit.when_open == "hold"


def test_names_of_agents(read: Loader) -> None:
    """Those whose answers are held come as a list, separated by commas, or by one flag each."""
    variable = {"HIVEMIND_AGENTS__HOLD_ANSWERS": " team a ,bob,"}
    assert read(**variable).agents.hold_answers == ("team a", "bob")
    assert read(file='[agents]\nhold_answers = ["*"]').agents.hold_answers == ("*",)
    assert read("--agents.hold-answers", "a", "--agents.hold-answers", "b/c").agents.hold_answers == ("a", "b/c")
    assert "at most 80 characters" in complaint(read, file=f'[agents]\nhold_answers = ["{"x" * 81}"]')
    assert "hold_answers" in complaint(read, file="[agents]\nhold_answers = 3")


def test_nothing_given(read: Loader) -> None:
    """Without any source every setting has its default, whatever the process's own environment says."""
    assert read() == Settings()


@pytest.mark.parametrize("flag", ["--circuit.when-open", "--circuit.when_open"])
@pytest.mark.parametrize("joined", [True, False])
def test_hyphens_and_underscores(read: Loader, flag: str, joined: bool) -> None:
    """Both are accepted in a flag's name, with the value after a space or an equals sign."""
    argv = [f"{flag}=refuse"] if joined else [flag, "refuse"]
    assert read(*argv).circuit.when_open == "refuse"


def test_record_bodies(read: Loader) -> None:
    """The short form, which goes before a variable as any flag does; the later of two flags holds."""
    assert not read().journal.bodies
    assert read("--record-bodies", HIVEMIND_JOURNAL__BODIES="off").journal.bodies
    assert not read("--record-bodies", "--journal.bodies", "off").journal.bodies


def test_credentials_of_agents(read: Loader) -> None:
    """A table in the file, JSON as a flag or in a variable; the whole of one source wins."""

    def found(*argv: str, **given: str) -> dict[str, str]:
        credentials = read(*argv, **given).agents.credentials
        return {name: token.reveal() for name, token in credentials.items()}

    table = '[agents.credentials]\nAlice = "a"\n"team b" = "b"\n'
    assert found(file=table) == {"Alice": "a", "team b": "b"}
    assert found(HIVEMIND_AGENTS__CREDENTIALS='{" Carol ": "c"}') == {"Carol": "c"}
    assert found("--agents.credentials", '{"dave": "d"}', HIVEMIND_AGENTS__CREDENTIALS='{"carol": "c"}') == {
        "dave": "d"
    }


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("sekrit", 'must be a token for each agent\'s name, as in {"alice": "TOKEN"}'),
        ('["sekrit"]', 'must be a token for each agent\'s name, as in {"alice": "TOKEN"}'),
        ('{"alice": {"sekrit": 1}}', 'must be a token for each agent\'s name, as in {"alice": "TOKEN"}'),
        ('{"alice": "a sekrit"}', "the token of alice must be printable ASCII without spaces, at least one character"),
        ('{"alice": ""}', "the token of alice must be printable ASCII without spaces, at least one character"),
        ('{"Alice": "sekrit", "alice": "b"}', "Alice and alice are one agent's name, so it can have one token only"),
        ('{"alice": "sekrit", "bob": "sekrit"}', "bob must have a token of its own"),
        ('{"alice": "agents-sekrit"}', "the token of alice must differ from token"),
        ('{"alice": "control-sekrit"}', "the token of alice must differ from control_token"),
        ('{"alice": "sekrit", "": "b"}', "number 2: an agent's name must have at least one visible character"),
        ("[" * 100_000, 'must be a token for each agent\'s name, as in {"alice": "TOKEN"}'),
    ],
)
def test_wrong_credentials_of_agents(read: Loader, given: str, line: str) -> None:
    """One line that names the source and repeats no token."""
    others = {"HIVEMIND_TOKEN": "agents-sekrit", "HIVEMIND_CONTROL_TOKEN": "control-sekrit"}
    assert complaint(read, "--agents.credentials", given, **others) == f"--agents.credentials: {line}"
    variable = complaint(read, HIVEMIND_AGENTS__CREDENTIALS=given, **others)
    assert variable == f"HIVEMIND_AGENTS__CREDENTIALS (environment): {line}"


def test_numbers_as_people_type_them(read: Loader) -> None:
    """The same in a flag, a variable and the file; an `m` after seconds would be minutes, and is refused."""
    found = read(
        *UPSTREAM, "--tpm", "1.5m", HIVEMIND_RPM="2k", file='max_concurrency = "1_000"\n[aimd]\nbeta = "0,7"\n'
    )
    assert (found.tpm, found.rpm, found.max_concurrency, found.aimd.beta) == (1_500_000, 2000, 1000, 0.7)
    with pytest.raises(UsageError, match=r"--rpm 2\.5: must be a whole number from 0"):
        read(*UPSTREAM, "--rpm", "2.5")
    with pytest.raises(UsageError, match=r"--retry\.deadline-s 5m: must be a number"):
        read(*UPSTREAM, "--retry.deadline-s", "5m")


def test_values_keep_underscores(read: Loader) -> None:
    """Only a flag's name is respelled, never its value."""
    assert read("--upstream=http://a_b/c_d").upstream == ("http://a_b/c_d",)


@pytest.mark.parametrize("text", ["http://a,b=http://b", "http://a b=http://b", '["http://a", "b=http://b"]'])
def test_upstreams_in_a_variable(read: Loader, text: str) -> None:
    """A variable holds several upstreams separated by commas or spaces, or as JSON."""
    assert read(HIVEMIND_UPSTREAM=text).upstream == ("http://a", "b=http://b")


def test_upstreams_as_flags_and_in_the_file(read: Loader) -> None:
    """The flag may be repeated, and the file takes one string or a list; flags replace the file's."""
    assert read(file='upstream = "http://a"').upstream == ("http://a",)
    assert read(file='upstream = ["http://a", "http://b"]').upstream == ("http://a", "http://b")
    assert read("--upstream", "http://c", "--upstream", "http://d").upstream == ("http://c", "http://d")


def test_named_file(read: Loader, tmp_path: Path) -> None:
    """--config and HIVEMIND_CONFIG name a file, which is then read instead of hivemind.toml; the flag wins."""
    (tmp_path / "a.toml").write_text("port = 1")
    (tmp_path / "b.toml").write_text("port = 2")
    assert read(file="port = 3", HIVEMIND_CONFIG="a.toml").port == 1
    assert read("--config", str(tmp_path / "b.toml"), file="port = 3", HIVEMIND_CONFIG="a.toml").port == 2


def test_empty_variable(read: Loader) -> None:
    """An empty variable counts as not set, as in a container's settings."""
    assert read(HIVEMIND_TOKEN="", HIVEMIND_PORT="").port == 8765


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--prot", "1"], "--prot: no such flag; did you mean --port?"),
        (["--zzzzzzz=sekrit"], "--zzzzzzz: no such flag; see --help"),
        (["--port", "99999"], "--port 99999: must be a whole number from 0 to 65,535"),
        (["--port", "banana"], "--port banana: must be a whole number from 0 to 65,535"),
        (["--port", "1.5"], "--port 1.5: must be a whole number from 0 to 65,535"),
        (["--rpm", "-1"], "--rpm -1: must be a whole number from 0 to 10,000,000"),
        (["--port"], "--port: expected one argument"),
        (["--por", "1"], "--por: no such flag; did you mean --port?"),
        (["--drain-s", "nan"], "--drain-s nan: must be a number from 0 to 86,400"),
        (["--aimd.beta", "1"], "--aimd.beta 1: must be a number above 0 and below 1"),
        (["--circuit.threshold", "0"], "--circuit.threshold 0: must be a number above 0 and at most 1"),
        (["--circuit.when_open", "maybe"], "--circuit.when-open maybe: must be hold or refuse"),
        (["--journal.keep-mb", "63"], "--journal.keep-mb: must be at least journal.max_mb, which is 64"),
        (["--record-bodies=on"], "--record-bodies: ignored explicit argument 'on'"),
        (["--features.admission", "flase"], "--features.admission flase: must be on or off"),
        (["--profile", "mlc"], f"--profile mlc: must be {', '.join([*PROFILES][:-1])} or {[*PROFILES][-1]}"),
        (["http://a"], "an argument too many, one that belongs to no flag; a URL goes after --upstream"),
    ],
)
def test_wrong_flag(read: Loader, argv: list[str], line: str) -> None:
    """A wrong flag is one line with the flag and what it may hold, or the flag that was meant."""
    assert complaint(read, *argv) == line


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("HIVEMIND_PROT", "1", ": no such setting; did you mean HIVEMIND_PORT?"),
        ("HIVEMIND_RPM", "lots", " lots: must be a whole number from 0 to 10,000,000"),
        ("HIVEMIND_CIRCUIT_WINDOW", "1", ": no such setting; did you mean HIVEMIND_CIRCUIT__WINDOW?"),
        *(
            ("HIVEMIND_UPSTREAM", each, ": must be URLs separated by ")
            for each in ("[", "[" * 9_999, f"[{'1' * 9_999}]")
        ),
        ("HIVEMIND_VIA", "http://\udcff", ": must be text in UTF-8"),
    ],
)
def test_wrong_variable(read: Loader, name: str, value: str, line: str) -> None:
    """A wrong variable is one line that names it and where it came from."""
    assert complaint(read, **{name: value}).startswith(f"{name} (environment){line}")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("prot = 1", "hivemind.toml prot: no such setting; did you mean port?"),
        ("[circut]\nwindow = 1", "hivemind.toml circut: no such section; did you mean circuit?"),
        ("[circuit]\ntreshold = 1", "hivemind.toml [circuit] treshold: no such setting; did you mean threshold?"),
        ("[circuit]\nthreshold = 7", "hivemind.toml [circuit] threshold 7: must be a number above 0 and at most 1"),
        ("circuit = 1", "hivemind.toml circuit: must be a section, [circuit]"),
        ("[port]\nx = 1", "hivemind.toml port: must be a whole number from 0 to 65,535"),
        ("port = true", "hivemind.toml port: must be a whole number from 0 to 65,535"),
        ("host = 1", "hivemind.toml host: must be text"),
        ("[alerts]\nwebhook = []", "hivemind.toml [alerts] webhook: must be text"),
        ("upstream = [1]", "hivemind.toml upstream: must be text"),
        ("port = ", "hivemind.toml: not TOML: invalid value (at end of document)"),
    ],
)
def test_wrong_entry_in_the_file(read: Loader, file: str, line: str) -> None:
    """A wrong entry is one line with the file, the section and the key."""
    assert complaint(read, file=file) == line


@pytest.mark.parametrize("name", sorted(each for each in REMOVED if not each.startswith("feedback.")))
def test_a_removed_setting_has_no_effect(name: str, read: Loader, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and variables of earlier versions may have it, each with one line; as a flag it is wrong."""
    _note_removed.cache_clear()
    variable = f"HIVEMIND_{name.upper().replace('.', '__')}"
    *section, key = name.split(".")
    file = "".join(f"[{each}]\n" for each in section) + f"{key} = 2"
    assert find(tuple(name.split("."))) is None
    assert read(file=file, **{variable: "2"}) == Settings()
    in_file, in_variable = capsys.readouterr().err.splitlines()
    assert in_file == f"hivemind: hivemind.toml {''.join(f'[{each}] ' for each in section)}{key}: {NO_EFFECT}"
    assert in_variable == f"hivemind: {variable} (environment): {NO_EFFECT}"
    assert ": no such flag" in complaint(read, f"--{name}", "2")


def test_unreadable_file(read: Loader, tmp_path: Path) -> None:
    """A file that was named must be there and be text; the default one needn't exist."""
    assert complaint(read, "--config", "x.toml") == "x.toml: can't be read (No such file or directory)"
    (tmp_path / "y.toml").write_bytes(b"\xff")
    assert complaint(read, HIVEMIND_CONFIG="y.toml") == "y.toml: can't be read (not UTF-8)"


def test_the_winning_source_is_blamed(read: Loader) -> None:
    """Where two sources set the same, the line names the one whose value was used."""
    assert complaint(read, "--port", "x", HIVEMIND_PORT="1").startswith("--port x:")
    assert complaint(read, file="port = 1", HIVEMIND_PORT="x").startswith("HIVEMIND_PORT (environment) x:")


@pytest.mark.parametrize(
    "argv",
    [
        ("--token", "sek rit"),
        ("--token", "sekrit", "rit-sekrit"),
        ("--token=", "sekrit"),
        ("--tokem", "sekrit"),
        ("--tokem=sekrit",),
        ("--via", "ftp://user:sekrit@host"),
        ("--via", "http://user:sekrit@host:99999"),
        ("--upstream", "http://user:sekrit@host"),
        ("--upstream", "http://host/?key=sekrit"),
        ("--upstream", "sekrit"),
        ("--port", "a-very-long-value-that-might-be-anything-even-a-sekrit"),
    ],
)
def test_secrets_are_not_repeated(read: Loader, argv: tuple[str, ...]) -> None:
    """A line about a wrong value never shows what may be a credential."""
    assert "sekrit" not in complaint(read, *argv)


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--help shows each flag with its meaning and default, and exits with 0."""
    with pytest.raises(SystemExit, match=r"^0$"):
        load(["--help"], environ={}, cwd=tmp_path)
    shown = " ".join(capsys.readouterr().out.split())
    assert "--port N Port to listen on; 0 picks a free one [8765]" in shown
    assert "--circuit.when-open hold|refuse Hold requests that can wait" in shown
    assert "--features.admission on|off Limit concurrency [on]" in shown
