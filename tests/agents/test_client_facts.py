from __future__ import annotations

import json
from pathlib import Path

import pytest
from dotenv import dotenv_values

from hivemind.agents.clients.facts import RESUME_VARIABLE, Call, Client
from hivemind.agents.clients.known import PACKAGES, PROGRAMS, client_of, kind_in
from hivemind.agents.clients.launchers import prepare
from hivemind.setup.routes import TOKEN_VARIABLE
from hivemind.text import shells

NAMED = "http://127.0.0.1:8765/agent/alice"
WITH_TOKEN = "http://127.0.0.1:8765/to/work/token/to%2Fken/agent/alice"


def led(program: str, *arguments: str, base: str = NAMED, folder: Path | None = None, **environ: str) -> Call:
    """A call of the program that takes the run's path."""
    call = Call(list(arguments), dict(environ), base, "" if folder is None else str(folder))
    prepare(program, call)
    return call


def test_known() -> None:
    """Each client is found by its program and its package; any other program is none."""
    for program in PROGRAMS:
        client = client_of(program)
        assert client is not None
        assert program in client.programs
    assert set(PACKAGES.values()) == set(PROGRAMS)
    assert client_of("claudette") is None
    assert shells.TOKEN_VARIABLE == TOKEN_VARIABLE


def test_token_of_a_path() -> None:
    """The token can be taken out of a base URL, and replaced."""
    call = Call([], {}, WITH_TOKEN)
    assert (call.named, call.token) == ("http://127.0.0.1:8765/to/work/agent/alice", True)
    assert call.base_with("T") == "http://127.0.0.1:8765/to/work/token/T/agent/alice"
    assert (Call([], {}, NAMED).named, Call([], {}, NAMED).token, Call([], {}, NAMED).base_with("T")) == (
        NAMED,
        False,
        NAMED,
    )


def test_resume_once() -> None:
    """A session of this client is resumed by its first call alone; one of another client is left for that one."""

    def resume(call: Call, session: str) -> None:
        call.arguments[:] = ["resume", session]

    client = Client("codex", "codex", resume=resume)
    call = Call(["exec", "hello"], {RESUME_VARIABLE: "codex:1:2"}, NAMED)
    client.prepare(call)
    assert call.arguments == ["resume", "1:2"]
    assert RESUME_VARIABLE not in call.environ
    other = Call(["exec", "hello"], {RESUME_VARIABLE: "claude-code:1"}, NAMED)
    client.prepare(other)
    assert other.arguments == ["exec", "hello"]
    assert other.environ[RESUME_VARIABLE] == "claude-code:1"


def test_claude_code() -> None:
    """Settings on the command line take precedence over those of files."""
    call = led("claude", "-p", "hello", ANTHROPIC_BASE_URL="https://elsewhere")
    flag, settings, *rest = call.arguments
    assert (flag, rest, json.loads(settings)) == ("--settings", ["-p", "hello"], {"env": {"ANTHROPIC_BASE_URL": NAMED}})
    assert call.environ["ANTHROPIC_BASE_URL"] == NAMED


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("as_file", [False, True])
def test_claude_code_with_settings_of_the_user(joined: bool, as_file: bool, tmp_path: Path) -> None:
    """The user's own settings, a file or JSON, stay but for the address; they aren't repeated on the command line."""
    given = json.dumps({"model": "m", "env": {"KEY": "secret", "ANTHROPIC_BASE_URL": "https://elsewhere"}})
    if as_file:
        (tmp_path / "mine.json").write_text(given)
        given = str(tmp_path / "mine.json")
    call = led("claude", *([f"--settings={given}"] if joined else ["--settings", given]), "-p", "x", folder=tmp_path)
    flag, path, *rest = call.arguments
    assert (flag, rest) == ("--settings", ["-p", "x"])
    assert json.loads(Path(path).read_text()) == {"model": "m", "env": {"KEY": "secret", "ANTHROPIC_BASE_URL": NAMED}}
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("given", ["{", "missing.json", '{"env": 5}'])
def test_claude_code_with_settings_that_are_wrong(given: str, tmp_path: Path) -> None:
    """Claude Code itself reports them."""
    assert led("claude", "--settings", given, "-p", "x", folder=tmp_path).arguments == ["--settings", given, "-p", "x"]


def test_no_token_on_a_command_line(tmp_path: Path) -> None:
    """Every user of the machine can read command lines: the token is in a file or a variable."""
    for program in PROGRAMS:
        words = led(program, "hello", base=WITH_TOKEN, folder=tmp_path).arguments
        assert words[-1] == "hello"
        assert [word for word in words if "ken" in word.replace("token", "")] == []


def test_pi(tmp_path: Path) -> None:
    """pi gets an extension that points its providers to the run's path, but not where it manages itself."""
    flag, path, *rest = led("pi", "-p", "hello", base=WITH_TOKEN, folder=tmp_path).arguments
    assert (flag, rest) == ("--extension", ["-p", "hello"])
    text = Path(path).read_text()
    assert f'pi.registerProvider("anthropic", {{"baseUrl": "{WITH_TOKEN}"}});' in text
    assert f'pi.registerProvider("openai", {{"baseUrl": "{WITH_TOKEN}/v1"}});' in text
    assert Path(path).stat().st_mode & 0o77 == 0
    assert led("pi", "list", folder=tmp_path).arguments == ["list"]
    assert led("pi", "hello").arguments == ["hello"]


def test_codex() -> None:
    """Codex gets flags before those of the user, whose last one holds: also for the provider that setup offers."""
    assert led("codex", "exec", "hello").arguments == [
        *("-c", f"openai_base_url={NAMED}/v1"),
        *("-c", "model_providers.hivemind.name=HiveMind"),
        *("-c", f"model_providers.hivemind.base_url={NAMED}/v1"),
        *("exec", "hello"),
    ]
    words = led("codex", "exec", "hello", base=WITH_TOKEN).arguments
    assert "model_provider=hivemind" in words
    assert f"model_providers.hivemind.env_http_headers.x-hivemind-token={TOKEN_VARIABLE}" in words


def test_aider(tmp_path: Path) -> None:
    """Its .env files override variables, so a last one is added to the user's."""
    variables = {
        "ANTHROPIC_API_BASE": NAMED,
        "OPENAI_API_BASE": f"{NAMED}/v1",
        "OLLAMA_API_BASE": NAMED,
        "AIDER_OPENAI_API_BASE": f"{NAMED}/v1",
    }
    call = led("aider", "--yes", folder=tmp_path)
    assert call.arguments == ["--yes"]
    assert dotenv_values(call.environ["AIDER_ENV_FILE"]) == variables
    mine = tmp_path / "mine.env"
    mine.write_text("OPENAI_API_KEY=k\nOPENAI_API_BASE=https://elsewhere")
    for words in (["--env-file", str(mine)], [f"--env-file={mine}"]):
        call = led("aider", *words, "--yes", folder=tmp_path)
        assert call.arguments == ["--env-file", call.environ["AIDER_ENV_FILE"], "--yes"]
        assert dotenv_values(call.arguments[1]) == {**variables, "OPENAI_API_KEY": "k"}
        again = led("aider", *call.arguments, folder=tmp_path, AIDER_ENV_FILE=call.arguments[1])
        assert again.arguments == call.arguments
    assert led("aider", "--yes").arguments == ["--yes"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("npx @openai/codex exec hi", "npx @openai/codex FLAGS exec hi"),
        ("npx -y @openai/codex@latest exec hi", "npx -y @openai/codex@latest FLAGS exec hi"),
        ("npx --package @openai/codex -y -- codex exec", "npx --package @openai/codex -y -- codex FLAGS exec"),
        ("npx codex", "npx codex FLAGS"),
        ("npm exec @openai/codex -- exec hi", "npm exec @openai/codex -- FLAGS exec hi"),
        ("npm exec @openai/codex exec hi", "npm exec @openai/codex -- FLAGS exec hi"),
        ("npm exec @openai/codex --yes -- exec hi", "npm exec @openai/codex --yes -- FLAGS exec hi"),
        ("npm --prefix there x -- codex exec", "npm --prefix there x -- codex FLAGS exec"),
        ("pnpm dlx @openai/codex exec", "pnpm dlx @openai/codex FLAGS exec"),
        ("pnpm exec codex", "pnpm exec codex FLAGS"),
        ("bunx --bun @openai/codex exec", "bunx --bun @openai/codex FLAGS exec"),
        ("bun x codex", "bun x codex FLAGS"),
        ("yarn dlx -p @openai/codex codex", "yarn dlx -p @openai/codex codex FLAGS"),
        ("uv tool run codex x", "uv tool run codex FLAGS x"),
        ("npx cowsay codex", "npx cowsay codex"),
        ("npm install -g @openai/codex", "npm install -g @openai/codex"),
        ("npm run codex", "npm run codex"),
        ("uv tool install codex", "uv tool install codex"),
        ("npx", "npx"),
        ("npm exec", "npm exec"),
        ("codexx exec", "codexx exec"),
    ],
)
def test_launchers(line: str, expected: str) -> None:
    """A program that starts a client from its package hands it the same flags; anything else is left as it is."""
    flags = " ".join(led("codex").arguments)
    program, *words = line.split()
    assert " ".join((program, *led(program, *words).arguments)) == expected.replace("FLAGS", flags)


def test_package_of_python(tmp_path: Path) -> None:
    """Packages of PyPI too, with their versions and extras."""
    for words in (
        ("uvx", "aider-chat@latest"),
        ("uvx", "--from", "aider-chat", "aider"),
        ("pipx", "run", "aider-chat"),
    ):
        assert "AIDER_ENV_FILE" in led(*words, "--yes", folder=tmp_path).environ
    assert "AIDER_ENV_FILE" in led("uvx", "aider-chat[browser]==0.86", folder=tmp_path).environ


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["claude", "-p", "x"], "claude-code"),
        (["/usr/bin/codex"], "codex"),
        (["sh", "-c", "cd x && 'codex' exec"], "codex"),
        (["npx", "-y", "@openai/codex@latest", "exec"], "codex"),
        (["sh", "-c", "opencode run; claude -p"], ""),
        (["make", "test"], ""),
        (["sh", "-c", "echo claudette"], ""),
    ],
)
def test_client_of_a_command(command: list[str], kind: str) -> None:
    """A command says which client it starts, if it names one only."""
    assert kind_in(command) == kind
