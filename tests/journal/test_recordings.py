"""Recordings that people have: logs of clients and gateways, and public traces, as journals.

`sessions/` holds what real clients wrote while a provider counted, cut down to the lines and fields that are read, with
CANARY in place of every text.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from journal.recordings import HERE

from hivemind.cli.main import main
from hivemind.journal.files import find
from hivemind.journal.importers import FORMATS, claude_code, codex
from hivemind.journal.importers.foreign import is_recording
from hivemind.journal.importers.looking_back import look_back
from hivemind.journal.importers.making import journal_of
from hivemind.journal.importers.sources import Shelf, Source, find_sources, tales_of
from hivemind.journal.importers.told import Tale, Told, moment
from hivemind.journal.index.player import Player
from hivemind.journal.read.reader import open_journal
from hivemind.lab.fit.limiter import TokenBucket
from hivemind.lab.simulate.recording import load
from hivemind.processes import can_fork
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage

SESSIONS = HERE / "sessions"
CODE, REFUSED, CODEX = (SESSIONS / name for name in ("claude-code-2.1.332-a", "claude-code-2.1.332-b", "codex-0.171.0"))
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
LITELLM: dict[str, Any] = {
    **{"request_id": "r1", "prompt_tokens": 100, "completion_tokens": 20, "model": "gpt-4o", "status": "success"},
    **{"startTime": "2026-11-28T10:00:00Z", "endTime": "2026-11-28T10:00:02Z", "end_user": "bob", "cache_hit": "False"},
    "completionStartTime": "2026-11-28T10:00:00.5Z",
    "metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 40}}},
}


def stats(tmp_path: Path, capsys: pytest.CaptureFixture[str], *source: str) -> tuple[dict[str, Any], str]:
    """Import, and return the figures, and all that was said."""
    assert main(["journal", "import", *source, "--state-dir", str(tmp_path), "--name", "it"]) == 0
    told = capsys.readouterr().err
    assert main(["journal", "stats", "it", "--json", "--state-dir", str(tmp_path)]) == 0
    return json.loads(capsys.readouterr().out), told


def events(tmp_path: Path) -> list[ev.Event]:
    """Those of the journal that was made."""
    return list(open_journal(find("it", tmp_path)).events())


@pytest.mark.parametrize(
    ("folder", "attempts", "requests", "answered", "failed", "left", "tokens", "dollars", "agents"),
    [
        # 13 attempts, five of them 429s and 529s, with a sub-agent, then resumed, then forked
        (CODE, 13, 8, 8, 0, 0, 155_463, 0.27744255, 3),
        # two sub-agents, one of which was refused twice; three 529s at last; one that was killed
        (REFUSED, 13, 9, 7, 1, 1, 122_376, 0.21862935, 5),
        # an answer that was refused once, and a sub-agent that was resumed
        (CODEX, 6, 6, 6, None, 0, 49_439, 0.06007300, 2),
    ],
    ids=["claude-code", "claude-code-refused", "codex"],
)
def test_real_sessions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    attempts: int,
    requests: int,
    answered: int,
    failed: int | None,
    left: int,
    tokens: int,
    dollars: float,
    agents: int,
) -> None:
    """Attempts, ends, tokens, dollars and agents are those that the provider counted, and nothing is counted twice."""
    found, _ = stats(tmp_path, capsys, str(folder))
    names = ("attempts", "requests", "answered", "failed", "left", "tokens", "agents")
    assert [found[name] for name in names] == [attempts, requests, answered, failed, left, tokens, agents]
    assert found["dollars"] == pytest.approx(dollars, abs=1e-8)


def test_a_tree_and_its_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sub-agents have their session as parent; each refusal has its status and the pause that followed."""
    _, told = stats(tmp_path, capsys, str(CODE))
    assert told.endswith("not recorded: rate limits; times to first token\n")
    found = events(tmp_path)
    arrived = {event.agent: event.parent for event in found if isinstance(event, ev.Arrived)}
    root = "claude-code-58a75961"
    assert arrived == {root: None, f"{root}/ab827a9b": root, "claude-code-4e711482": None}
    failed = [event for event in found if isinstance(event, ev.AttemptFailed)]
    assert [event.status for event in failed] == [429, 529, 529, 429, 529]
    assert [round(event.retry_in_s or 0, 1) for event in failed] == [1.3, 1.2, 2.2, 1.2, 0.7]
    assert not any(isinstance(event, ev.FirstContent) for event in found)


def test_one_session_of_a_fork(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file alone counts what it tells; a session's file brings those of its sub-agents."""
    (fork,) = CODE.glob("4e71*.jsonl")
    (first,) = CODE.glob("58a7*.jsonl")
    assert stats(tmp_path / "a", capsys, str(fork))[0]["attempts"] == 12
    assert stats(tmp_path / "b", capsys, str(first))[0]["agents"] == 2
    assert stats(tmp_path / "c", capsys, str(fork), str(first), str(CODE / "*.jsonl"))[0]["attempts"] == 13


def test_an_older_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without lines that begin attempts, an answer begins with what it follows, and a retry after its pause."""
    both = {"sessionId": "0b1c", "version": "2.0.1"}
    usage = {"input_tokens": 5, "cache_read_input_tokens": 12_000, "cache_creation_input_tokens": 300}
    message = {"id": "m", "model": "claude-sonnet-4-5", "content": "CANARY"}
    error = {"type": "system", "subtype": "api_error", "error": {"status": 529}, "retryInMs": 1000, "retryAttempt": 1}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u", "timestamp": "2026-11-28T10:00:00Z", "message": {"content": "CANARY"}},
        {**error, "uuid": "e", "timestamp": "2026-11-28T10:00:01Z"},
        *(
            {"type": "assistant", "uuid": f"a{n}", "timestamp": f"2026-11-28T10:00:0{n}Z"}
            | {"message": {**message, "usage": {**usage, "output_tokens": n * 20}}}
            for n in (4, 5)
        ),
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps({**line, **both}) + "\n" for line in lines))
    found, told = stats(tmp_path, capsys, str(path))
    assert [found[name] for name in ("requests", "attempts", "tokens")] == [1, 2, 12_405]
    assert found["dollars"] == pytest.approx(0.00624)
    assert "when requests began" in told
    granted = [event.at for event in events(tmp_path) if isinstance(event, ev.Granted)]
    assert granted == [0.0, 2.0]


def _lines(path: Path, *given: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"timestamp": "2026-11-28T10:00:00Z", **line} for line in given]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def test_who_started_a_sub_agent_of_claude_code(tmp_path: Path) -> None:
    """A file of its own names the call that started it, deeper than the first level; lines among the session's name
    the line before. Steps within a message count together."""
    steps = [{"type": "message", "input_tokens": 5, "output_tokens": 2}] * 2
    usage = {"input_tokens": 10, "output_tokens": 4}

    def answer(ident: str, **more: Any) -> dict[str, Any]:
        message = {
            "id": ident,
            "model": "claude-x",
            "usage": {**usage, "iterations": steps},
            "content": [{"id": "call"}],
        }
        return {"type": "assistant", "sessionId": "s", "uuid": ident, "message": message, **more}

    folder = tmp_path / "s" / "subagents"
    _lines(folder / "agent-one.jsonl", answer("a", agentId="one"))
    two = _lines(folder / "agent-two.jsonl", answer("b", agentId="two"))
    for meta, parent in (({"toolUseId": "call", "spawnDepth": 2}, "one"), ({"toolUseId": "call"}, ""), ({}, "")):
        two.with_suffix(".meta.json").write_text(json.dumps(meta))
        assert [each.parent for each in claude_code.read(two).attempts] == [parent]
    below = answer("d", isSidechain=True, parentUuid="c")
    older = _lines(tmp_path / "older.jsonl", answer("c", isSidechain=True), below, {**below, "timestamp": "never"})
    tale = claude_code.read(older)
    assert [each.agent for each in tale.attempts] == ["c", "c"]
    assert tale.attempts[0].usage == Usage(10, 0, 0, 4)
    assert sum(tale.skipped.values()) == 1


def test_an_older_session_of_codex(tmp_path: Path) -> None:
    """Its answers are known by what each adds to the total, and its plan's windows by how long they last."""
    counts = {"input_tokens": 90, "cached_input_tokens": 50, "output_tokens": 7}
    limits = {"primary": {"used_percent": 40, "resets_in_seconds": 60}, "secondary": {"used_percent": 120}}
    count = {"type": "token_count", "info": {"last_token_usage": counts, "total_token_usage": counts}}
    lines = [
        {"type": "session_meta", "payload": {"id": "t"}},
        {"type": "session_meta", "payload": {"id": "forked from"}},
        {"type": "event_msg", "payload": {**count, "rate_limits": limits}},
        {"type": "event_msg", "payload": count},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        {"type": "response_item", "payload": {"type": "message", "role": "user"}, "timestamp": "never"},
    ]
    tale = codex.read(_lines(tmp_path / "rollout.jsonl", *lines))
    (told,) = tale.attempts
    assert (told.session, told.usage) == ("t", Usage(40, 50, 0, 7))
    assert told.plan == [("primary", 0.4, told.at + 60), ("secondary", 1.0, None)]
    assert sum(tale.skipped.values()) == 1


SPAN: dict[str, Any] = {
    **{"traceId": "t1", "startTimeUnixNano": "1795941922000000000", "endTimeUnixNano": "1795941924500000000"},
    "status": {},
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "claude-sonnet-4-5"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "100"}},
        {"key": "gen_ai.usage.cache_read.input_tokens", "value": {"intValue": "60"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "20"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": "CANARY"}},
    ],
}
TOO_MANY = {"key": "http.response.status_code", "value": {"intValue": "429"}}
SPANS = [
    {**SPAN, "spanId": "a"},
    {**SPAN, "spanId": "b", "status": {"code": 2}, "attributes": [*SPAN["attributes"][:2], TOO_MANY]},
    {**SPAN, "spanId": "c", "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}]},
]
OTHERS: list[dict[str, str | int]] = [
    # OpenLLMetry, OpenInference, Vercel's AI SDK and its own span around that, Logfire
    {"llm.request.type": "chat", "gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 20},
    {"openinference.span.kind": "LLM", "llm.token_count.prompt": 100, "llm.token_count.completion": 20},
    {"ai.operationId": "ai.streamText.doStream", "ai.usage.promptTokens": 100, "ai.usage.completionTokens": 20},
    {"ai.operationId": "ai.streamText", "ai.usage.promptTokens": 100, "ai.usage.completionTokens": 20},
    {"gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20},
]
OTHER_SPANS = [{**SPAN, "attributes": [{"key": key, "value": {"any": each[key]}} for key in each]} for each in OTHERS]
OTLP = {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": SPANS}]}]}
HELICONE = {
    **{"request_id": "h1", "request_created_at": "2026-11-28T10:00:00Z", "response_created_at": "2026-11-28T10:00:03Z"},
    **{"response_status": 200, "request_model": "gpt-4o", "prompt_tokens": 100, "completion_tokens": 20},
    **{"time_to_first_token": 700, "request_user_id": "bob", "request_body": "CANARY"},
}
LANGFUSE = {
    **{"id": "o1", "traceId": "t1", "type": "GENERATION", "model": "gpt-4o", "level": "DEFAULT", "input": "CANARY"},
    **{"startTime": "2026-11-28T10:00:00Z", "endTime": "2026-11-28T10:00:03Z"},
    "completionStartTime": "2026-11-28T10:00:01Z",
    "usageDetails": {"input": 40, "input_cached_tokens": 60, "output": 20, "total": 120},
}
FAILED = {"status": "failure", "metadata": {"error_information": {"error_code": "429"}}}
LIMITS, UNTIMED = ["limits"], ["durations", "limits"]
TABLES = [
    ("burst.csv", BURST + "9,GPT-4,417,0,417,API log\n", (2, 907, 1), ["durations", "errors", "limits"]),
    (
        "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
        (1, 4818, 0),
        UNTIMED,
    ),
    ("mooncake.jsonl", '{"timestamp": 27482, "input_length": 6955, "output_length": 52}\n', (1, 7007, 0), UNTIMED),
    ("litellm.json", json.dumps([LITELLM]), (1, 120, 0), LIMITS),
    ("answer.json", json.dumps({"data": [LITELLM, {**LITELLM, "request_id": "r2"}]}), (2, 240, 0), LIMITS),
    ("cached.json", json.dumps([LITELLM, {**LITELLM, "request_id": "r3", "cache_hit": "True"}]), (1, 120, 0), LIMITS),
    ("failed.jsonl", json.dumps({**LITELLM, **FAILED}), (1, 120, 1), LIMITS),
    ("otlp.json", json.dumps(OTLP, indent=1), (2, 120, 1), LIMITS),
    ("others.json", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": OTHER_SPANS}]}]}), (4, 480, 0), LIMITS),
    ("otlp.jsonl", json.dumps(OTLP) + "\n", (2, 120, 1), LIMITS),
    (
        "helicone.jsonl",
        json.dumps(HELICONE) + "\n" + json.dumps({**HELICONE, "request_id": "h2", "response_status": 429}) + "\n",
        *((2, 240, 1), LIMITS),
    ),
    ("langfuse.json", json.dumps({"data": [LANGFUSE, {**LANGFUSE, "id": "o2", "type": "SPAN"}]}), (1, 120, 0), LIMITS),
    (
        "litellm.csv",
        "startTime;endTime;prompt_tokens;completion_tokens;metadata\n"
        '2026-11-28 10:00:00;2026-11-28 10:00:02;7;3;"{""status"": ""success""}"\n',
        *((1, 10, 0), LIMITS),
    ),
]


@pytest.mark.parametrize(("name", "text", "wanted", "unknown"), TABLES, ids=[name for name, *_ in TABLES])
def test_tables(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    wanted: tuple[int, int, int],
    unknown: list[str],
) -> None:
    """Requests, tokens and failures of traces and logs; what they don't hold is named, and isn't 0."""
    path = tmp_path / name
    path.write_text(text)
    found, _ = stats(tmp_path, capsys, str(path))
    assert (found["requests"], found["tokens"], found["failed"]) == wanted
    journal = open_journal(find("it", tmp_path))
    assert sorted(journal.began.unknown) == unknown
    ends = [event.duration_s for event in journal.events() if isinstance(event, ev.Finished)]
    assert all((length is None) is ("durations" in unknown) for length in ends)


def test_what_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens and times that no request has are unknown in every figure, and not 0."""
    path = tmp_path / "moments.csv"
    path.write_text("when\n1795941922\n1795941923\n")
    found, _ = stats(tmp_path, capsys, str(path), "--columns", "start=when")
    assert [found[name] for name in ("tokens", "dollars", "wall_s", "busiest")] == [None] * 4
    assert found["requests"] == 2
    assert main(["journal", "stats", "it", "--state-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name} not recorded" in " ".join(shown.split()) for name in ("tokens", "dollars", "time"))
    with closing(Player(find("it", tmp_path), indexed=False)) as player:
        damage = player.damage
    assert damage == ("not recorded: rate limits; how long requests took; tokens",)


def test_named_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any table is read by the names of its columns, and a wrong name is told."""
    path = tmp_path / "own.csv"
    path.write_text("when,who,in,out,ms\n1795941922,ann,10,2,1500\n1795941923,bob,20,4,500\n")
    columns = "start=when,agent=who,input=in,output=out,duration_ms=ms"
    found, _ = stats(tmp_path, capsys, str(path), "--columns", columns)
    assert [found[name] for name in ("agents", "tokens", "wall_s")] == [2, 36, 1.5]
    for wrong, said in (
        ("start=nowhen", "has no column 'nowhen'; it has when, who, in, out, ms"),
        ("input=in", "must say which column is the start"),
        ("start=when,sum=in", "must be NAME=COLUMN"),
    ):
        assert main(["journal", "import", str(path), "--state-dir", str(tmp_path), "--columns", wrong]) == 2
        assert said in capsys.readouterr().err
    assert moment("1795012341530") == 1795012341.53  # it is a date of 1795, too


def test_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that take a journal take recordings, and keep no text of theirs."""
    state = str(tmp_path / "state")
    assert main(["journal", "stats", str(CODE), "--json", "--state-dir", state]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 13
    assert main(["journal", "stats", str(CODE), "--json", "--state-dir", state]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 13
    assert not any(b"CANARY" in path.read_bytes() for path in Path(state).rglob("*") if path.is_file())


def test_a_folder_named_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the working directory isn't taken for the latest journal; by a path it can be named."""
    shutil.copytree(CODEX, tmp_path / "latest")
    monkeypatch.chdir(tmp_path)
    assert [is_recording(text) for text in ("latest", "./latest")] == [False, True]


def test_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file that was cut off, what is whole counts; a foreign file is told in a line, and alone it is refused."""
    folder = tmp_path / "sessions"
    shutil.copytree(CODEX, folder)
    cut = sorted(folder.iterdir())[-1]
    cut.write_bytes(cut.read_bytes()[:-40] + b'{"half')
    (folder / "notes.txt").write_text("nothing of a model")
    other = tmp_path / "other.bin"
    other.write_bytes(bytes(range(256)) * 50)
    found, told = stats(tmp_path, capsys, str(folder), str(other))
    assert found["requests"] == 6
    assert f"{other}: is none of the recordings that are read: {FORMATS}" in told
    assert "left out: 1 (lines that aren't whole, or not of its form)" in told
    assert "1 file of the folder is something else" in told
    assert main(["journal", "import", str(other), "--state-dir", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x" / "journals").exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"type": ["list"], "sessionId": {}, "timestamp": 5}\n',
        '{"type": "api-request", "sessionId": "s", "id": "i", "timestamp": "0001-01-01T00:00:00Z", "params": {}}\n',
        '{"timestamp": -1, "input_length": 5, "output_length": 5}\n',
        json.dumps([{**LITELLM, "startTime": 1e300}]),
        json.dumps([{**LANGFUSE, "type": ["GENERATION"]}]),
        "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,NaN,1e400\n",
        "[" * 5000,
    ],
)
def test_values_that_cant_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """What no program writes is refused in one line."""
    path = tmp_path / "odd"
    path.write_text(text)
    assert main(["journal", "import", str(path), "--state-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_look_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds what is on the machine, counts as the provider did, and says where nothing can be foretold."""
    shutil.copytree(CODE, tmp_path / ".claude" / "projects" / "w")
    for name, value in (("HOME", str(tmp_path)), ("CLAUDE_CONFIG_DIR", ""), ("CODEX_HOME", "")):
        monkeypatch.setenv(name, value)
    for _ in range(2):  # the second time of what was kept
        assert main(["look-back", "--json", "--state-dir", str(tmp_path / "state")]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [found[name] for name in ("requests", "agents", "unanswered", "tokens")] == [8, 3, 0, 155_463]
        assert found["failed"] == {"429": 2, "529": 3}
        assert [found["dollars"], found["stated_dollars"]] == pytest.approx([0.27744255] * 2)
        assert sum(found["lost_s"].values()) == pytest.approx(6.72, abs=0.1)
        assert "can't be said: it doesn't hold the limits of anthropic" in found["foretold"]
    assert main(["look-back", "--state-dir", str(tmp_path / "state")]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 12
    with mock.patch("hivemind.cli.lab.look_back.find_spec", return_value=None):  # the extra `lab` isn't installed
        assert main(["look-back", "--json", "--state-dir", str(tmp_path / "other")]) == 0
        assert json.loads(capsys.readouterr().out)["foretold"] is None
        assert main(["look-back", "--state-dir", str(tmp_path / "other")]) == 0
        assert "with HiveMind     pip install 'hivemind-tui[lab]' computes" in capsys.readouterr().out
    shutil.rmtree(tmp_path / ".claude")
    assert main(["look-back", "--state-dir", str(tmp_path / "state")]) == 2
    assert "no sessions of Claude Code or Codex are on this machine" in capsys.readouterr().err


def test_logs_are_read_on_all_cores(tmp_path: Path) -> None:
    """What they tell is the same and in the same order; one that vanished meanwhile is told."""
    shutil.copytree(REFUSED, tmp_path / "w")
    found = find_sources([str(tmp_path / "w")])
    assert len(found.sources) > 3
    expected = [source.read() for source in found.sources]
    found.sources[1].path.unlink()
    here, read = os.getpid(), Source.read

    def elsewhere(source: Source) -> Tale:
        assert os.getpid() != here or not can_fork()
        return read(source)

    with mock.patch.object(Source, "read", elsewhere):
        assert tales_of(found, Shelf(None), Counter(), lambda done, of: None) == [expected[0], *expected[2:]]
    assert len(found.foreign) == 1


def test_what_an_expired_cache_cost() -> None:
    """A prompt that is written again after its cache had forgotten it costs the difference to reading it."""

    def told(at: float, read: int, written: int) -> Told:
        usage = Usage(5, read, written, 10)
        return Told(at, "s", "claude-code", "claude-sonnet-4-5", f"{at}", usage=usage, end=at + 1)

    def price(_provider: str, _model: str, usage: Usage) -> float:
        return usage.cache_read_tokens * 1.0 + usage.cache_write_tokens * 12.5

    seen = look_back([told(0, 0, 100), told(200, 100, 10), told(900, 0, 120), told(1000, 120, 5)], price)
    assert seen.expired == 1
    assert seen.expired_dollars == pytest.approx(110 * 11.5)


def test_honest_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without limits nothing is foretold, unless a tier's published limits are named."""
    asked = ["what-if", str(CODE), "--json", "--state-dir", str(tmp_path)]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"] == []
    assert "can't be said" in found["sentence"]
    assert main([*asked, "--provider", "anthropic", "--tier", "4"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]
    assert any("published on 2026-05-22" in note for note in found["doubts"])
    assert main([*asked, "--tier", "9"]) == 2
    assert "--tier: must be one of" in capsys.readouterr().err


def test_limits_inferred_from_refusals(tmp_path: Path) -> None:
    """A bucket that explains when 429s came is found, and simulated as headers would have told of it."""
    bucket, due = TokenBucket(120, 60.0, 8), [(agent * 0.1, agent, 0, 0) for agent in range(8)]
    logs: list[list[dict[str, Any]]] = [[] for _ in due]
    while due:
        at, agent, number, tries = due.pop(due.index(min(due)))
        ident = f"{agent}-{number}-{tries}"
        begun = {"type": "api-request", "id": ident, "timestamp": 1.7e9 + at, "params": {"model": "claude-sonnet-4-5"}}
        usage = {"input_tokens": 100, "output_tokens": 60}
        message = {"id": f"msg_{ident}", "model": "claude-sonnet-4-5", "usage": usage}
        answered = {"type": "assistant", "requestRef": ident, "timestamp": 1.7e9 + at + 0.5, "message": message}
        pause_s = 0.5 * 2**tries * (1 + agent / 20)
        refused = {"type": "system", "subtype": "api_error", "uuid": ident, "timestamp": 1.7e9 + at + 0.01}
        refused |= {"error": {"status": 429}, "retryInMs": 1000 * pause_s}
        if bucket.wait_s(at, 1.0):
            logs[agent] += [begun, refused]
            due.append((at + 0.01 + pause_s, agent, number, tries + 1))
            continue
        bucket.take(at, 1.0)
        logs[agent] += [begun, answered]
        if number < 11:
            due.append((at + 0.9, agent, number + 1, 0))
    for agent, lines in enumerate(logs):
        texts = (
            json.dumps(
                {
                    **line,
                    "sessionId": f"s{agent}",
                    "timestamp": datetime.fromtimestamp(line["timestamp"], UTC).isoformat(),
                }
            )
            for line in lines
        )
        (tmp_path / f"{agent}.jsonl").write_text("\n".join(texts))
    recording = load((journal_of([str(tmp_path / "*.jsonl")], tmp_path).path,))
    (provider,) = recording.providers.values()
    assert recording.unsaid == ""
    (limit,) = provider.limits
    assert (limit.size, limit.reported) == (8, True)
    assert limit.limit == pytest.approx(120, 0.1)
    (lane,) = recording.lanes.values()
    assert (lane.rpm, lane.tpm) == (0, 0)
