"""Plans: what may stand in one, and how each mistake is told."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from agents.repositories import repository

from hivemind.agents.plans import document, reading
from hivemind.agents.plans.document import MOST_BYTES, PlanError
from hivemind.agents.plans.plan import Plan
from hivemind.agents.plans.reading import MOST_WAITS, read_plan
from hivemind.agents.plans.values import is_name
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.tasks import MOST as MOST_OF_A_PROXY
from hivemind.scheduler.tasks import Task, Tasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget
from hivemind.text.humanise import span_of

MOST = 2000
FULL = """\
name: nightly
max_agents: 5
on_failure: skip
restarts: 1
restart_delay: 5s
budget: $20
env: {KEY: value, MODE: on, LEVEL: 007}
x-slow: &slow {timeout: 1h30m}
tasks:
  lint: claude -p "fix the lint errors"
  test:
    <<: *slow
    command: [claude, -p, write tests, 5, '']
    after: [lint]
    priority: Critical
    estimate: 50k
    budget: 200k,$3/day
    agent: bob
    cwd: sub/dir
    env: {MODE: 'off', EMPTY: }
    restarts: 0
    require_traffic: true
    on_failure: block
  ship:
    command: deploy
    after: test
"""


def read(folder: Path, text: str | bytes, name: str = "plan.yaml") -> Plan:
    """The plan of that text."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_plan(path, name)


def mistakes(folder: Path, text: str | bytes, name: str = "plan.yaml") -> list[str]:
    """What is wrong with it."""
    with pytest.raises(PlanError) as caught:
        read(folder, text, name)
    assert caught.value.exit_code == 2
    return list(caught.value.lines)


def test_everything_that_may_stand_in_a_plan(tmp_path: Path) -> None:
    """Each value is taken as it is meant; a task's own word goes before the plan's."""
    plan = read(tmp_path, FULL)
    assert (plan.name, plan.max_agents, plan.budget) == ("nightly", 5, WantedBudget(None, 20.0, None))
    lint, test, ship = plan.tasks.values()
    assert lint.command == ("claude", "-p", "fix the lint errors")
    assert (lint.restarts, lint.restart_delay, lint.on_failure) == (1, 5.0, "skip")
    assert lint.env == {"KEY": "value", "MODE": "on", "LEVEL": "007"}
    assert lint.cwd == tmp_path
    assert test.command == ("claude", "-p", "write tests", "5", "")
    assert (test.after, test.agent, test.estimate) == (("lint",), "bob", 50_000)
    assert test.budget == WantedBudget(200_000, 3.0, "day")
    assert test.cwd == tmp_path / "sub/dir"
    assert test.env == {"KEY": "value", "MODE": "off", "LEVEL": "007", "EMPTY": ""}
    assert (test.timeout, test.restarts, test.on_failure) == (5400.0, 0, "block")
    assert ship.after == ("test",)
    assert (lint.line, test.line, ship.line) == (10, 11, 24)
    assert (lint.require_traffic, test.require_traffic) == (False, True)
    assert test.spec("nightly") == TaskSpec(
        id="nightly.test",
        priority=Priority.CRITICAL,
        estimated_tokens=50_000,
        after=("nightly.lint",),
        agent="bob",
        batch="nightly",
        command=("claude", "-p", "write tests", "5", ""),
        on_failure="block",
        attempts=1,
        planned=True,
    )


def test_a_count_makes_as_many_tasks(tmp_path: Path) -> None:
    """Numbered, and who waits for the task waits for all of them."""
    plan = read(
        tmp_path,
        "tasks:\n"
        "  a: {command: x, count: 3, agent: bob, budget: 5k}\n"
        "  one: {command: x, count: 1}\n"
        "  b: {command: y, after: [a, one-1]}\n"
        "  c: {command: z, after: a-2}\n",
    )
    assert [*plan.tasks] == ["a-1", "a-2", "a-3", "one-1", "b", "c"]
    assert [task.agent for task in plan.tasks.values()][:4] == ["bob-1", "bob-2", "bob-3", ""]
    assert plan.tasks["b"].after == ("a-1", "a-2", "a-3", "one-1")
    assert plan.tasks["c"].after == ("a-2",)
    assert [task.budget for task in plan.tasks.values()] == [WantedBudget(5000, None, None)] * 3 + [None] * 3


def test_worktrees_are_checked_with_the_plan(tmp_path: Path) -> None:
    """With the line of the mistake; a plan that goes on takes the commit as it is."""
    text = "worktree: true\ntasks:\n  a: x\n  b: {command: y, worktree: nope}\n  c: {command: z, worktree: false}\n"
    outside = "isn't in a git repository; git init makes it one"
    assert mistakes(tmp_path, text) == [
        f"plan.yaml:1: task a: worktree: {tmp_path} {outside}",
        f"plan.yaml:4: task b: worktree: {tmp_path} {outside}",
    ]
    repository(tmp_path)
    (tmp_path / "README").write_text("changed")
    changed, nope = mistakes(tmp_path, text)
    assert changed.startswith(f"plan.yaml:1: task a: worktree: 1 file in {tmp_path} is changed and not committed")
    assert nope == f"plan.yaml:4: task b: worktree nope: there is no such branch or commit in {tmp_path}"
    path = tmp_path / "plan.yaml"
    path.write_text(text.replace("nope", "main"))
    plan = read_plan(path, "plan.yaml", begun=True)
    assert [task.tree is not None for task in plan.tasks.values()] == [True, True, False]


def test_the_files_name_is_the_batchs(tmp_path: Path) -> None:
    """Where the plan has none."""
    assert read(tmp_path, "tasks: {a: 'true'}", "release-3.yaml").name == "release-3"


def test_tasks_as_a_list(tmp_path: Path) -> None:
    """Each has its name among the rest."""
    plan = read(tmp_path, "tasks:\n- {name: b, command: x}\n- name: a\n  command: y\n  after: b\n")
    assert {name: (task.after, task.line) for name, task in plan.tasks.items()} == {"b": ((), 2), "a": (("b",), 3)}


def test_json(tmp_path: Path) -> None:
    """It is a plan too: with tabs between its values, and characters written as two halves."""
    text = json.dumps({"tasks": {"a": {"command": ["say", "a\tb", "\U0001f41d"]}}}, indent="\t")
    assert read(tmp_path, text, "plan.json").tasks["a"].command == ("say", "a\tb", "\U0001f41d")


def test_order(tmp_path: Path) -> None:
    """One at a time: priority first, then the smallest, then the first; whoever is waited for counts as urgent."""
    plan = read(
        tmp_path,
        "tasks:\n"
        "  plain: x\n"
        "  large: {command: x, estimate: 9k}\n"
        "  small: {command: x, estimate: 1k}\n"
        "  low: {command: x, priority: low}\n"
        "  urgent: {command: x, priority: critical, after: low}\n",
    )
    assert [task.name for task in plan.order()] == ["low", "urgent", "small", "large", "plain"]


WRONG = [
    ("tasks: {a: x, b: {command: x, after: [aa]}}",
     "1: task b waits for 'aa', which isn't in the plan; did you mean a?"),
    ("tasks:\n  a: {command: x, after: c}\n  b: {command: x, after: a}\n  c: {command: x, after: b}",
     "2: tasks wait for each other: a -> c -> b -> a"),
    ("tasks: {a: {command: x, after: a}}", "1: tasks wait for each other: a -> a"),
    ("tasks:\n  a: x\n  b: y\n  a: z", "4: tasks has a twice, first in line 2"),
    ("tasks:\n- {name: a, command: x}\n- {name: a, command: y}", "3: task a is there twice, first in line 2"),
    ("tasks:\n- {command: x}", "2: the task has no name"),
    ("tasks:\n- x", "2: a task of a list must be a mapping with a name and a command"),
    ("tasks:\n  a:\n    comand: x", "2: task a: it has no command"),
    ("tasks:\n  a:\n    command: x\n    priorty: high", "4: task a has no priorty; did you mean priority?"),
    ("tasks: {a: {command: x, priority: urgent}}",
     "1: task a: priority urgent: there is no such; must be critical, high, normal or low"),
    ("tasks: {a: {command: x, estimate: $5}}", "1: task a: estimate $5: must be a number of tokens, as in 50k"),
    ("tasks: {a: {command: x, estimate: 5k/day}}", "1: task a: estimate 5k/day: must be a number of tokens, as in 50k"),
    ("tasks: {a: {command: x, budget: +5k}}", "1: task a: budget +5k: a plan says how much in all, without a +"),
    ("tasks: {a: {command: x, budget: much}}",
     "1: task a: budget: 'much' is no budget; it is 200k, $5, $5/day, 200k,$5 or none, per run, day, month or ever"),
    ("tasks: {a: {command: x, timeout: 0}}", "1: task a: timeout 0: must be a span of time, as in 30s, 5m or 1h30m"),
    ("tasks: {a: {command: x, timeout: soon}}",
     "1: task a: timeout soon: must be a span of time, as in 30s, 5m or 1h30m"),
    ("tasks: {a: {command: x, restarts: many}}", "1: task a: restarts many: must be a whole number from 0 to 1,000"),
    ("tasks: {a: {command: x, on_failure: stop}}",
     "1: task a: on_failure stop: there is no such; must be block or skip"),
    ("tasks: {a: {command: x, env: [A]}}", "1: task a: env must be a mapping (key: value), not a list"),
    ("tasks: {a: {command: x, env: {A: {B: secret}}}}", "1: A in task a: env must be text, not a mapping"),
    ("tasks: {a: {command: x, cwd: }}", "1: task a: cwd is empty"),
    ("tasks: {a: {command: []}}", "1: task a: command is empty"),
    ("tasks: {a: {command: ['', x]}}", "1: task a: command names no program"),
    ("tasks: {a: [x, [y]]}", "1: an item of task a: command must be text, not a list"),
    ("tasks:\n  a: say 'hello", "2: task a: command can't be taken apart (no closing quotation); mend it, or write it"
     " as a list"),
    ("tasks: {a: make | tee log}", "1: task a: command has |, but no shell reads it; write it as [sh, -c, '...']"),
    ("tasks: {a: " + "x" * (128 << 10) + "}",
     "1: task a: command has an argument longer than 128 KiB; put that in a file"),
    ('tasks: {a: "say \\0"}', "1: task a: command has a zero byte, which can't be handed to a program"),
    ("tasks: {'a b': x}", "1: task 'a b': a name is letters, digits, . _ and -, and with the plan's before it at most"
     " 80 of them"),
    ("tasks: {a: {command: x, agent: sk-ant-api03-abcdefgh}}",
     "1: task a: agent: an agent's name would be shown, and this one looks like a key; choose another"),
    ("tasks: {a: {command: x, agent: plan}}",
     "1: task a: agent plan: that is what the batch itself is called; choose another"),
    ("tasks:\n  sk-ant-api03-abcdefgh: x",
     "2: a task's name would be shown, and this one looks like a key; choose another"),
    ("tasks: {a: {command: x, count: 0}}", "1: task a: count 0: must be a whole number from 1 to 1,000"),
    ("tasks:\n  a: {command: x, count: 2}\n  a-2: y",
     "2: task a: its count makes a task a-2, which the plan has already"),
    ("tasks:\n  a: {command: x, count: 2}\n  b: {command: y, after: a-3}",
     "3: task b waits for 'a-3', which isn't in the plan; did you mean a-2?"),
    ("tasks: {" + "a" * 74 + ": {command: x, count: 10}}",
     "1: task " + "a" * 74 + ": with the plan's name and a number its name is longer than 80"),
    ("tasks:\n  a: x\nworktre: true", "3: the plan has no worktre; did you mean worktree?"),
    ("name: ../up\ntasks: {a: x}", "1: name '../up': must be letters, digits, . _ and -, up to 80 of them"),
    ("max_agents: 0\ntasks: {a: x}", "1: max_agents 0: must be a whole number from 1 to 1,000,000"),
    ("tasks: {}", "1: the plan has no tasks"),
    ("tasks:", "1: tasks must be a mapping (key: value), not nothing"),
    ("name: x", "1: the plan has no tasks"),
    ("- a\n- b", "1: the plan must be a mapping (key: value), not a list"),
    ("hello", "1: the plan must be a mapping (key: value), not text"),
    ("tasks:\n  a: x\n b: y", "3: not YAML: expected <block end>, but found '<block mapping start>'"),
    ("tasks: {a: *b}", "1: not YAML: found undefined alias 'b'"),
    ("tasks: {a: x}\n---\ntasks: {}", "2: not YAML: but found another document"),
    ("tasks: {a: '\x07'}", "1: not YAML: it has a character that text can't have"),
    (b"tasks:\n  a: \xff", "2: it isn't UTF-8 text"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), WRONG, ids=[line[:60] for _, line in WRONG])
def test_mistakes(tmp_path: Path, text: str | bytes, line: str) -> None:
    """Each is one line: the file, its line, what is wrong and what would be right."""
    assert f"plan.yaml:{line}" in mistakes(tmp_path, text)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """In the order of the file, and one doesn't bring about others."""
    text = "name: a b\nbudgt: $5\ntasks:\n  a: {command: x, after: b, prio: low}\n  b: y\n"
    assert [line.partition(":")[2][:1] for line in mistakes(tmp_path, text)] == ["1", "2", "4"]


def test_unknown_names_with_other_mistakes(tmp_path: Path) -> None:
    """Tasks that wait for none of the plan's are told with all the rest, each in the line of the name."""
    text = (
        "tasks:\n"
        "  build: {command: x, prio: low}\n"
        "  test:\n"
        "    command: x\n"
        "    after:\n"
        "    - build\n"
        "    - biuld\n"
        "    timeout: soon\n"
        "  'a b': {command: x, after: [test, nobody]}\n"
        "  sk-ant-api03-abcdefgh: {command: x, after: sk-ant-api03-abcdefg}\n"
        "  many: {command: x, count: 0, after: [build, 'a b']}\n"
        "  last: {command: x, after: [many-3, many-0]}\n"
    )
    found = [line.removeprefix("plan.yaml:") for line in mistakes(tmp_path, text)]
    assert [line for line in found if "waits for" in line] == [
        "7: task test waits for 'biuld', which isn't in the plan; did you mean build?",
        "9: the task waits for 'nobody', which isn't in the plan; there is no such task",
        "10: the task waits for 'sk-ant-api03-abcdefg', which isn't in the plan; there is no such task",
        "12: task last waits for 'many-0', which isn't in the plan; did you mean many?",
    ]
    assert len(found) == 9


def test_a_task_without_a_name_may_be_waited_for(tmp_path: Path) -> None:
    """Its missing name is one mistake."""
    text = "tasks:\n- {nme: lint, command: x}\n- {name: test, command: x, after: lint}\n"
    assert mistakes(tmp_path, text) == ["plan.yaml:2: the task has no name"]


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"null"])
def test_empty(tmp_path: Path, text: bytes) -> None:
    """A file with nothing in it is said to be empty."""
    assert mistakes(tmp_path, text) == ["plan.yaml: it is empty; a plan needs tasks"]


def test_unreadable(tmp_path: Path) -> None:
    """A file that isn't there, or is a folder, is told as the user named it."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(PlanError, match=r"^given: can't be read \((No such file|Is a directory)"):
            read_plan(path, "given")


def test_bombs(tmp_path: Path) -> None:
    """Aliases of aliases, nesting without end, a plan within itself and one without end are told, and soon."""
    names = "abcdefghij"
    lines = ["x-a: &a {timeout: 1s}"]
    lines += [f"x-{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}" for a, b in pairwise(names)]
    merged = "\n".join([*lines, "tasks: {t: {command: x, <<: *j}}"])
    assert "refers to itself over and over" in mistakes(tmp_path, merged)[-1]
    itself = "tasks: {t: &t {command: x, <<: *t}}"
    assert mistakes(tmp_path, itself) == ["plan.yaml: it is nested too deeply"]
    deep = "tasks: " + "[" * 1000
    assert mistakes(tmp_path, deep) == ["plan.yaml: it is nested too deeply"]
    assert mistakes(tmp_path, b"#" * (MOST_BYTES + 1)) == ["plan.yaml: it is larger than 1 MiB, too large for a plan"]


def test_more_tasks_than_a_proxy_knows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted before they are read, and before a count makes them; the line says how many there may be."""
    for module in (document, reading):
        assert module.MOST == MOST_OF_A_PROXY
        monkeypatch.setattr(module, "MOST", MOST)
    many = "tasks:\n" + "".join(f"  t{number}: x\n" for number in range(MOST + 1)) + "  [never read"
    listed = "tasks:\n" + "- x\n" * (MOST + 1) + "  [never read"
    items = f"it has more than {MOST:,} items; a plan has at most {MOST:,} tasks"
    assert mistakes(tmp_path, many) == [f"plan.yaml:2: {items}"]
    assert mistakes(tmp_path, listed) == [f"plan.yaml:2: {items}"]
    counted = "tasks:\n" + "".join(f"  t{number}: {{command: x, count: 1000}}\n" for number in range(3))
    assert mistakes(tmp_path, counted) == [f"plan.yaml:1: it has 3,000 tasks; a plan has at most {MOST:,}"]
    chained = "tasks:\n  a: {command: x, count: 500}\n  b: {command: x, count: 500, after: a}\n"
    text = f"its tasks wait 250,000 times for another, at most {MOST_WAITS:,}: put one between large groups"
    assert mistakes(tmp_path, chained) == [f"plan.yaml:1: {text}"]


def test_reading_and_ordering_take_time_by_the_number_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by its square: a list's lines are looked up where they are, and no task is looked at twice for its turn."""
    looks: list[Task] = []

    def rank(task: Task) -> tuple[Priority, float, int]:
        looks.append(task)
        return task.priority, 0.0, task.number

    monkeypatch.setattr(Task, "rank", property(rank))
    counts = []
    for number in (100, 200):
        looks.clear()
        text = "tasks:\n" + "".join(f"- {{name: t{each}, command: x}}\n" for each in range(number))
        plan = read(tmp_path, text)
        assert [task.line for task in plan.order()] == list(range(2, number + 2))
        counts.append(len(looks))
    assert counts[1] <= 2 * counts[0]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 80, "a" * 81, "", ".a", "-a", "a b", "a/b", "ä", "a\n"])
def test_names_are_the_graphs(name: str) -> None:
    """What a plan takes for a task's name is what the graph takes."""
    graph = Tasks()
    try:
        graph.submit([TaskSpec(name)])
    except Rejected:
        assert not is_name(name)
    else:
        assert is_name(name)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5", 1.5), ("2.5s", 2.5), ("30m", 1800.0), ("1h30m", 5400.0), ("1 h 5 min", 3900.0),
     ("250ms", 0.25), ("1d", 86400.0), ("", None), ("m", None), ("5x", None), ("-5s", None), ("5s x", None)],
)  # fmt: skip
def test_spans_of_time(text: str, seconds: float | None) -> None:
    """Numbers with units, one after the other; a bare number is seconds."""
    assert span_of(text) == seconds


def test_a_deadline_that_passed(tmp_path: Path) -> None:
    """A plan with one isn't begun, but a batch that has begun goes on, whose task may be done long ago."""
    path = tmp_path / "plan.yaml"
    passed = datetime.now() - timedelta(minutes=1)
    path.write_text(f"tasks: {{late: {{command: 'true', deadline: '{passed:%Y-%m-%dT%H:%M:%S}'}}}}")
    with pytest.raises(PlanError, match="must be a moment from now on"):
        read_plan(path, "plan.yaml")
    deadline = read_plan(path, "plan.yaml", begun=True).tasks["late"].deadline
    assert deadline is not None
    assert deadline.at == int(passed.timestamp())
