"""What a batch's tasks use, as its runner tells it and as its budget bounds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.batches import Kind, served
from agents.running import ASK

ASKS = f"""{ASK}
with open("journal", "a") as journal:
    print(os.environ["HIVEMIND_TASK"], used, file=journal)
sys.exit(int(sys.argv[1]))
"""


def asking(name: str, code: int = 0, **more: object) -> Kind:
    """A task that asks once and ends with that exit code."""
    return Kind(name, more={"command": ["python3", "asks.py", str(code)], **more})


@pytest.mark.e2e
async def test_usage(tmp_path: Path) -> None:
    """Tokens and dollars of every task, all its tries together, are in the report and in the table."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with served(tmp_path) as (running, here):
        here.write([asking("a"), asking("b", 1, restarts=1)])
        ran = await here.run()
        answered = running.snapshot().totals.finished
    assert (ran.code, answered) == (1, 3), ran.err
    used: dict[str, int] = {}
    for line in here.journal:
        task, tokens = line.split()
        used[task] = used.get(task, 0) + int(tokens)
    assert {name: row["tokens"] for name, row in here.report.items()} == {"a": used["work.a"], "b": used["work.b"]}
    assert all(row["dollars"] > 0 and row["unpriced_tokens"] == 0 for row in here.report.values())
    assert f", {sum(used.values()):,} tokens, $0.0" in ran.out
    assert f"{used['work.a']:,} tokens, $0.0" in next(line for line in ran.err.splitlines() if "a is done" in line)


@pytest.mark.e2e
async def test_the_batchs_budget(tmp_path: Path) -> None:
    """It bounds what all tasks use together: those that come when it is used up fail, and nothing more is asked."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with served(tmp_path) as (running, here):
        here.write([asking(name) for name in "abcd"], max_agents=1, budget="60")
        ran = await here.run()
        answered = running.snapshot().totals.finished
    states = [row["state"] for row in here.report.values()]
    assert ran.code == 1
    assert states == ["done"] * answered + ["failed"] * (4 - answered)
    assert 0 < answered < 4


@pytest.mark.e2e
async def test_no_restart_without_a_budget(tmp_path: Path) -> None:
    """A task that failed because its budget is used up isn't started again, since it would be refused at once."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with served(tmp_path) as (running, here):
        here.write([asking("a", 1, restarts=3, budget="1"), asking("b", 1, restarts=1)])
        ran = await here.run()
        assert (ran.code, running.snapshot().totals.finished) == (1, 3)
    assert {name: (row["attempts"], row["note"]) for name, row in here.report.items()} == {
        "a": (1, "exit code 1, budget used up"),
        "b": (2, "exit code 1"),
    }
    assert "; raise it with hivemind budget work.a AMOUNT, then --retry-failed\n" in ran.err


@pytest.mark.e2e
async def test_no_request_on_its_path(tmp_path: Path) -> None:
    """A task that has to send requests and sends none has failed; one with a budget is told of, and no other."""
    kinds = [
        asking("asks", require_traffic="true"),
        Kind("silent", more={"command": ["true"], "require_traffic": "true"}),
        Kind("paid", more={"command": ["true"], "budget": "5k"}),
        Kind("plain", more={"command": ["true"]}),
    ]
    (tmp_path / "asks.py").write_text(ASKS)
    async with served(tmp_path) as (_, here):
        here.write(kinds)
        ran = await here.run()
    assert {name: (row["state"], row["note"]) for name, row in here.report.items()} == {
        "asks": ("done", ""),
        "silent": ("failed", "no request on its own path"),
        "paid": ("done", ""),
        "plain": ("done", ""),
    }
    told = {line.split()[0]: line for line in ran.err.splitlines() if "no request on its own path" in line}
    assert set(told) == {"silent", "paid"}, ran.err
