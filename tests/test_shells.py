from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.agent_names import BadName, normalised
from hivemind.agents.run import RunOutcome
from hivemind.api_types import RunUsage
from hivemind.cli.agents.resume import how_to_raise
from hivemind.cli.agents.run import outcome_text
from hivemind.proxy.client_side import text_of
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.ticket import Refusal
from hivemind.setup.clients import CLIENTS, Client, Target, instructions
from hivemind.setup.routes import codex_settings
from hivemind.text.shells import Shell, command_line, curl, exported, filled, removed, shell_of, variable, word
from hivemind.wire.request_head import parse_path

URL = "http://127.0.0.1:8765"
ENVIRON = {"PATH": os.environ["PATH"], "HIVEMIND_TOKEN": "t0k", "ANTHROPIC_API_KEY": "k3y"}
_INTERPRETERS: dict[Shell, tuple[str, str]] = {"bash": ("bash", "-c"), "fish": ("fish", "-c")}
"""Those that a test machine can have; what PowerShell is given is compared as text."""
SHELLS_HERE = [
    pytest.param(
        shell, marks=pytest.mark.skipif(shutil.which(command[0]) is None, reason=f"{command[0]} isn't installed")
    )
    for shell, command in _INTERPRETERS.items()
]


def run(shell: Shell, script: str) -> str:
    """What a script prints in that shell."""
    done = subprocess.run(
        [*_INTERPRETERS[shell], script], env=ENVIRON, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout


def environment(shell: Shell, *scripts: str) -> list[dict[str, str]]:
    """The variables that a child of that shell sees after each of some scripts."""
    shown = run(shell, "\n".join(f"{script}\nenv -0; printf '\\n\\0'" for script in scripts)).split("\n\0")[:-1]
    return [dict(line.split("=", 1) for line in each.split("\0") if "=" in line) for each in shown]


def lines(client: Client, agent: str, token: bool, shell: Shell) -> list[str]:
    """What is to be pasted into the shell that starts the client, without commands that start one."""
    found = instructions(client, URL, agent, token, shell=shell)
    return [
        line
        for snippet in found.steps.snippets
        if snippet.language == "shell"
        for line in snippet.text.splitlines()
        if not line.startswith(("codex ", "curl"))
    ]


@pytest.mark.parametrize("shell", SHELLS_HERE)
@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize(
    "client",
    [client for client in CLIENTS.values() if client.named and client.name not in ("codex", "pi", "cline")],
    ids=lambda client: client.name,
)
def test_lines_work(client: Client, token: bool, shell: Shell) -> None:
    """In the real shell each line sets its variable, for children too, and the last line takes them all away."""
    found = instructions(client, URL, "alice", token, shell=shell)
    script = "\n".join(lines(client, "alice", token, shell))
    before, seen, after = environment(shell, "", script, found.steps.undo.text)
    new = {name: value for name, value in seen.items() if name not in before}
    urls = [value for name, value in new.items() if name.endswith(("_BASE_URL", "_API_BASE", "_API_ENDPOINT"))]
    for url in urls:
        reached = parse_path(url.removeprefix(URL).encode())
        assert (reached.agent, reached.path) in (("alice", "/"), ("alice", "/v1"))
        assert reached.token == ("t0k" if token else None)
    assert urls or new.keys() & {"OPENCODE_CONFIG_CONTENT", "KILO_CONFIG_CONTENT", "VIBE_PROVIDERS"}
    assert new.get("COPILOT_PROVIDER_API_KEY", "k3y") == "k3y"
    assert after.keys() & new.keys() == set()


@pytest.mark.parametrize("token", [False, True])
def test_codex_arguments(token: bool) -> None:
    """Codex gets each setting as one argument, and the token's variable in place of the token."""
    found = instructions(CLIENTS["codex"], URL, "alice", token)
    script = "\n".join(snippet.text for snippet in found.steps.snippets if snippet.language == "shell")
    printed = run("bash", f'codex() {{ printf "%s\\n" "$@"; }}\n{script}').split()
    session = codex_settings(Target(URL, "alice", token, "bash").named, token=token)
    assert printed == [
        "-c",
        f"model_providers.hivemind.base_url={URL}/agent/alice-2/v1",
        *(argument for setting in session for argument in ("-c", setting)),
    ]
    assert any(setting.endswith(f"base_url={URL}/agent/alice/v1") for setting in session)
    assert ("model_providers.hivemind.env_http_headers.x-hivemind-token=HIVEMIND_TOKEN" in session) == token


@settings(max_examples=examples(25), deadline=None)
@given(agent=st.text(min_size=1, max_size=20).filter(lambda name: name not in (".", "..")), token=st.booleans())
def test_any_name_survives_the_shell(agent: str, token: bool) -> None:
    """Whatever name the proxy accepts is the name it gets, through bash and the URL."""
    try:
        normalised(agent)
    except BadName:
        return
    (seen,) = environment("bash", "\n".join(lines(CLIENTS["claude-code"], agent, token, "bash")))
    assert parse_path(seen["ANTHROPIC_BASE_URL"].removeprefix(URL).encode()).agent == agent


@pytest.mark.parametrize(
    ("shell", "shown"),
    [
        ("bash", ["export A=http://a/b", "export A='x y'", "unset A B", "$A", "curl -s http://a"]),
        ("fish", ["set -gx A http://a/b", "set -gx A 'x y'", "set -e A B", "$A", "curl -s http://a"]),
        (
            "powershell",
            ['$env:A = "http://a/b"', "$env:A = 'x y'", "Remove-Item Env:A, Env:B", "$env:A", "curl.exe -s http://a"],
        ),
    ],
)
def test_spelling(shell: Shell, shown: list[str]) -> None:
    """How each shell says it, also where that shell isn't here to be asked."""
    assert [
        exported(shell, "A", "http://a/b"),
        exported(shell, "A", "x y"),
        removed(shell, "A", "B"),
        variable(shell, "A"),
        curl(shell, "http://a"),
    ] == shown


def test_quotes_of_other_shells() -> None:
    """Quotation marks and backslashes within quotes, by the rules of each."""
    assert word("fish", r"a'b\c d") == r"'a\'b\\c d'"
    assert word("powershell", r"a'b\c d") == r"'a''b\c d'"


@pytest.mark.parametrize(
    ("environ", "system", "shell"),
    [
        ({"SHELL": "/bin/zsh"}, "posix", "bash"),
        ({"SHELL": "/usr/local/bin/fish"}, "posix", "fish"),
        ({"SHELL": "/usr/bin/pwsh"}, "posix", "powershell"),
        ({}, "posix", "bash"),
        ({}, "nt", "powershell"),
        ({"SHELL": "/usr/bin/bash"}, "nt", "bash"),
    ],
)
def test_shell_of(environ: dict[str, str], system: str, shell: Shell) -> None:
    """The user's own shell is found; where there is no telling, the system's usual one."""
    assert shell_of(environ, system) == shell


NAMES = [
    *("x$(touch PWNED)", "x`touch PWNED`", "it's", 'a"; touch PWNED; "b', "'; touch PWNED; '", "a;touch PWNED"),
    *("a&touch PWNED&", "a|touch PWNED", "a\ntouch PWNED\n", "a!!b!touch", "~root", "*", "a b  c", "-x", "--token=x"),
    *("=ls", "%self", "@(touch PWNED)", "a\\", "a\\'; touch PWNED #", "{a,b}", "<(touch PWNED)", "YOUR-TOKEN"),
    *("YOUR-TOKEN$(touch PWNED)'\"", "\u2019; touch PWNED; \u2018"),
]
"""What somebody could call an agent, a task or a file, and what else may come in its place."""
PASTED_INTO = [
    pytest.param(*command, id=command[1], marks=pytest.mark.skipif(not shutil.which(command[1]), reason="not here"))
    for command in (("bash", "bash"), ("bash", "zsh"), ("bash", "dash"), ("fish", "fish"))
]
"""The rules, and the shell that is to understand them."""


def pasted(program: str, script: str, folder: Path) -> list[str]:
    """What a script prints, ended by zero bytes; it may do nothing else."""
    done = subprocess.run(
        [program, "-c", script], env={**ENVIRON, "HOME": str(folder)}, cwd=folder, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr, list(folder.glob("[!.]*"))) == (0, b"", [])
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(("shell", "program"), PASTED_INTO)
def test_pasted_names_run_nothing(shell: Shell, program: str, tmp_path: Path) -> None:
    """Whatever a name holds, the shell gives it to variable and command letter by letter and runs nothing of it; only
    the token's place is filled in."""
    texts = [text for name in NAMES for text in (name, f"http://a/token/YOUR-TOKEN/{name}")]
    show = "printf '%s\\0'"
    script = [
        line
        for text in texts
        for line in (exported(shell, "V", text), f'{show} "$V"', command_line(show, text, then="AMOUNT", shell=shell))
    ]
    assert pasted(program, "\n".join(script), tmp_path) == [
        word
        for text in texts
        for word in (text.replace("YOUR-TOKEN", "t0k"), *(["--"] if text.startswith("-") else []), text, "AMOUNT")
    ]


@pytest.mark.parametrize("name", NAMES)
def test_messages_can_be_pasted(name: str, tmp_path: Path) -> None:
    """The command lines in what agents and people are told, too."""
    state = BudgetState(name, 10, None, "run", "agent", 10, 0.0, 0)
    refused = text_of(Refusal("budget", None, 400, state))
    stopped, ended = (
        how_to_raise(name, state),
        outcome_text(RunOutcome(name, 1, 1.0, RunUsage(10, 0.0, 0, name, state))),
    )
    found = [
        (refused.partition("raise it with `")[2].rpartition("`, or with B")[0], ["budget", name, "AMOUNT"]),
        (stopped.partition("raise it with `")[2].rpartition("`, then")[0], ["budget", name, "AMOUNT"]),
        (ended.rpartition(", then ")[2], ["resume", name]),
    ]
    for line, words in found:
        script = f"hivemind() {{ printf '%s\\0' \"$@\"; }}\n{line}"
        assert [each for each in pasted("bash", script, tmp_path) if each != "--"] == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x$(touch PWNED)", "'x$(touch PWNED)'"),
        ("a;b", "'a;b'"),
        ("a`n", "'a`n'"),
        ("it's", "'it''s'"),
        ("\u2019; touch PWNED; \u2018", "'\u2019\u2019; touch PWNED; \u2018\u2018'"),
        ("\u201a\u201b", "'\u201a\u201a\u201b\u201b'"),
        ("@x", "'@x'"),
        ("a,b", "'a,b'"),
        ("-a.b", "'-a.b'"),
        ("--%", "'--%'"),
        ("--attach", "--attach"),
        ("http://a:1/b%20c", "http://a:1/b%20c"),
        ('/YOUR-TOKEN/$(x)`y"\u201cz', '"/$env:HIVEMIND_TOKEN/`$(x)``y`"`\u201cz"'),
    ],
)
def test_powershell(text: str, shown: str) -> None:
    """It has typographic quotes too, splatting, arrays, and a backtick where others have a backslash."""
    assert filled("powershell", text) == shown
