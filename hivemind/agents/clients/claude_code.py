"""Claude Code: https://code.claude.com/docs/en/settings"""

from __future__ import annotations

from hivemind.agents.clients.arguments import Syntax, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client

_VARIABLE = "ANTHROPIC_BASE_URL"
_FLAG = "--settings"


def _flags(call: Call) -> None:
    """Give it settings, with the user's own: `env` of a settings.json overrides variables, and this overrides that."""
    given, rest = _taken_out(call.arguments)
    if given is None and not call.token and not set('"\\').intersection(call.base):
        call.arguments[:0] = [_FLAG, f'{{"env": {{"{_VARIABLE}": "{call.base}"}}}}']
        return
    import json  # takes as long as all else here

    settings: object = {}
    if given is not None:
        try:
            if given.lstrip().startswith("{"):
                settings = json.loads(given)
            else:
                with open(given, encoding="utf-8") as file:
                    settings = json.load(file)
        except (OSError, ValueError):
            return  # Claude Code itself says what is wrong with them
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        return
    settings["env"] = {**settings.get("env", {}), _VARIABLE: call.base}
    text: str | None = json.dumps(settings)
    if call.token or given is not None:  # they may hold secrets, and other users can read command lines
        text = call.kept("claude.json", json.dumps(settings))
    if text is not None:
        call.arguments[:] = [_FLAG, text, *rest]


def _taken_out(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of the last --settings, and the arguments without it."""
    given: str | None = None
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == _FLAG:
            given = next(words, None)
        elif word.startswith(_FLAG + "="):
            given = word.partition("=")[2]
        else:
            rest.append(word)
    return given, rest


_SYNTAX = Syntax(
    values="--agent --agents --append-system-prompt --append-system-prompt-file --debug-file --effort --fallback-model"
    " --input-format --json-schema --max-budget-usd --max-thinking-tokens --max-turns --model -n --name --output-format"
    " --permission-mode --permission-prompt-tool --plugin-dir --plugin-url --remote-control-session-name-prefix"
    " --session-id --setting-sources --settings --system-prompt --system-prompt-file",
    maybe="-d --debug --from-pr --prompt-suggestions --remote-control -r --resume -w --worktree",
    lists="--add-dir --allowedTools --allowed-tools --betas --disallowedTools --disallowed-tools --file --mcp-config"
    " --tools",
    flags="-p --print -c --continue --verbose --fork-session --dangerously-skip-permissions --bare --brief --ide"
    " --allow-dangerously-skip-permissions --include-partial-messages --include-hook-events --strict-mcp-config"
    " --replay-user-messages --disable-slash-commands --no-session-persistence --safe-mode --chrome --no-chrome",
    commands="agents auth auto-mode doctor gateway install mcp plugin plugins project setup-token ultrareview"
    " update upgrade",
)
"""`claude --help` of 2.1."""
_OTHER_SESSION = frozenset(("-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr"))


def _prompt(call: Call) -> str:
    return prompt_in(split(call.arguments, _SYNTAX))


def _resume(call: Call, session: str) -> str | None:
    words = split(call.arguments, _SYNTAX)
    prompt = prompt_in(words)
    if prompt in _SYNTAX.commands:
        return f"`claude {prompt}` has no session"
    if has(words, "--no-session-persistence"):
        return "--no-session-persistence keeps no session"
    if not _kept(call, session):
        return f"it keeps no session {session} any more"
    arguments = [*options(words, _OTHER_SESSION), "--resume", session]
    streams = any(each.name == "--input-format" and each.value == "stream-json" for each in words)
    alone = has(words, "-p", "--print") or not call.terminal
    if not streams and (alone or prompt):
        arguments.append(GO_ON)
        call.no_input = alone
    call.arguments[:] = arguments
    return None


def _kept(call: Call, session: str) -> bool:
    """Return whether there is the file of a session: https://code.claude.com/docs/en/claude-directory"""
    import os

    home = call.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(call.environ.get("HOME", ""), ".claude")
    try:
        with os.scandir(os.path.join(home, "projects")) as folders:
            return any(os.path.exists(os.path.join(each.path, f"{session}.jsonl")) for each in folders)
    except OSError:
        return False


_CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY")


def _past(call: Call) -> str:
    cloud = next((each for each in _CLOUDS if call.environ.get(f"CLAUDE_CODE_USE_{each}", "0") not in ("", "0")), "")
    return f"CLAUDE_CODE_USE_{cloud} is set" if cloud else ""


CLIENT = Client("claude-code", "claude", flags=_flags, resume=_resume, prompt=_prompt, past=_past)
