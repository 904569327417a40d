from __future__ import annotations

import contextlib
import json
import os
import pwd
from pathlib import Path

import pytest
from dotenv import dotenv_values

from hivemind.agents.clients.facts import RESUME_VARIABLE, Call, Client, home
from hivemind.agents.clients.known import PACKAGES, PROGRAMS, client_of, kind_in
from hivemind.agents.clients.launchers import prepare
from hivemind.setup.routes import TOKEN_VARIABLE
from hivemind.text import shells

NAMED = "http://127.0.0.1:8765/agent/alice"
WITH_TOKEN = "http://127.0.0.1:8765/to/work/token/to%2Fken/agent/alice"


def led(program: str, *arguments: str, base: str = NAMED, folder: Path | None = None, **environ: str) -> Call:
    """A call of the program that takes the run's path."""
    call = Call(list(arguments), {"HOME": os.devnull, **environ}, base, "" if folder is None else str(folder))
    prepare(program, call)
    return call


def test_known() -> None:
    """Each client is found by its program and its package; any other program is none."""
    for program in PROGRAMS:
        client = client_of(program)
        assert client is not None
        assert program in client.programs
    assert set(PACKAGES.values()) == set(PROGRAMS) - {"cursor-agent", "kilocode"}
    assert client_of("claudette") is None
    assert shells.TOKEN_VARIABLE == TOKEN_VARIABLE


def test_token_of_a_path() -> None:
    """The token can be taken out of a base URL, and replaced."""
    call = Call([], {}, WITH_TOKEN)
    assert (call.named, call.token) == ("http://127.0.0.1:8765/to/work/agent/alice", True)
    assert call.base_with("T") == "http://127.0.0.1:8765/to/work/token/T/agent/alice"
    plain = Call([], {}, NAMED)
    assert (plain.named, plain.token, plain.base_with("T")) == (NAMED, False, NAMED)


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
    prompt = ["-p", "--", "--settings=x"]
    call = led("claude", *([f"--settings={given}"] if joined else ["--settings", given]), *prompt, folder=tmp_path)
    flag, path = " ".join(call.arguments[:-3]).replace("=", " ").split()
    assert (flag, call.arguments[-3:]) == ("--settings", prompt)
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


def written(path: Path, content: object) -> Path:
    """A JSON file, one with this text, or what a function makes there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    content(path) if callable(content) else path.write_text(text)
    return path


def test_pi_with_providers_of_the_user(tmp_path: Path) -> None:
    """They are pointed too, each as its API wants it."""
    own = {"mine": {"api": "openai-completions"}, "cloud": {"api": "bedrock"}, "openai": {"api": "openai-completions"}}
    written(tmp_path / ".pi" / "agent" / "models.json", {"providers": own})
    text = Path(led("pi", "-p", "x", folder=tmp_path, HOME=str(tmp_path)).arguments[1]).read_text()
    assert f'pi.registerProvider("mine", {{"baseUrl": "{NAMED}/v1"}});' in text
    assert "cloud" not in text


def test_cline(tmp_path: Path) -> None:
    """cline gets a copy of its providers with the run's base URLs; `cline auth` still changes the user's own file."""
    keys = {"openai-compatible": {"settings": {"apiKey": "k", "baseUrl": "https://elsewhere"}}}
    file = tmp_path / ".cline" / "data" / "settings" / "providers.json"
    written(file, {"lastUsedProvider": "openai-compatible", "providers": keys})
    call = led("cline", "hello", folder=tmp_path, HOME=str(tmp_path))
    again = led("cline", "hello", folder=tmp_path, **call.environ)
    assert again.environ["CLINE_SESSION_BACKEND_MODE"] == "local"  # else a daemon of another run asks
    copy = Path(again.environ["CLINE_PROVIDER_SETTINGS_PATH"])
    assert copy.stat().st_mode & 0o777 == 0o600
    found = {name: each["settings"] for name, each in json.loads(copy.read_text())["providers"].items()}
    assert found["openai-compatible"] == {"provider": "openai-compatible", "apiKey": "k", "baseUrl": f"{NAMED}/v1"}
    assert (found["anthropic"]["baseUrl"], found["gemini"]["baseUrl"]) == (f"{NAMED}/v1", f"{NAMED}/v1beta")
    assert "CLINE_PROVIDER_SETTINGS_PATH" not in led("cline", "auth", folder=tmp_path, **call.environ).environ
    assert json.loads(file.read_text())["providers"] == keys


def test_qwen_code(tmp_path: Path) -> None:
    """Qwen Code gets system settings in which the models that its own list have the run's base URLs."""
    models = {"openai": [{"id": "m", "baseUrl": "https://elsewhere"}], "anthropic": [{"id": "c"}]}
    written(tmp_path / ".qwen" / "settings.json", {"modelProviders": models})
    written(tmp_path / "system.json", {"ui": {"theme": "x"}})
    environ = {"HOME": str(tmp_path), "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(tmp_path / "system.json")}
    call = led("qwen", "--openai-base-url", "https://elsewhere", "hello", folder=tmp_path, **environ)
    assert call.arguments == ["--openai-base-url", f"{NAMED}/v1", "hello"]
    path = Path(call.environ["QWEN_CODE_SYSTEM_SETTINGS_PATH"])
    ours = {"openai": [{"id": "m", "baseUrl": f"{NAMED}/v1"}], "anthropic": [{"id": "c", "baseUrl": NAMED}]}
    assert json.loads(path.read_text()) == {"ui": {"theme": "x"}, "modelProviders": ours}
    assert path.stat().st_mode & 0o777 == 0o600


def test_vibe(tmp_path: Path) -> None:
    """Vibe gets its own provider with the run's base URL, as the user has it else, beside the user's others."""
    (tmp_path / "config.toml").write_text('[[providers]]\nname = "mistral"\napi_base = "x"\napi_key_env_var = "MINE"\n')
    environ = {"VIBE_HOME": str(tmp_path), "VIBE_PROVIDERS": '[{"name": "lab", "api_base": "http://lab/v1"}]'}
    assert json.loads(led("vibe", "-p", "hi", folder=tmp_path, **environ).environ["VIBE_PROVIDERS"]) == [
        {"name": "mistral", "api_key_env_var": "MINE", "backend": "mistral", "api_base": f"{NAMED}/v1"},
        {"name": "lab", "api_base": "http://lab/v1"},
    ]


def test_kimi_code(tmp_path: Path) -> None:
    """A model of the settings is described by variables, which a URL in the settings doesn't override."""
    told = '[models.k]\ncapabilities = ["a", "b"]\nadaptive_thinking = false\n'
    written(tmp_path / "config.toml", _KIMI.replace("[models.k]\n", told) + 'api_key = "sk-k"\n')
    for given, expected in (([], []), (["-m", "k"], ["-m", "__kimi_env_model__"]), (["-mk"], ["-m__kimi_env_model__"])):
        call = led("kimi", *given, "-p", "k", KIMI_CODE_HOME=str(tmp_path))
        assert call.arguments == [*expected, "-p", "k"]
        found = [value for name, value in call.environ.items() if name.startswith("KIMI_MODEL_")]
        assert found == ["k3", "sk-k", "kimi", "a,b", "False", f"{NAMED}/v1"]
    own = led("kimi", KIMI_MODEL_NAME="c", KIMI_MODEL_PROVIDER_TYPE="anthropic", KIMI_CODE_HOME=str(tmp_path)).environ
    assert (own["KIMI_MODEL_NAME"], own["KIMI_MODEL_BASE_URL"], own["KIMI_BASE_URL"]) == ("c", NAMED, f"{NAMED}/v1")


def test_droid(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Droid gets its own models in settings of this call, with those it was given, maybe as `<(...)` of a shell."""
    models = [{"model": "c", "apiKey": "k", "baseUrl": "x", "provider": kind} for kind in ("anthropic", "openai")]
    written(tmp_path / ".factory" / "settings.json", {"customModels": models})
    mine = {"sessionDefaultSettings": {"model": "custom:c-0"}}
    end, start_of = os.pipe()
    written(Path(f"/dev/fd/{start_of}"), mine)
    os.close(start_of)
    for given in (["exec"], [], ["exec", "--settings", f"/dev/fd/{end}"]):
        capfd.readouterr()
        *start, flag, path, prompt = led("droid", *given, "hi", folder=tmp_path, HOME=str(tmp_path)).arguments
        assert [*start, flag, prompt] == [*given[:1], "--settings", "hi"]
        found = json.loads(Path(path).read_text())
        assert [each["baseUrl"] for each in found.pop("customModels")] == [NAMED, f"{NAMED}/v1"]
        assert found == (mine if len(given) > 1 else {})
    os.close(end)
    assert not capfd.readouterr().err


def test_grok_build() -> None:
    """With a key it takes a base URL for all of its models."""
    assert led("grok", "-p", "hi", XAI_API_KEY="k").environ["GROK_MODELS_BASE_URL"] == f"{NAMED}/v1"


_VIBE = 'active_model = "l"\n[[models]]\nname = "llama"\nprovider = "lab"\nalias = "l"\n'
_ODD = '{"providers": [1], "modelProviders": {"openai": [1]}, "security": 2}'
_ODD_LOGIN = '{"security": {"auth": {"selectedType": [1]}}}'
_KIMI = 'default_model = "k"\n[models.k]\nprovider = "m"\nmodel = "k3"\n[providers.m]\ntype = "kimi"\nbase_url = "u"\n'
_CHATGPT = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}
_GOOGLE = {"security": {"auth": {"selectedType": "oauth-personal"}}}
_COMMENTED = '{ // "model": "openai/x"\n"provider": {"url": "http://x,}"}, /* and\n*/ "model": "groq/llama", /**/ }'
_QWEN = {"security": {"auth": {"selectedType": "qwen-oauth"}}}


@pytest.mark.parametrize(
    ("command", "why", "files"),
    [
        ("amp -x hi", "own servers", {}),
        ("cursor-agent -p hi", "own servers", {}),
        ("npx @augmentcode/auggie hi", "auggie's requests go past HiveMind: Augment's own servers", {}),
        ("copilot -p hi", "its models are GitHub's", {}),
        ("cline hi", "its provider cline", {}),
        ("cline -P openrouter hi", "its provider openrouter", {}),
        ("cline -P anthropic hi", "", {}),
        ("cline --version", "", {}),
        ("codex exec hi", "ChatGPT login", {".codex/auth.json": _CHATGPT}),
        ("codex login status", "", {".codex/auth.json": _CHATGPT}),
        ("codex exec hi", "", {".codex/auth.json": {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-0"}}),
        ("codex exec -c model_provider=mine hi", "its provider mine", {}),
        ("codex --oss exec hi", "--oss", {}),
        ("gemini -p hi", "oauth-personal", {".gemini/settings.json": _GOOGLE}),
        ("qwen -p hi", "qwen-oauth", {".qwen/settings.json": _QWEN}),
        ("qwen -p hi --auth-type openai", "", {".qwen/settings.json": _QWEN}),
        ("opencode run -m groq/llama hi", "its provider groq", {}),
        ("opencode run -m openai/gpt-5 hi", "", {}),
        ("opencode run hi", "its provider groq", {".config/opencode/opencode.jsonc": _COMMENTED}),
        ("opencode run hi", "its provider groq", {"project/opencode.jsonc": _COMMENTED}),
        ("opencode run hi", "", {"opencode.jsonc": _COMMENTED, "project/.git": ""}),  # beyond the repository
        ("kilo run hi", "its provider groq", {"project/below/.kilo/kilo.jsonc": _COMMENTED}),
        ("kilo run hi", "", {"project/kilo.jsonc": _COMMENTED, "project/below/kilo.json": {"model": "openai/gpt-5"}}),
        ("aider --model gemini/gemini-2.5-pro", "gemini/gemini-2.5-pro", {}),
        ("aider --model sonnet", "", {}),
        ("crush run hi", "provider mine", {".config/crush/crush.json": {"providers": {"mine": {"base_url": "http"}}}}),
        ("crush run hi", "", {}),
        ("npx cline hi", "its provider cline", {}),
        ("vibe -p hi", "its provider lab", {".vibe/config.toml": _VIBE}),
        ("grok -p hi", "without XAI_API_KEY its login", {}),
        ("kilo run -m kilo/auto hi", "its provider kilo", {}),
        ("kilocode run -m anthropic/claude hi", "", {}),
        ("kimi -p hi", "its provider m", {".kimi-code/config.toml": _KIMI}),
        ("kimi -p hi -m other", "", {".kimi-code/config.toml": _KIMI}),
        ("droid exec hi", "but for custom", {}),
        ("droid exec -m custom:mine-0 hi", "but for custom", {".factory/config.json": {"custom_models": [{}]}}),
        ("droid exec -m custom:mine-0 hi", "", {".factory/settings.json": {"customModels": [{}]}}),
    ],
)
def test_what_goes_past_is_said(
    command: str, why: str, files: dict[str, object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client whose requests won't take the run's path says so in one line, and only then."""
    for name, content in files.items():
        written(tmp_path / name, content)
    program, *arguments = command.split()
    with contextlib.chdir(written(tmp_path / "project" / "below" / "x", "").parent):
        led(program, *arguments, folder=tmp_path, HOME=str(tmp_path))
    said = capfd.readouterr().err
    assert why in said if why else not said
    assert said.count("\n") == (said.count("requests go past HiveMind: ") == 1)


_WRONG = ("", "{", "[1]", _ODD, _ODD_LOGIN, _KIMI.replace('"kimi"', "[1]") + "api_key = 1", "[" * 9999)


@pytest.mark.parametrize("content", [*_WRONG, os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("program", PROGRAMS)
def test_settings_that_are_no_settings_stop_no_client(program: str, content: object, tmp_path: Path) -> None:
    """The client starts, and says itself what is wrong with them. A pipe that nobody writes to isn't waited for."""
    files = (".cline/data/settings/providers.json", ".qwen/settings.json", ".gemini/settings.json", ".codex/auth.json")
    more = (".config/crush/crush.json", ".config/opencode/opencode.json", ".pi/agent/models.json", ".vibe/config.toml")
    last = (".kimi-code/config.toml", ".factory/settings.json", ".codex/config.toml")
    for name in (*files, *more, *last):
        written(tmp_path / name, content)
    led(program, "hi", HOME=str(tmp_path), OPENCODE_CONFIG_CONTENT=str(content), VIBE_PROVIDERS=str(content))


def test_no_file_of_the_working_directory_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a HOME the home is what the system says, as for the clients; where it says nothing, there is none."""
    assert home({}) == home({"HOME": "."}) == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setattr(pwd, "getpwuid", lambda user: {}[user])
    assert home({}) == os.devnull


def test_codex_with_a_provider_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """config.toml may name one, above its tables; a ChatGPT login's token isn't sent to an OpenAI upstream."""
    written(tmp_path / "auth.json", _CHATGPT)
    call = led("codex", "exec", "hello", CODEX_HOME=str(tmp_path))
    assert [word for word in call.arguments if "openai" in word] == []
    (tmp_path / "config.toml").write_text('model_provider = "mine" # mine\n[profiles.x]\nmodel_provider = "other"\n')
    led("codex", "exec", "hello", CODEX_HOME=str(tmp_path))
    assert capfd.readouterr().err.splitlines()[1].endswith("they go to its provider mine")


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
    variables = {name: NAMED for name in ("ANTHROPIC_API_BASE", "OLLAMA_API_BASE")}
    variables |= {name: f"{NAMED}/v1" for name in ("OPENAI_API_BASE", "AIDER_OPENAI_API_BASE")}
    call = led("aider", "--yes", folder=tmp_path)
    assert call.arguments == ["--yes"]
    assert dotenv_values(call.environ["AIDER_ENV_FILE"]) == variables
    mine = tmp_path / "mine.env"
    mine.write_text("OPENAI_API_KEY=k\nOPENAI_API_BASE=https://elsewhere")
    for words in (["--env-file", str(mine)], [f"--env-file={mine}"]):
        call = led("aider", *words, "--yes", folder=tmp_path)
        path = call.environ["AIDER_ENV_FILE"]
        assert call.arguments == [*(word.replace(str(mine), path) for word in words), "--yes"]
        assert dotenv_values(path) == {**variables, "OPENAI_API_KEY": "k"}
        again = led("aider", *call.arguments, folder=tmp_path, AIDER_ENV_FILE=path)
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
        *((line, line) for line in ("npx cowsay codex", "npm install -g @openai/codex", "npm run codex", "npx")),
        *((line, line) for line in ("uv tool install codex", "npm exec", "codexx exec")),
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
