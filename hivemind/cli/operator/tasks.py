"""`hivemind tasks`: the task graph, and words that change it."""

from __future__ import annotations

import argparse
import os
import time

from hivemind.api_types import NOBODY, TasksPart, TaskState
from hivemind.cli import changes, client
from hivemind.cli.plugin import Command
from hivemind.console import print_note, printable
from hivemind.control.discovery import AGENT_VARIABLE
from hivemind.errors import UsageError
from hivemind.parser import Parser
from hivemind.scheduler.tasks import OPEN
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget, parse_budget
from hivemind.text.humanise import count, moment
from hivemind.text.table import Cell, TextColumn, lines, width

_COLUMNS = (
    TextColumn("TASK", cut=True, least=24),
    TextColumn("STATE"),
    TextColumn("PRIORITY", spare=1),
    TextColumn("TOKENS", right=True, spare=3),
    TextColumn("TRIED", right=True, spare=2),
    TextColumn("AFTER", cut=True, spare=4),
    TextColumn("NOTE", cut=True),
)
_STATES = {"running": "good", "done": "dim", "failed": "bad", "blocked": "bad"}
_STATES |= dict.fromkeys(("paused", "skipped", "cancelled"), "warn")
_LIST = "Show the tasks: what each waits for, and how it went."
_SUBMIT = "Add a task. A runner starts the command; of a task without one, report how it went with done or fail."
_CHANGES = {"cancel": ("CancelTask", "is cancelled"), "retry": ("RetryTask", "will be tried again")}
_SUMMARIES = {
    "done": "a running task ended well",
    "fail": "a running task ended badly",
    "cancel": "a task isn't wanted any more",
    "retry": "a task that failed, was cancelled or is paused is to be tried again",
}
_PRIORITIES = [each.name.lower() for each in Priority]


def _configure(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(title="words", metavar="WORD")
    for lists in (parser, words.add_parser("list", help="show the tasks, as without a word", description=_LIST)):
        lists.add_argument("--batch", metavar="NAME", help="only this batch's [all]")
        client.add_flags(lists)
    submit = words.add_parser("submit", help="add a task", description=_SUBMIT)
    assert isinstance(submit, Parser), "a parser's own are of its class"
    submit.rest = "line"
    _configure_submit(submit)
    for word, summary in _SUMMARIES.items():
        one = words.add_parser(word, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        one.add_argument("task", metavar="ID")
        if word in ("done", "fail"):
            one.add_argument("--note", metavar="TEXT", default="", help="how it went, for people")
        client.add_flags(one)
        one.set_defaults(run=_change if word in _CHANGES else _finish, word=word)


def _configure_submit(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NAME [flags] [-- command ...]"
    add = parser.add_argument
    add("name", metavar="NAME")
    add("--after", metavar="ID", action="append", default=[], help="must be done before; several times")
    add("--priority", choices=_PRIORITIES, default="normal", metavar="P", help=", ".join(_PRIORITIES))
    add("--tokens", metavar="N", default="0", help="about how many it will use, as in 50k")
    add("--agent", metavar="NAME", default="", help="who works on it [one of the task's name]")
    add("--batch", metavar="NAME", default="", help="the batch it belongs to")
    failure = "when a task fails that it waits for [block]"
    add("--on-failure", choices=("block", "skip"), default="block", help=failure)
    add("--attempts", metavar="N", type=int, default=1, help="times it may be started [1]")
    client.add_flags(parser)
    parser.set_defaults(run=_submit)


def _list(namespace: argparse.Namespace) -> int:
    tasks = client.find_proxy(namespace).get("/tasks", TasksPart, batch=namespace.batch).tasks
    none = f"no tasks in batch {namespace.batch}" if namespace.batch else "no tasks"
    return client.print_answer(namespace, tasks, shown(tasks, width()) if tasks else [none])


def shown(tasks: tuple[TaskState, ...], room: int | None) -> list[str]:
    """The table, by arrival."""
    return lines(_COLUMNS, [_row(task) for task in tasks], room)


def _row(task: TaskState) -> list[Cell | str]:
    spec = task.spec
    return [
        spec.id,
        Cell(task.state, _STATES.get(task.state, "")),
        task.priority.name.lower(),
        count(spec.estimated_tokens) if spec.estimated_tokens else "",
        # A try that was paused, or whose runner ended, isn't one of those that may fail.
        f"{task.attempt} of {spec.attempts}" if 0 < task.attempt <= spec.attempts else f"{task.attempt or ''}",
        ", ".join(spec.after) if task.state in OPEN else "",
        _note(task),
    ]


def _note(task: TaskState) -> str:
    if task.paused_s:
        return f"until {moment(now := time.time(), now + task.paused_s)}: {printable(task.note)}"
    return printable(task.note) if task.note or task.attended else "no runner"


def _submit(namespace: argparse.Namespace) -> int:
    batch = namespace.batch
    spec = TaskSpec(
        _in(batch, namespace.name),
        Priority[namespace.priority.upper()],
        _tokens(namespace.tokens),
        tuple(_in(batch, each) for each in namespace.after),
        namespace.agent,
        batch,
        tuple(namespace.line),
        namespace.on_failure,
        namespace.attempts,
        parent=os.environ.get(AGENT_VARIABLE, ""),
        cwd=os.getcwd() if namespace.line else "",
    )
    proxy = client.find_proxy(namespace)
    done = proxy.command("SubmitTasks", tasks=(spec,))
    added = next((task for task in proxy.get("/tasks", TasksPart, batch=batch).tasks if task.spec.id == spec.id), None)
    if added is not None and not added.attended:
        print_note(f"{spec.id}: {NOBODY}")
    return changes.print_change(namespace, proxy, done, [printable(f"task {spec.id} is there")])


def _in(batch: str, name: str) -> str:
    """Return the id of a task: the batch's name before its own, unless it is there already."""
    return f"{batch}.{name}" if batch and not name.startswith(f"{batch}.") else name


def _tokens(text: str) -> int:
    try:
        wanted = WantedBudget(0, None, None) if text == "0" else parse_budget(text)
    except ValueError:
        wanted = WantedBudget(None, None, None)
    if wanted.tokens is None or wanted != WantedBudget(wanted.tokens, None, None):
        raise UsageError(f"--tokens {text[:40]}: must be a number of tokens, as in 50k")
    return wanted.tokens


def _finish(namespace: argparse.Namespace) -> int:
    name, ok, proxy = namespace.task, namespace.word == "done", client.find_proxy(namespace)
    task = next((each for each in proxy.get("/tasks", TasksPart).tasks if each.spec.id == name), None)
    if task is not None and task.state == "ready" and not task.spec.command:
        proxy.command("ClaimTask", task=name)  # the work was done without the proxy
    done = proxy.command("FinishTask", task=name, ok=ok, note=namespace.note)
    return changes.print_change(namespace, proxy, done, [printable(f"task {name} {'is done' if ok else 'failed'}")])


def _change(namespace: argparse.Namespace) -> int:
    command, end = _CHANGES[namespace.word]
    return changes.send_command(namespace, f"task {namespace.task} {end}", command, task=namespace.task)


command = Command(_configure, _list)
