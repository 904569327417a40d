"""A proxy elsewhere may be anybody's: whatever it says, a terminal gets nothing to obey."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from commands.kit import desk, started
from control.kit import TOKEN

from hivemind.cli.main import main
from hivemind.console import Guarded, json_text
from hivemind.control.proof import PATH
from hivemind.scheduler.commands import BeginAgent, ClaimTask, FinishTask, SetBudget, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind_mock.provider.serve import serving

EVIL = "\x1b]0;x\x07\x1b[2J\r\x9b31m\u202e\u200b\x00\n\x1b[31mhivemind: fine"
KEPT = frozenset({"priority", "per", "covers", "state", "kind", "mode", "on_failure"})
"""Fields with values of a few kinds, without which an answer is refused as a whole."""
LOOKING = ["status", "agents", "agents --tree", "tasks", "budget", "set"]
LINES = [
    *LOOKING,
    "tasks done lint",
    "tasks cancel other",
    "tasks submit more",
    "budget ann",
    "budget ann 5k",
    "budget --pool",
    "set rpm 20",
    "set priority ann high",
    "pause",
    "hold ann",
    "release ann",
    "stop ann",
    "resume",
    "resume ann",
]


def spoilt(value: Any, key: str = "") -> Any:
    """An answer of which every text is worse."""
    if isinstance(value, str):
        return value if key in KEPT else value + EVIL
    if isinstance(value, list):
        return [spoilt(each, key) for each in value]
    return {name: spoilt(each, name) for name, each in value.items()} if isinstance(value, dict) else value


App = Callable[[Any, Any, Any], Awaitable[None]]


def false(url: str, status: int | None) -> App:
    """Says what the proxy there says, spoilt; or fails with that status, in words."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        headers = [pair for pair in scope["headers"] if pair[0] not in (b"host", b"accept-encoding")]
        async with httpx.AsyncClient(timeout=60, trust_env=False, verify=False) as http:
            target = f"{url}{scope['path']}?{scope['query_string'].decode()}"
            answer = await http.request(scope["method"], target, content=body, headers=headers)
        told, code = (
            (spoilt(answer.json()), answer.status_code) if status is None else ({"error": f"no {EVIL}"}, status)
        )
        if scope["path"] == PATH:  # else nothing more is asked
            told, code = answer.json(), answer.status_code
        body = json.dumps(told).encode()
        await send({"type": "http.response.start", "status": code, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return app


def texts(value: Any) -> Iterator[str]:
    """All of them, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value:
            yield from texts(each)
        if isinstance(value, dict):
            yield from texts(list(value.values()))


def controls(text: str) -> str:
    """What of it isn't to be shown."""
    return "".join(letter for letter in text if letter != "\n" and not letter.isprintable())


@pytest.mark.parametrize("status", [None, 422, *(pytest.param(each, marks=pytest.mark.slow) for each in (401, 500))])
async def test_nothing_a_terminal_obeys(
    tmp_path: Path, status: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command prints a control character, a change of direction or a line of somebody else's, whether it succeeds or
    fails; in JSON every text is whole."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"HIVEMIND_CONTROL_TOKEN": TOKEN, "COLUMNS": "200", "HIVEMIND_STATE_DIR": "state"}.items():
        monkeypatch.setenv(name, value)
    async with desk(tmp_path) as at:
        steer = at.proxy.proxy.apply
        steer(SetBudget("ann", 10, covers="subtree"), "test")
        steer(SetBudget(None, 2000), "test")
        steer(BeginAgent("ann.helper", parent="ann", task="lint"), "test")
        steer(SubmitTasks((TaskSpec("lint"), TaskSpec("other", after=("lint",)), TaskSpec("bad"))), "test")
        steer(ClaimTask("bad"), "test")
        steer(FinishTask("bad", ok=False, note="why"), "test")
        async with serving(false(at.proxy.url, status)) as url:
            monkeypatch.setenv("HIVEMIND_URL", url)
            for line in LINES if status is None else LOOKING:
                for more in ([], ["--json"]):
                    code = await asyncio.to_thread(main, [*line.split(), *more])
                    out, err = capsys.readouterr()
                    assert (line, controls(out), controls(err)) == (line, "", "")
                    assert not any(each.startswith("[31m") for each in (out + err).splitlines()), line
                    assert (code == 0) == (status is None) or line not in LOOKING, (line, err)
                    if more and code == 0 and line in LOOKING:
                        assert EVIL in "".join(texts(json.loads(out))), line


@pytest.mark.e2e
async def test_a_run_at_a_false_proxy(tmp_path: Path) -> None:
    """Nor does what tells of an agent's end."""
    async with desk(tmp_path) as at, serving(false(at.proxy.url, None)) as url:
        environ = {"HIVEMIND_URL": url, "HIVEMIND_CONTROL_TOKEN": TOKEN}
        ended = await started(tmp_path, "run", "--name", "dora", "--", "true", **environ)
        assert (controls(ended.out), controls(ended.err)) == ("", "")
        assert not any(each.startswith("[31m") for each in ended.err.splitlines())


def test_streams() -> None:
    """What is ours passes on a terminal, line ends and tabs everywhere, and nothing else; whole letters stay."""
    for terminal in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal  # type: ignore[method-assign, misc]
        guarded = Guarded(stream)
        guarded.write("\x1b[31ma\tb\x1b[0m\r\n")
        guarded.write(f"\r\x1b[K\x1b[2F\x1b[Jx {EVIL}\u00a0\u00e9\U0001f600")
        shown = stream.getvalue()
        assert ("\x1b[31ma\tb\x1b[0m\r\n" in shown) == terminal
        assert shown.endswith(
            "]0;x??[2J??31m???\n" + ("\x1b" if terminal else "?") + "[31mhivemind: fine\u00a0\u00e9\U0001f600"
        )
        assert "\x1b[2J" not in shown


def test_json_is_whole() -> None:
    """What isn't printable is written as an escape."""
    value = {"a\u202e": [EVIL, "\U000e0041 \u00e9\u00a0"]}
    text = json_text(msgspec.json.encode(value))
    assert json.loads(text) == value
    assert controls(text.replace("\u00a0", " ")) == ""
