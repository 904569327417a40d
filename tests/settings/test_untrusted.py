"""Finding hivemind.toml, and which of its settings count where it isn't trusted."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from program import called
from trusted import trusted_settings

from hivemind import settings_file
from hivemind.cli.address import given_settings
from hivemind.errors import UsageError
from hivemind.records import replace
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.settings import Settings, load
from hivemind.settings.options import Option, options
from hivemind.settings.sections import Secret
from hivemind.settings.write import draft, write
from hivemind.settings_file import NAME, find_settings_file

COUNT = {
    "": "max_concurrency max_concurrency_per_upstream rpm tpm pace drain_s agent_idle_s",
    "aimd": "alpha beta floor latency_target_s",
    "circuit": "window threshold cooldown_s when_open",
    "retry": "base_s max_s max_attempts deadline_s budget_ratio",
    "queue": "max_depth max_wait_s ageing_s fairness",
    "alerts": "bell desktop title",
}
"""All of them. Before one is added: can a stranger's value of it send a key, a prompt or an alert elsewhere, have a
file read, written or removed, start something, let somebody do or spend more, or lift a bound on memory or processes?
"""
TEXTS = {
    "pace": '"even"',
    "upstream": '["http://127.0.0.1:9"]',
    "host": '"127.0.0.2"',
    "via": '"http://127.0.0.1:9"',
    "fleet": '"redis://127.0.0.1:9"',
    "alerts.webhook": '"http://127.0.0.1:9"',
    "alerts.webhook_secret": '"0123456789abcdef"',
    "agents.credentials": '{ alice = "a" }',
    "ca_file": '"ca.pem"',
}
each_option = pytest.mark.parametrize("option", options(), ids=lambda option: option.key)


def value_of(settings: Settings, option: Option) -> Any:
    """Return what the settings have of it."""
    found: Any = settings
    for part in option.path:
        found = getattr(found, part)
    return found


def line_of(option: Option) -> str:
    """Return a file that sets it to another value than its default."""
    if option.key in TEXTS:
        value = TEXTS[option.key]
    elif option.choices:
        value = repr(next(choice for choice in option.choices if choice != option.default))
    elif option.kind is bool:
        value = str(not option.default).lower()
    elif option.kind in (int, float):
        value = "0.75" if option.bounds is not None and 1 in (option.bounds.lt, option.bounds.le) else "3"
        value = "3000" if option.key == "journal.keep_mb" else value
    else:
        value = '["x.example"]' if option.key == "allowed_hosts" else '"https://x.example"'
    head = f"[{option.path[0]}]\n" if len(option.path) > 1 else ""
    return f"{head}{option.path[-1]} = {value}\n"


def test_the_settings_that_count() -> None:
    """They are these, and a new one isn't among them unless it is marked where it is defined, and listed here."""
    listed = {f"{section}.{name}".lstrip(".") for section, names in COUNT.items() for name in names.split()}
    assert {option.key for option in options() if option.any_file} == listed
    assert KNOBS.keys() <= listed, "what the control room writes into a file counts from it"


@each_option
def test_each_setting(option: Option, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts without trust if it is one of them, else with trust alone, and is named where it doesn't."""
    text, cwd = line_of(option), tmp_path
    if option.key == "ca_file":
        import certifi

        (tmp_path / "ca.pem").write_bytes(Path(certifi.where()).read_bytes())
    (tmp_path / NAME).write_text(text)
    untrusted = load([], environ={}, cwd=cwd)
    told = capsys.readouterr().err
    trusted_settings(tmp_path, text)
    trusted = load([], environ={}, cwd=cwd)
    assert capsys.readouterr().err == ""
    assert trusted.ignored is None
    assert value_of(trusted, option) != option.default
    if option.any_file:
        assert (untrusted, told) == (trusted, "")
    else:
        assert value_of(untrusted, option) == value_of(Settings(), option)
        assert untrusted.ignored is not None
        assert untrusted.ignored.names == (option.key,)
        assert f"so {option.key} in it doesn't count; look at it, then to trust it: hivemind trust" in told


WRONG = ("true", "-1", '"x y"', "[[1]]", "{ a = 1 }", "1979-05-27")
"""Each setting is tried with one of these in the quick run, each kind of setting with all."""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        pytest.param(option, value, id=f"{option.key}-{value}", marks=() if n % 6 == m else pytest.mark.slow)
        for n, option in enumerate(options())
        for m, value in enumerate(WRONG)
    ],
)
def test_wrong_values(option: Option, value: str, tmp_path: Path) -> None:
    """A wrong value of a setting that doesn't count means nothing; with one of a setting that does, nothing in the file
    counts. Neither keeps a proxy with an upstream from starting."""
    if option.kind is bool and value == "true":
        return
    head = f"[{option.path[0]}]\n" if len(option.path) > 1 else ""
    (tmp_path / NAME).write_text(f"rpm = 7\n{head}{option.path[-1]} = {value}\n".replace("rpm = 7\nrpm", "rpm"))
    settings = load(["--upstream", "http://127.0.0.1:9"], environ={}, cwd=tmp_path)
    assert settings.ignored is not None
    settings.check_upstream()
    if option.any_file:
        assert (settings.ignored.names, settings.rpm) == ((), None)
        assert option.path[-1] in settings.ignored.problem
    else:
        assert (settings.ignored.names, settings.rpm) == ((option.key,), 7)


@pytest.mark.parametrize(
    "text", ["nothing = 1\n", "circuit = 1\n", "[circuit]\nx = 1\n", "rpm = [", "a" * 60_000, "\xff"]
)
def test_what_isnt_understood(text: str, tmp_path: Path) -> None:
    """It may have been meant as an upstream, so without another one nothing starts, and with one it is left out; what
    is told of it is short."""
    (tmp_path / NAME).write_text(text, "latin-1")
    settings = load([], environ={}, cwd=tmp_path)
    with pytest.raises(UsageError, match="may name an upstream, but can't be read") as caught:
        settings.check_upstream()
    assert len(str(caught.value)) < 500 + len(str(tmp_path))
    load([], environ={"HIVEMIND_UPSTREAM": "http://127.0.0.1:9"}, cwd=tmp_path).check_upstream()


def test_flags_and_variables_count(tmp_path: Path) -> None:
    """They and a named file are the user's; trust in the file isn't needed for them."""
    (tmp_path / NAME).write_text('upstream = "http://127.0.0.1:9"\nvia = "http://127.0.0.1:9"\nport = 1\n')
    via = {"HIVEMIND_VIA": "http://127.0.0.1:8"}
    settings = load(["--upstream", "http://127.0.0.1:7"], environ=via, cwd=tmp_path)
    assert (settings.upstream, settings.via, settings.port) == (
        ("http://127.0.0.1:7",),
        Secret("http://127.0.0.1:8"),
        8765,
    )
    for argv, environ in ((["--config", NAME], {}), ([], {"HIVEMIND_CONFIG": NAME})):
        assert load(argv, environ=environ, cwd=tmp_path).port == 1


def test_our_own_writes_keep_the_trust(tmp_path: Path) -> None:
    """A knob that is written into a trusted file changes nothing about trust in it; into one that isn't, neither."""
    path = trusted_settings(tmp_path, "port = 1\n")
    write(draft(path, {"rpm": 5}))
    assert load([], environ={}, cwd=tmp_path).port == 1
    path.write_text("port = 2\n")
    write(draft(path, {"rpm": 6}))
    settings = load([], environ={}, cwd=tmp_path)
    assert (settings.port, settings.rpm) == (8765, 6)
    assert settings.ignored is not None
    assert settings.ignored.changed


def test_what_is_ignored_travels(tmp_path: Path) -> None:
    """A detached proxy and copies of the settings know it too."""
    (tmp_path / NAME).write_text("port = 1\n")
    settings = load([], environ={}, cwd=tmp_path)
    for copy in (replace(settings, port=5), pickle.loads(pickle.dumps(settings))):
        assert copy.ignored == settings.ignored is not None


def test_many_are_counted(tmp_path: Path) -> None:
    """The line names eight, and says how many more there are."""
    keys = [option for option in options() if not option.any_file and len(option.path) == 1]
    (tmp_path / NAME).write_text("".join(map(line_of, keys)))
    ignored = load([], environ={}, cwd=tmp_path).ignored
    assert ignored is not None
    assert f"{', '.join(option.key for option in keys[:8])} and {len(keys) - 8} more in it don't count" in ignored.note


@pytest.mark.parametrize(
    ("argv", "route"),
    [
        ([], ""),
        (["--via", "http://u:sekrit@[::1]:8080/x"], "via http://[::1]:8080"),
        (
            ["--via", "socks5h://h", "--fleet", "rediss://u:sekrit@store/2"],
            "via socks5h://h, fleet rediss://store:6379/2",
        ),
    ],
)
def test_the_route(argv: list[str], route: str, tmp_path: Path) -> None:
    """What keys go through, besides the upstreams, without credentials."""
    assert load(argv, environ={}, cwd=tmp_path).route() == route


@pytest.fixture
def below(tmp_path: Path) -> Path:
    """A folder two levels below one with a settings file."""
    trusted_settings(tmp_path, 'port = 4711\nstate_dir = "state"\n')
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    return folder


def test_the_nearest_counts(below: Path, tmp_path: Path) -> None:
    """One in the folder itself or between wins, and files aren't merged."""
    assert find_settings_file(below) == tmp_path / NAME
    (tmp_path / "a" / NAME).write_text("rpm = 1\n")
    assert find_settings_file(below) == tmp_path / "a" / NAME
    settings = load([], environ={}, cwd=below)
    assert (settings.rpm, settings.port) == (1, 8765)


def test_its_paths_are_from_its_folder(below: Path, tmp_path: Path) -> None:
    """However deep below the command is called, the state is in the same place; one in the home stays there."""
    settings = load([], environ={}, cwd=below)
    assert (settings.port, settings.state_dir) == (4711, tmp_path / "state")
    assert given_settings({}, below) == {"port": 4711, "state_dir": str(tmp_path / "state")}
    trusted_settings(tmp_path, 'state_dir = "~/x"\n')
    assert load([], environ={}, cwd=below).state_dir == Path("~/x")
    assert given_settings({}, below) == {"state_dir": "~/x"}


def test_a_mistake_is_told_where_it_is(below: Path) -> None:
    """The file is named as it is reached from here."""
    trusted_settings(below.parent.parent, "port = true\n")
    with pytest.raises(UsageError, match=r"^\.\./\.\./hivemind\.toml port: must be a whole number"):
        load([], environ={}, cwd=below)


def test_another_users(below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't taken, nor one above it, and that is told; one of root's is, and under sudo that of who called it."""
    (tmp_path / "a" / NAME).write_text("rpm = 1\n")
    (uid, said) = os.stat(tmp_path).st_uid, list[str]()
    _as(monkeypatch, uid + 1000)
    if uid != 0:
        assert find_settings_file(below, said.append) is None
        assert said == [
            f"{tmp_path / 'a' / NAME} belongs to another user, so it isn't read; name it with --config if it is to be"
        ]
    monkeypatch.setattr(settings_file, "_ROOT", uid)
    assert find_settings_file(below) == tmp_path / "a" / NAME
    monkeypatch.setattr(settings_file, "_ROOT", uid + 1)
    assert find_settings_file(below) is None
    _as(monkeypatch, uid + 1)
    monkeypatch.setenv("SUDO_UID", str(uid))
    assert find_settings_file(below) == tmp_path / "a" / NAME


def _as(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_another_file_system(below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search doesn't leave that of the working directory."""
    real = Path.stat
    border = tmp_path / "a"

    def stat(path: Path, **given: bool) -> object:
        found = real(path, **given)
        inside = path == border or border in path.parents
        return SimpleNamespace(st_dev=found.st_dev + inside, st_uid=found.st_uid)

    monkeypatch.setattr(Path, "stat", stat)
    assert find_settings_file(below) is None
    (border / NAME).write_text("")
    assert find_settings_file(below) == border / NAME


def test_none(tmp_path: Path) -> None:
    """Nothing is there, or not even the folder."""
    assert find_settings_file(tmp_path / "gone") is None


def test_setup_takes_the_variable(tmp_path: Path) -> None:
    """`hivemind setup` names the proxy of HIVEMIND_URL, unless --url names another."""
    environ = {"HIVEMIND_URL": "http://127.0.0.1:4711"}
    assert "http://127.0.0.1:4711/agent/claude" in called(tmp_path, ("setup", "claude-code"), environ).out
    other = called(tmp_path, ("setup", "claude-code", "--url", "http://127.0.0.1:4712"), environ).out
    assert "4712" in other
    assert "4711" not in other
    wrong = called(tmp_path, ("setup", "claude-code"), {"HIVEMIND_URL": "http://127.0.0.1:4711/x"})
    assert wrong.code == 2
    assert wrong.err.startswith("hivemind: HIVEMIND_URL: must be the proxy's scheme, host and port alone")
