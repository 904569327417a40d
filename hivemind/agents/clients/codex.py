"""Codex, which reads no variable for its base URL: https://developers.openai.com/codex/config-advanced"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, Word, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client, has_file, home, read_json, read_text
from hivemind.setup.routes import codex_settings

_PROVIDER = "model_providers.hivemind"


def _flags(call: Call) -> None:
    """Add flags before the user's, because the last one holds. A ChatGPT login is for another service than an OpenAI
    upstream, so its token isn't sent there."""
    settings = [] if _chatgpt(call) else [*codex_settings(call.named, token=call.token)]
    if not call.token:
        # The provider of `hivemind setup codex`, which config.toml may name, with another agent's name in its URL.
        settings += [f"{_PROVIDER}.name=HiveMind", f"{_PROVIDER}.base_url={call.named}/v1"]
    call.arguments[:0] = [word for setting in settings for word in ("-c", setting)]


def _home(call: Call) -> str:
    return call.environ.get("CODEX_HOME") or os.path.join(home(call.environ), ".codex")


def _chatgpt(call: Call) -> bool:
    """Return whether Codex signs in with a ChatGPT account (`auth.json`, 0.171), which takes precedence of
    OPENAI_API_KEY."""
    if call.environ.get("CODEX_API_KEY"):
        return False
    login = read_json(_home(call), "auth.json")
    mode = login.get("auth_mode")
    return mode.startswith("chatgpt") if isinstance(mode, str) else bool(login.get("tokens"))


def _provider(call: Call) -> str:
    """Return the provider that holds; empty: the built-in one."""
    named = ""
    try:
        lines = [line.strip() for line in read_text(f"{_home(call)}/config.toml").split("\n")]
    except (OSError, ValueError):
        lines = []
    words = [each.value for each in split(call.arguments, _SYNTAX) if each.name in ("-c", "--config")]
    tables = next((number for number, line in enumerate(lines) if line.startswith("[")), len(lines))
    for line in (*lines[:tables], *words):
        key, equals, value = line.partition("=")
        if equals and key.strip() == "model_provider":
            named = value.partition("#")[0].strip().strip("\"'")
    return named


def _past(call: Call) -> str:
    if _parts(call)[1] in _SYNTAX.commands - {"fork", "review"}:
        return ""
    provider = _provider(call)
    if provider == "hivemind":
        return ""
    if provider not in ("", "openai") or "--oss" in call.arguments:
        return f"they go to its provider {provider or 'for --oss'}"
    return "its ChatGPT login is for a service of its own" if _chatgpt(call) else ""


_SYNTAX = Syntax(
    values="-a --ask-for-approval --add-dir -c --config -C --cd --color --cyber-access-program --disable --enable"
    " --local-provider -m --model -o --output-last-message --output-schema -p --profile --remote"
    " --remote-auth-token-env -s --sandbox --thread-source",
    lists="-i --image",
    flags="--json --full-auto --oss --search --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --yolo"
    " --dangerously-bypass-hook-trust --strict-config --worktree --trust --ephemeral --ignore-user-config"
    " --ignore-rules --approve-for-me --no-alt-screen --last --all --include-non-interactive",
    commands="a agents app-server apply archive cloud completion debug delete doctor exec-server features"
    " fork help login logout mcp migrate-nfs-db migrate-rollouts plugin queue remote-control review"
    " sandbox unarchive update",
)
"""`codex --help` and `codex exec --help` of 0.169."""
_OTHER_SESSION = frozenset(("-i", "--image", "--last", "--all", "--include-non-interactive"))
"""With the images of the original prompt."""
_EXEC = ("exec", "e")


def _parts(call: Call) -> tuple[list[Word], str, list[Word]]:
    """Return what stands before the command, the command (empty: Codex itself), and what follows it."""
    words = split(call.arguments, _SYNTAX)
    at = next((at for at, each in enumerate(words) if not each.name), len(words))
    command = words[at].value if at < len(words) else ""
    if command not in (*_EXEC, "resume", *_SYNTAX.commands):
        return [], "", words
    before, after = words[:at], words[at + 1 :]
    if command in _EXEC or command == "resume":
        at = next((at for at, each in enumerate(after) if not each.name), len(after))
        if command == "resume" or (at < len(after) and after[at].value == "resume"):
            # What it resumed then is the same session.
            del after[at : at + (command != "resume")]
            named = [at for at, each in enumerate(after) if not each.name]
            del after[slice(*((named[0], named[0] + 1) if named and not has(after, "--last") else (0, 0)))]
        elif at < len(after) and after[at].value in ("fork", "review", "help"):
            command = f"{command} {after[at].value}"
    return before, command, after


def _prompt(call: Call) -> str:
    found = prompt_in(_parts(call)[2])
    return "" if found == "-" else found


def _resume(call: Call, session: str) -> str | None:
    before, command, after = _parts(call)
    if command not in ("", *_EXEC, "resume"):
        return f"`codex {command}` has no session"
    if has(after, "--ephemeral"):
        return "--ephemeral keeps no session"
    if not has_file(os.path.join(_home(call), "sessions"), f"{session}.jsonl", f"{session}.jsonl.zst"):
        return f"it keeps no session {session} any more"
    alone = command in _EXEC
    prompt = [GO_ON] if alone or prompt_in(after) else []
    call.no_input = alone
    kept = [*options(before), *(["exec"] if alone else []), *options(after, _OTHER_SESSION)]
    call.arguments[:] = [*kept, "resume", session, *prompt]
    return None


CLIENT = Client("codex", "codex", flags=_flags, resume=_resume, prompt=_prompt, past=_past)
