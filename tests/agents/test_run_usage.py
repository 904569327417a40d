"""What `hivemind run` says of an agent's use: with what the agents used that it started, and of a budget's end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agents.running import before

ASKS = """\
import json, os, sys, urllib.error, urllib.request
for _ in range(int(sys.argv[1])):
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
        json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": []}).encode(),
        {"x-api-key": "k", "content-type": "application/json"},
    )
    try:
        usage = json.load(urllib.request.urlopen(request))["usage"]
    except urllib.error.HTTPError as error:
        sys.exit(error.code == 400 and 3)
    print(usage["input_tokens"] + usage["output_tokens"])
"""
UNCOUNTED = """\
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "gpt-5.5", "stream": True, "messages": [{"role": "user", "content": "hi " * 50}]}).encode(),
    {"authorization": "Bearer k", "content-type": "application/json"},
)
assert b"[DONE]" in urllib.request.urlopen(request).read()
"""


@pytest.mark.e2e
async def test_what_it_started_counts(tmp_path: Path) -> None:
    """A run that only starts another tells of that one's tokens as its own cost."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with before(tmp_path) as (_, place):
        inner = "hivemind run --name inner -- python3 asks.py 2"
        ran = await place.ran("--name", "outer", "--", "sh", "-c", f"{inner}; python3 asks.py 1")
    tokens = [int(line) for line in ran.out.split()]
    assert (ran.code, len(tokens)) == (0, 3), ran.err
    inside, outside = ran.err.splitlines()
    assert inside.startswith("hivemind: inner: exit code 0")
    assert f" {sum(tokens[:2]):,} tokens, $0.0" in inside
    assert outside.startswith("hivemind: outer: exit code 0")
    assert f" {sum(tokens):,} tokens, $0.0" in outside


@pytest.mark.e2e
async def test_estimates_are_marked(tmp_path: Path) -> None:
    """A stream of chat completions without the counts, which the client didn't ask for: its use is a guess, and the
    run's end says so, in words and in its report. What was counted isn't marked."""
    (tmp_path / "guessed.py").write_text(UNCOUNTED)
    (tmp_path / "asks.py").write_text(ASKS)
    async with before(tmp_path) as (_, place):
        guessed = await place.called("run", "--name", "ann", "--report", "ann.json", "--", "python3", "guessed.py")
        counted = await place.called("run", "--name", "bob", "--report", "bob.json", "--", "python3", "asks.py", "1")
    ann, bob = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ann", "bob"))
    assert (guessed.code, counted.code) == (0, 0)
    assert ann["estimated_tokens"] == ann["tokens"] > 0
    assert f"({ann['tokens']:,} tokens estimated)" in guessed.err
    assert (bob["estimated_tokens"], bob["tokens"] > 0) == (0, True)
    assert "estimated" not in counted.err


async def test_how_to_go_on(tmp_path: Path) -> None:
    """One that ended because a budget was used up is told whose, and what to type to let it go on."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with before(tmp_path) as (_, place):
        ran = await place.called("run", "--name", "ali ce", "--budget", "60", "--", "python3", "asks.py", "9")
        fine = await place.called("run", "--name", "bob", "--budget", "1", "--", "python3", "asks.py", "1")
    end = "; ali ce's budget is used up: hivemind budget 'ali ce' AMOUNT, then hivemind resume 'ali ce'\n"
    assert (ran.code, ran.err[-len(end) :]) == (3, end)
    assert (fine.code, "used up" in fine.err) == (0, False)


async def test_a_host_of_its_own(tmp_path: Path) -> None:
    """A program whose requests will go past the proxy is told of before it starts."""
    (tmp_path / "crew.py").write_text("if 0: OpenAIChatCompletionClient(model='claude-x')")
    async with before(tmp_path) as (_, place):
        ran = await place.called("run", "--name", "ann", "--", "python3", "crew.py")
    assert ran.err.startswith("hivemind: crew.py's requests go past HiveMind: AutoGen takes claude-x to its provider's")


@pytest.mark.e2e
async def test_no_request_on_its_path(tmp_path: Path) -> None:
    """A command that goes past the proxy is told at its end; its exit code stays, unless requests were required."""
    (tmp_path / "asks.py").write_text(ASKS)
    silence = "hivemind: ann: sent no request on its own path, so nothing was counted and no budget held\n"
    async with before(tmp_path) as (running, place):
        silent = await place.called("run", "--name", "ann", "--report", "ann.json", "--", "true")
        required = await place.called("run", "--name", "ann", "--quiet", "--require-traffic", "--", "true")
        failed = await place.called("run", "--name", "ann", "--require-traffic", "--", "sh", "-c", "exit 3")
        asked = await place.called("run", "--name", "bob", "--require-traffic", "--", "python3", "asks.py", "1")
        lines = [line for line in running.proxy.snapshot().lines if "no request" in line.text]
    assert (silent.code, silent.err.endswith(silence)) == (0, True)
    assert (required.code, required.err) == (4, silence)
    assert (failed.code, failed.err.endswith(silence)) == (3, True)
    assert (asked.code, "no request" in asked.err) == (0, False)
    assert [(line.level, line.who) for line in lines] == [("warn", "ann")] * 3
    report = json.loads((tmp_path / "ann.json").read_text())
    assert (report["requests"], report["elsewhere"]) == (0, [])
