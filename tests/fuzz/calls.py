"""What agents, operators and tools ask a proxy for: each request is understood in one way, or refused in one line."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from fuzz.kit import choices, require, target

from hivemind.agent_names import LONGEST, KnownNames, normalised, same
from hivemind.errors import UsageError
from hivemind.host.proxy import Kept, Proxy
from hivemind.providers.clients import client_of
from hivemind.providers.profiles import PROFILES
from hivemind.redaction.text import holds_key, mask_arguments
from hivemind.scheduler.invariants import violations
from hivemind.scheduler.types import Priority
from hivemind.settings import Settings
from hivemind.settings.checks import checked_as
from hivemind.settings.load import load
from hivemind.settings.options import options
from hivemind.settings.sections import AgentSettings
from hivemind.store.token_file import ControlKey
from hivemind.tools.access import Caller, LocalAccess
from hivemind.tools.server import TOOLS, call_tool
from hivemind.wire.identity import Claims, claimed_name, fingerprint, identify, lane_credential
from hivemind.wire.request_head import RequestRefused, parse_path

_LOOP = asyncio.new_event_loop()
_FOLDER = tempfile.TemporaryDirectory(prefix="hivemind-fuzz-")
SECRET = "sk-ant-api03-canary0000000000"
_SHOWN = re.compile(rf"(?<![A-Za-z0-9]){SECRET}")

# --- Who sends a request ----------------------------------------------------------------------------------------------

_OWN = "token-of-bob-and-nobody-else"
_BOUND = checked_as(AgentSettings, {"credentials": {"bob": _OWN}, "highest_priority": "normal"})


@target(
    "identity",
    [
        *(b"/agent/", b"/agent/bob/", b"/agent/B%C3%B6b/", b"/token/", _OWN.encode(), b"x-hivemind-agent: "),
        b"bob/sub",
        *(b"x-hivemind-priority: critical\n", b"session-id: ", b"x-claude-code-session-id: "),
        b"x-codex-parent-thread-id: ",
        *(b"authorization: Bearer ", b"x-api-key: ", b"?key=", b"user-agent: claude-cli/2\n", b"\xef\xbc\xa2", b"%2f"),
        b"%E2%80%8B",
        *(b"x-claude-code-agent-id: ", b"x-stainless-timeout: ", b"x-stainless-retry-count: ", b"run.Ym9i."),
    ],
)
def identity(data: bytes) -> None:
    """A name is one that is valid, and belongs to whoever may use it; the same request has the same sender again."""
    head, _, session = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    raw_path, _, query = first.partition(b"?")
    path = parse_path(b"/" + raw_path)
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    by_name = dict(reversed(headers))
    claims = Claims(KnownNames(), _BOUND, b"token-of-all-agents")
    proven = None if path.token is None else claims.agent_of(path.token.encode("utf-8", "surrogatepass"))
    client = client_of(headers)
    for profile in PROFILES.values():
        require(len(lane_credential(headers, query, profile)) <= 9, "not a lane's credential")
    found = None
    for _ in range(2):
        try:
            who = identify(
                claims,
                client,
                session[:100].decode("utf-8", "replace"),
                name=claimed_name(by_name, path.agent),
                credential=fingerprint(by_name, query),
                priority=by_name.get(b"x-hivemind-priority"),
                proven=proven,
            )
        except RequestRefused as refused:
            require(found is None, "refused the second time", found)
            require(str(refused).isprintable(), "not a line", str(refused))
            require(not holds_key(str(refused).partition("token: ")[0]), "a key is repeated", str(refused))
            return
        require(found is None or who == found, "another one the second time", found, who)
        found = who
    if found is None:
        return
    require(len(found.agent) <= LONGEST, "too long", found)
    require(found.priority is None or found.priority >= Priority.NORMAL, "more urgent than allowed", found)
    if found.named:
        require(normalised(found.agent) == found.agent, "not a name", found)
    mine = same(found.agent.partition("/")[0], "bob")
    require(not mine or proven is not None, "bob's name without his token", found)
    require(proven is None or mine, "bob's token with another name", found)


# --- Settings ---------------------------------------------------------------------------------------------------------

_FLAGS = tuple(option.flag.encode() for option in options())


@target(
    "settings_given", [*_FLAGS, *(option.variable.encode() + b"=" for option in options()), SECRET.encode(), b"1e9"]
)
def settings_given(data: bytes) -> None:
    """A line is a variable, `NAME=VALUE`, or else a word of the command line."""
    argv, environ = list[str](), dict[str, str]()
    for line in data.decode("utf-8", "replace").split("\n"):
        if line.upper().startswith("HIVEMIND_") and "=" in line:
            name, _, value = line.partition("=")
            environ[name] = value.replace("\0", "")
        elif line:
            argv.append(line)
    if any("config" in each.lower() for each in (*argv, *environ)) or {"-h", "--help"} & set(argv):
        return  # it reads another file, or prints
    try:
        load(argv, environ=environ, cwd=Path(_FOLDER.name)).origins()
    except UsageError as error:
        told = mask_arguments(str(error), argv)  # as programs do
        require(len(told) < 4000, "not a line", told)
        require(not _SHOWN.search(told), "a secret is repeated", told)


# --- The control API and the tools ------------------------------------------------------------------------------------

_TOKEN = "control-token-of-the-fuzzer"


async def _proxy() -> Proxy:
    proxy = Proxy(
        Settings(upstream=("up=http://127.0.0.1:9",)),
        rng=random.Random(1),
        wall=lambda: 1.8e9,
        settings_file=Path(_FOLDER.name) / "hivemind.toml",
    )
    proxy.control_key = ControlKey("run-1", _TOKEN)
    await proxy.start(Kept(checkpoints=Path(_FOLDER.name) / "checkpoints"))
    return proxy


def _sound(proxy: Proxy) -> None:
    broken = list(violations(proxy.engine._scheduler, proxy.engine.now()))
    require(not broken, "invariants are broken", broken[:3])
    msgspec.json.encode(proxy.snapshot())


async def _asked(proxy: Proxy, method: str, path: str, query: bytes, body: bytes) -> tuple[int, bytes]:
    """Ask as an operator. Return the status and the answer."""
    said, statuses = bytearray(), list[int]()
    inputs: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(inputs, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        else:
            said.extend(message.get("body", b""))

    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "query_string": query, "root_path": "", "server": ("localhost", 1)},
        "headers": [(b"host", b"localhost"), (b"authorization", b"Bearer " + _TOKEN.encode())],
    }
    await proxy._control_app(scope, receive, send)
    return statuses[0], bytes(said)


@target(
    "control_bodies",
    [
        *(b"POST /commands ", b'{"name":"SubmitTasks","who":"o","arguments":{"tasks":[', b'"SetBudget"', b'"Tune"'),
        *(b"\n", b"POST /places ", b"POST /places/leave ", b"POST /tasks/claim ", b"POST /settings/draft "),
        *(b"GET /tasks?batch=", b"GET /snapshot?after=", b"GET /requests?since=", b"GET /checkpoints/"),
        *(b'"agent":"a"', b'"arguments":{', b"null", b'{"id":"t","after":["u"]}', b"1e308", b"-1", b'"running":true'),
        *(b'"command":["true"]', b"9223372036854775808", b'"EndTask"', b'"StopAgent"', b'"PauseAdmissions"'),
        *(b'"SetCircuit"', b'"ForgetBatch"', b'"RetryTask"', b'"task"'),
    ],
    longest=2048,
)
def control_bodies(data: bytes) -> None:
    """Each line is a request: it is answered in JSON, and whatever it changes, the scheduler stays consistent."""
    _LOOP.run_until_complete(_control(data))


async def _control(data: bytes) -> None:
    proxy = await _proxy()
    try:
        for line in data.split(b"\n")[:12]:
            method, _, rest = line.partition(b" ")
            path, _, body = rest.partition(b" ")
            path, _, query = path.partition(b"?")
            status, said = await _asked(
                proxy, "POST" if method == b"POST" else "GET", "/_control" + path.decode("latin-1"), query, body
            )
            require(status in (200, 400, 404, 405, 409, 413, 422), "not a status of the API's", status, said)
            answer = json.loads(said)
            if status != 200:
                require(set(answer) <= {"error", "bad_input"} and answer["error"].isprintable(), "not a line", answer)
                require(not holds_key(answer["error"].partition("token")[0]), "a key is repeated", answer)
            _sound(proxy)
    finally:
        await proxy.aclose()


@target(
    "tool_calls",
    [
        *(b"hm." + tool.verb.encode() + b" {" for tool in TOOLS),
        *(b'"agent":"a"', b'"tokens":', b'"tasks":[{"name":"t"}]', b'"after":["t"]', b'"outcome":"done"'),
        b'"batch":"b"',
        *(b'"action":"cancel"', b'"knob":"max_concurrency"', b'"value":', b'"remove":true', b'"priority":"low"'),
        b"null",
        *(b'"name":"t"', b'"task":"b.t"', b'"limit":', b"1e308", b'"pool":true', b'"circuit":"open"'),
        b'"client":"codex"',
    ],
    longest=2048,
)
def tool_calls(data: bytes) -> None:
    """Each line is a call: a tool answers, or says in one line what is wrong; none fails by a fault of its own."""
    _LOOP.run_until_complete(_tools(data))


async def _tools(data: bytes) -> None:
    (named,), rest = choices(data, 1)
    proxy = await _proxy()
    access, caller = LocalAccess(proxy), Caller("ann" if named % 2 else None)
    try:
        for line in rest.split(b"\n")[:12]:
            name, _, body = line.partition(b" ")
            try:
                arguments = json.loads(body)
            except (ValueError, RecursionError):
                continue
            if not isinstance(arguments, dict):
                continue
            result = await call_tool(access, caller, name.decode("latin-1"), arguments)
            text = "".join(getattr(each, "text", "") for each in result.content)
            require("a fault of HiveMind's own" not in text, "it fails", name, text)
            if not result.is_error:
                require(json.loads(text) == result.structured_content, "two answers", text)
            _sound(proxy)
    finally:
        await proxy.aclose()
