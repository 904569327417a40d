"""`hivemind checkpoints`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from agents.kept import AT, BODY, keep
from program import called
from trusted import trusted_settings

from hivemind.cli.agents.checkpoint import facts, table, transcript
from hivemind.store.checkpoints import ClientSession, folder_in, listed, read

PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith("HIVEMIND")}


def run(folder: Path, *args: str, **environ: str) -> tuple[int, str, str]:
    """Started in that folder, where its state is too unless told otherwise: exit code, output, errors."""
    told = {**PLAIN, "HIVEMIND_STATE_DIR": str(folder), "TZ": "UTC", **environ}
    ended = called(folder, ["checkpoints", *args], {key: value for key, value in told.items() if value})
    return ended.code, ended.out, ended.err


def test_listed(tmp_path: Path) -> None:
    """A row each, the newest first; what can't be read is a line each on standard error."""
    keep(tmp_path, "alice")
    keep(tmp_path, "bob/sub", AT + 60, None, command=(), left_out="it asked for nothing", task=None, tasks=())
    (folder_in(tmp_path) / "notes.txt").write_text("buy milk")
    code, out, errors = run(tmp_path)
    heads, first, second = out.splitlines()
    assert code == 0
    assert heads.split() == ["CHECKPOINT", "AGENT", "WHEN", "BY", "TOKENS", "COST", "SIZE", "TASK", "COMMAND"]
    assert first.split()[1] == "bob/sub"
    assert first.split()[-1] == "B"
    assert second.split()[1] == "alice"
    assert "budget" in second
    assert second.split()[-2:] == ["n.lint", "known"]
    assert errors == "hivemind: notes.txt: isn't a checkpoint, or only a part of one\n"


def test_listed_as_json(tmp_path: Path) -> None:
    """All fields, without the conversations."""
    path = keep(tmp_path)
    code, out, errors = run(tmp_path, "--json")
    (row,) = json.loads(out)
    assert (code, errors) == (0, "")
    assert (row["agent"], row["run"]["tokens"], row["bytes"]) == ("alice", 120, path.stat().st_size)
    assert "conversation" not in row


def test_none(tmp_path: Path) -> None:
    """There are none, which is no error."""
    assert run(tmp_path) == run(tmp_path, "list") == (0, f"no checkpoints in {tmp_path}/checkpoints\n", "")
    assert run(tmp_path, "--json") == (0, "[]\n", "")


@pytest.mark.parametrize("name", ["alice", None])
def test_shown(tmp_path: Path, name: str | None) -> None:
    """By its own name or its agent's, with everything in it, the conversation too."""
    path = keep(tmp_path)
    code, out, errors = run(tmp_path, "show", name or path.stem)
    assert (code, errors) == (0, "")
    for told in (
        *(path.stem, "alice, started by boss", "its budget is used up"),
        "120 tokens, $0.50 in its last run; 1,120 tokens, $4.50 (and 20 tokens without a known price) in all",
        "alice's budget: 120 of 100 tokens used this run",
        *("n.lint is running, high priority; attempt 1; n.test waits for it", "  exit code 1", "agent --go", "/work"),
        *("POST /v1/messages to lab by claude-code for m", "user: hi there"),
    ):
        assert told in out


def test_shown_as_json(tmp_path: Path) -> None:
    """The whole file, and the conversation alone, byte for byte."""
    path = keep(tmp_path)
    assert json.loads(run(tmp_path, "show", "alice", "--json")[1]) == json.loads(path.read_bytes())
    assert run(tmp_path, "show", "alice", "--conversation") == (0, BODY.decode() + "\n", "")


def test_without_a_conversation(tmp_path: Path) -> None:
    """It is said why there is none."""
    keep(tmp_path, body=None, left_out="it was too large")
    assert "not kept: it was too large" in run(tmp_path, "show", "alice")[1]
    code, out, errors = run(tmp_path, "show", "alice", "--conversation")
    assert (code, out) == (1, "")
    assert errors.endswith("holds no conversation: it was too large\n")
    assert json.loads(run(tmp_path, "show", "alice", "--json")[1])["conversation"] is None


SAY = "say `hivemind checkpoints`, `hivemind checkpoints show NAME` or `hivemind checkpoints prune`"


NAMES = "no checkpoint, and no agent with one, has that name; there are checkpoints of alice"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["show", "carol"], f"carol: {NAMES}"),
        (["prune", "eve"], f"eve: {NAMES}"),
        *((words, SAY) for words in (["show"], ["alice"], ["show", "a", "b"])),
        (["--conversation"], "--conversation: goes with show, and without --json"),
        (["prune", "alice", "--conversation"], "--conversation: goes with show, and without --json"),
        (["--jsn"], "--jsn: no such flag; did you mean --json?"),
    ],
)
def test_wrong(tmp_path: Path, args: list[str], says: str) -> None:
    """One line, exit code 2, and nothing is removed."""
    keep(tmp_path)
    assert run(tmp_path, *args) == (2, "", f"hivemind: {says}\n")
    assert len(listed(folder_in(tmp_path))[0]) == 1


def test_where_it_looks(tmp_path: Path) -> None:
    """The state directory of the flag, the variable, the file, in this order, then the system's."""
    for agent in ("flag", "variable", "file", "system"):
        keep(tmp_path / agent if agent != "system" else tmp_path / "hivemind", agent)
    system = {"HIVEMIND_STATE_DIR": "", "XDG_STATE_HOME": str(tmp_path)}
    assert json.loads(run(tmp_path, "--json", **system)[1])[0]["agent"] == "system"
    trusted_settings(tmp_path, f'state_dir = "{tmp_path}/file"\n', {"XDG_STATE_HOME": str(tmp_path)})
    assert json.loads(run(tmp_path, "--json", **system)[1])[0]["agent"] == "file"
    variable = {"HIVEMIND_STATE_DIR": str(tmp_path / "variable")}
    assert json.loads(run(tmp_path, "--json", **variable)[1])[0]["agent"] == "variable"
    flag = ("--state-dir", str(tmp_path / "flag"))
    assert json.loads(run(tmp_path, "--json", *flag, **variable)[1])[0]["agent"] == "flag"


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    """One line, no traceback."""
    folder_in(tmp_path).write_text("in the way")
    assert run(tmp_path) == (1, "", f"hivemind: {folder_in(tmp_path)}: can't be read (Not a directory)\n")


def test_names_that_would_upset_a_terminal(tmp_path: Path) -> None:
    """Nothing but printable text comes out for people, and keys in a command are masked."""
    body = json.dumps({"messages": [{"role": "user", "content": "bell \x07 and \x1b[2J"}]}).encode()
    keep(tmp_path, "bad\x1b[31m", body=body, command=("agent", "--api-key=verysecret1"), cwd="/tmp/\x1b")
    for args in ((), ("show", "bad\x1b[31m"), ("show", "bad\x1b")):
        _, out, errors = run(tmp_path, *args)
        assert "\x1b" not in out + errors
        assert "verysecret1" not in out + errors


def test_a_narrow_terminal(tmp_path: Path) -> None:
    """The table does without what matters least, and never without name and agent."""
    keep(tmp_path)
    found, _ = listed(folder_in(tmp_path))
    for room in (100, 80, 60):
        assert max(map(len, table(found, AT, room))) <= room
    assert table(found, AT, 10)[0].split() == ["CHECKPOINT", "AGENT"]


def test_a_signal(tmp_path: Path) -> None:
    """A process that was killed is told so."""
    kept = keep(tmp_path, exit_code=-9, session=ClientSession("codex", "s-1"))
    text = "\n".join(facts(read(kept), time.time()))
    assert "session      s-1 of codex" in text
    assert "killed by SIGKILL" in text


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (
            {
                "system": [{"type": "text", "text": "be kind"}],
                "messages": [
                    {"role": "user", "content": "hi\nthere"},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "text", "text": "I look"},
                            {"type": "tool_use", "id": "t", "name": "ls", "input": {"path": "/"}},
                        ],
                    },
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "bin"}]},
                ],
            },
            [
                *("system: be kind", "user: hi", "  there", "assistant: I look"),
                '  [tool_use] {"id":"t","name":"ls","input":{"path":"/"}}',
                'user: [tool_result {"tool_use_id":"t"}] bin',
            ],
        ),
        (
            {
                "instructions": "be kind",
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                    {"type": "function_call", "name": "ls", "arguments": "{}"},
                ],
            },
            ["system: be kind", "user: hi", 'function_call: [function_call {"name":"ls"}] {}'],
        ),
        ({"input": "hi"}, ["user: hi"]),
        ({"prompt": "once", "model": "m"}, ["user: once"]),
        (
            {"contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"data": "x"}}]}]},
            ["user: hi", '  {"inlineData":{"data":"x"}}'],
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}]},
            ['assistant: {"content":null,"tool_calls":[{"id":"c"}]}'],
        ),
        ([1, 2], ["[", "  1,", "  2", "]"]),
        ({"messages": 3}, ["{", '  "messages": 3', "}"]),
    ],
)
def test_transcript(body: object, lines: list[str]) -> None:
    """Conversations of every API read the same way, and nothing in them is lost."""
    assert transcript(json.dumps(body).encode()) == lines


def test_prune(tmp_path: Path) -> None:
    """The newest of each agent stays; any goes by its own name."""
    now = time.time()
    for agent, days in (("alice", 1), ("alice", 9), ("alice", 30), ("bob", 40), ("carol", 2)):
        keep(tmp_path, agent, now - days * 86400)

    def left() -> list[tuple[str, int]]:
        found, _ = listed(folder_in(tmp_path))
        return [(each.checkpoint.agent, round((now - each.checkpoint.at) / 86400)) for each in found]

    assert run(tmp_path, "prune", "bob")[1] == "nothing to remove; 5 are left\n"
    code, out, _ = run(tmp_path, "prune", "--json", "alice")
    assert (code, len(json.loads(out)["removed"]), json.loads(out)["left"]) == (0, 2, 3)
    assert left() == [("alice", 1), ("carol", 2), ("bob", 40)]
    name = listed(folder_in(tmp_path))[0][0].checkpoint.name
    assert run(tmp_path, "prune", name)[1].endswith("; 2 are left\n")
    keep(tmp_path, "bob", now)
    code, out, _ = run(tmp_path, "prune")
    assert (code, out.startswith("removed 1 checkpoint ("), out.endswith("; 2 are left\n")) == (0, True, True)
    assert left() == [("bob", 0), ("carol", 2)]
