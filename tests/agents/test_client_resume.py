from __future__ import annotations

import json
from pathlib import Path

import pytest

from hivemind.agents.clients import facts, gemini
from hivemind.agents.clients.arguments import Syntax, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, RESUME_FILE_VARIABLE, RESUME_VARIABLE, Call
from hivemind.agents.clients.known import client_of

SESSION = "0199a0c3-45ab-7ea3-8b3c-503600f46547"
KINDS = {"claude": "claude-code", "gemini": "gemini-cli", "codex": "codex", "opencode": "opencode"}
KINDS |= {"aider": "aider", "vibe": "vibe"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder in which each client keeps the session."""
    for path in (
        f".claude/projects/-work/{SESSION}.jsonl",
        f".codex/sessions/2026/11/23/rollout-2026-11-23T23-34-59-{SESSION}.jsonl",
        f".gemini/tmp/p/chats/session-2026-11-23T23-35-{SESSION[:8]}.jsonl",
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    (tmp_path / ".vibe/logs/session/unified" / SESSION).mkdir(parents=True)
    return tmp_path


def resumed(home: Path, program: str, *arguments: str, terminal: bool = False, file: Path | None = None) -> Call:
    """A call that has been prepared to continue the session, without what leads it to the proxy."""
    client = client_of(program)
    assert client is not None
    environ = {"HOME": str(home), RESUME_VARIABLE: f"{KINDS[program]}:{SESSION}"}
    if file is not None:
        environ[RESUME_FILE_VARIABLE] = str(file)
    call = Call(list(arguments), environ, "http://127.0.0.1/agent/a", terminal=terminal)
    client.prepare(call)
    return call


@pytest.fixture(autouse=True)
def _without_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in KINDS:
        client = client_of(program)
        assert client is not None
        monkeypatch.setattr(client, "flags", lambda call: None)
        monkeypatch.setattr(client, "variables", lambda call: None)
    monkeypatch.setattr(facts, "set_variables", lambda call, azure: None)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("claude -p hello", ["-p", "--resume", SESSION, GO_ON]),
        ("claude hello -p --model m", ["-p", "--model", "m", "--resume", SESSION, GO_ON]),
        ("claude -p --model=m -- hello", ["-p", "--model=m", "--resume", SESSION, GO_ON]),
        ("claude -p", ["-p", "--resume", SESSION, GO_ON]),
        (
            "claude -p hello --allowedTools Bash Read --verbose",
            ["-p", "--allowedTools", "Bash", "Read", "--verbose", "--resume", SESSION, GO_ON],
        ),
        ("claude -c -p hello --session-id 1-2", ["-p", "--resume", SESSION, GO_ON]),
        ("claude -r 1-2 --fork-session -p hello", ["-p", "--resume", SESSION, GO_ON]),
        ("claude -p hello --of-2027 x", ["-p", "--of-2027", "x", "--resume", SESSION, GO_ON]),
        (
            "claude -p --input-format stream-json --verbose",
            ["-p", "--input-format", "stream-json", "--verbose", "--resume", SESSION],
        ),
        ("codex exec hello", ["exec", "resume", SESSION, GO_ON]),
        ("codex exec", ["exec", "resume", SESSION, GO_ON]),
        ("codex e --json -", ["exec", "--json", "resume", SESSION, GO_ON]),
        (
            "codex -c a=1 exec -m m -s read-only --json hello",
            ["-c", "a=1", "exec", "-m", "m", "-s", "read-only", "--json", "resume", SESSION, GO_ON],
        ),
        ("codex exec hello -i a.png b.png", ["exec", "resume", SESSION, GO_ON]),
        ("codex exec --json resume --last hello", ["exec", "--json", "resume", SESSION, GO_ON]),
        ("codex exec resume 1-2 hello --json", ["exec", "--json", "resume", SESSION, GO_ON]),
        ("gemini -p hello", ["--resume", SESSION, "--prompt", GO_ON]),
        ("gemini -m m hello there", ["-m", "m", "--resume", SESSION, "--prompt", GO_ON]),
        ("gemini -y --prompt=hello -o json", ["-y", "-o", "json", "--resume", SESSION, "--prompt", GO_ON]),
        ("gemini --session-id 1-2 -r latest -p hello", ["--resume", SESSION, "--prompt", GO_ON]),
        ("opencode run hello there", ["run", "--session", SESSION, GO_ON]),
        ("opencode run -m a/b -f x.py y.py -- hello", ["run", "-m", "a/b", "--session", SESSION, GO_ON]),
        ("opencode run -c --fork --title t hello", ["run", "--session", SESSION, GO_ON]),
        ("aider --yes-always -m hello a.py", ["--restore-chat-history", "--message", GO_ON, "--yes-always", "a.py"]),
        ("aider --message=hello a.py", ["--restore-chat-history", "--message", GO_ON, "a.py"]),
        ("aider a.py -f prompt.txt", ["--restore-chat-history", "--message", GO_ON, "a.py"]),
        ("aider a.py", ["--restore-chat-history", "a.py"]),
        ("vibe --trust -p hello", ["--trust", "--resume", SESSION, "-p", GO_ON]),
    ],
)
def test_a_call_goes_on(given: str, wanted: list[str], home: Path) -> None:
    """The prompt of a call is replaced by a short one to go on in its session; its options stay."""
    program, *arguments = given.split()
    call = resumed(home, program, *arguments)
    assert call.arguments == wanted
    assert RESUME_VARIABLE not in call.environ
    assert call.no_input == (program != "aider" and "stream-json" not in given)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("claude --model m", ["--model", "m", "--resume", SESSION]),
        ("claude hello", ["--resume", SESSION, GO_ON]),
        ("codex", ["resume", SESSION]),
        ("codex -m m hello", ["-m", "m", "resume", SESSION, GO_ON]),
        ("codex resume --last", ["resume", SESSION]),
        ("gemini", ["--resume", SESSION]),
        ("gemini -i hello", ["--resume", SESSION, "--prompt-interactive", GO_ON]),
        ("gemini hello", ["--resume", SESSION, "--prompt-interactive", GO_ON]),
        ("opencode", ["--session", SESSION]),
        ("vibe hello", ["--resume", SESSION, GO_ON]),
        ("opencode project --prompt hello", ["project", "--session", SESSION, "--prompt", GO_ON]),
    ],
)
def test_a_call_at_a_terminal_goes_on(given: str, wanted: list[str], home: Path) -> None:
    """In a terminal a session is asked to go on only if it had been given a prompt; its input stays the terminal's."""
    program, *arguments = given.split()
    call = resumed(home, program, *arguments, terminal=True)
    assert (call.arguments, call.no_input) == (wanted, False)


@pytest.mark.parametrize(
    "given",
    [
        *("claude mcp", "claude -p hello --no-session-persistence", "codex login", "codex exec --ephemeral hello"),
        *("codex exec review", "gemini mcp", "opencode serve"),
    ],
)
def test_a_call_without_a_session(given: str, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A call that has no session to continue is made as it is, and says so."""
    program, *arguments = given.split()
    assert resumed(home, program, *arguments).arguments == arguments
    assert f"hivemind: {KINDS[program]} starts anew: " in capfd.readouterr().err


@pytest.mark.parametrize("given", ["claude -p hello", "codex exec hello", "gemini -p hello"])
def test_a_session_that_is_gone(given: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Clients refuse to resume a session whose file is gone, so the call is made as it is."""
    program, *arguments = given.split()
    assert resumed(tmp_path, program, *arguments).arguments == arguments
    assert f"it keeps no session {SESSION} any more" in capfd.readouterr().err


def test_one_call_goes_on(home: Path, tmp_path: Path) -> None:
    """Of several calls in a script, the session's own continues it, once; the others are made as they are."""
    file = tmp_path / "prompts"
    file.write_text(json.dumps(["<context>", "fix  the tests\n"]))
    other = resumed(home, "claude", "-p", "write a plan", file=file)
    assert (other.arguments, RESUME_VARIABLE in other.environ) == (["-p", "write a plan"], True)
    own = resumed(home, "claude", "-p", "fix the tests", file=file)
    assert (own.arguments, own.environ) == (["-p", "--resume", SESSION, GO_ON], {"HOME": str(home)})
    again = resumed(home, "claude", "-p", "fix the tests", file=file)
    assert (again.arguments, RESUME_VARIABLE in again.environ) == (["-p", "fix the tests"], False)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}'])
def test_any_call_goes_on(text: str, home: Path, tmp_path: Path) -> None:
    """Where no prompt is known, the first call continues the session."""
    (tmp_path / "prompts").write_text(text)
    call = resumed(home, "codex", "exec", "hello", file=tmp_path / "prompts")
    assert call.arguments == ["exec", "resume", SESSION, GO_ON]
    assert not (tmp_path / "prompts").exists()


def test_unknown_options() -> None:
    """A word after an option that isn't known may be its value, so the prompt is looked for elsewhere first."""
    syntax = Syntax(values="-m", flags="-p")
    words = split(["--new", "x", "-p", "hello", "-mM", "-m"], syntax)
    assert (prompt_in(words), options(words)) == ("hello", ["--new", "x", "-p", "-mM", "-m"])
    assert prompt_in(split(["--new", "hello"], syntax)) == "hello"


def test_gemini_names_its_session() -> None:
    """Gemini's requests name no session, so it is given one, and a header that says so."""
    call = Call(["-p", "hello"], {"GEMINI_CLI_CUSTOM_HEADERS": "a: b,x-hivemind-session: old"}, "http://h/agent/a")
    gemini.name_session(call)
    flag, session, *rest = call.arguments
    assert (flag, len(session), rest) == ("--session-id", 36, ["-p", "hello"])
    assert call.environ["GEMINI_CLI_CUSTOM_HEADERS"] == f"a: b,x-hivemind-session: {session}"
    gemini.name_session(call)
    assert call.arguments == [flag, session, *rest]
    for given in (["--list-sessions"], ["mcp", "list"], ["-r", "latest"]):
        call = Call(list(given), {}, "http://h/agent/a")
        gemini.name_session(call)
        assert (call.arguments, "GEMINI_CLI_CUSTOM_HEADERS" in call.environ) == (given, False)
