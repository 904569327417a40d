"""Claude Code: https://code.claude.com/docs/en/settings"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, has, options, prompt_in, set_values, split, value_of
from hivemind.agents.clients.facts import GO_ON, Call, Client, at, has_file, home, parse_json, read_json

_VARIABLE = "ANTHROPIC_BASE_URL"
_FLAG = "--settings"


def _flags(call: Call) -> None:
    """Give it settings, with the user's own: `env` of a settings.json overrides variables, and this overrides that."""
    given = value_of(call.arguments, _FLAG)
    if not given and not call.token and not set('"\\').intersection(call.base):
        call.arguments[:0] = [_FLAG, f'{{"env": {{"{_VARIABLE}": "{call.base}"}}}}']
        return
    import json  # takes as long as all else here

    settings = parse_json(given) if given.lstrip().startswith("{") else read_json(given, given=True)
    if (given.strip() not in ("", "{}") and not settings) or not isinstance(settings.get("env", {}), dict):
        return  # Claude Code itself says what is wrong with them
    text: str | None = json.dumps({**settings, "env": {**at(settings, "env"), _VARIABLE: call.base}})
    if call.token or given:  # they may hold secrets, and other users can read command lines
        text = call.kept("claude.json", str(text))
    if text is not None and given:
        set_values(call.arguments, text, _FLAG)
    elif text is not None:
        call.arguments[:0] = [_FLAG, text]


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
    folder = call.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home(call.environ), ".claude")
    if not has_file(os.path.join(folder, "projects"), f"{session}.jsonl"):
        return f"it keeps no session {session} any more"
    arguments = [*options(words, _OTHER_SESSION), "--resume", session]
    streams = any(each.name == "--input-format" and each.value == "stream-json" for each in words)
    alone = has(words, "-p", "--print") or not call.terminal
    if not streams and (alone or prompt):
        arguments.append(GO_ON)
        call.no_input = alone
    call.arguments[:] = arguments
    return None


_CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY")


def _past(call: Call) -> str:
    cloud = next((each for each in _CLOUDS if call.environ.get(f"CLAUDE_CODE_USE_{each}", "0") not in ("", "0")), "")
    return f"CLAUDE_CODE_USE_{cloud} is set" if cloud else ""


CLIENT = Client("claude-code", "claude", flags=_flags, resume=_resume, prompt=_prompt, past=_past)
