"""What a run's process may try to raise itself. Started as a program in the run, it tries all, and prints how it went:
for each attempt the status, or the exit code, and the text."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

OWN, CONTROL, ANOTHERS = "own", "control", "another's"
"""Whose token is shown: the run's, the operator's from the proxy's note, or that of the run that started it."""


def command(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "who": "operator"}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


LIFT = command("SetBudget", agent="ann")
TASK = {"id": "n", "agent": "bob", "after": ["t"]}
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "lift its budget": (OWN, "/_control/commands", LIFT),
    "raise its budget": (OWN, "/_control/commands", command("SetBudget", agent="ann", tokens=10**6)),
    "have its budget count less": (OWN, "/_control/commands", command("SetBudget", agent="ann", tokens=5, per="day")),
    "as another spelling": (OWN, "/_control/commands", command("SetBudget", agent="ANN", tokens=10**6)),
    "through the fleet": (OWN, "/_control/fleet/commands", LIFT),
    "with the operator's token": (CONTROL, "/_control/commands", LIFT),
    "with it through the fleet": (CONTROL, "/_control/fleet/commands", LIFT),
    "with another's token": (ANOTHERS, "/_control/commands", LIFT),
    "lift the budget of all": (OWN, "/_control/commands", command("SetBudget", agent=None)),
    "set the budget of all": (CONTROL, "/_control/commands", command("SetBudget", agent=None, tokens=10**9)),
    "lift its parent's budget": (ANOTHERS, "/_control/commands", command("SetBudget", agent="mother")),
    "lift another's budget": (OWN, "/_control/commands", command("SetBudget", agent="bob")),
    "lower another's budget": (CONTROL, "/_control/commands", command("SetBudget", agent="bob", tokens=1)),
    "a budget for a new name": (OWN, "/_control/commands", command("SetBudget", agent="new", tokens=10**9)),
    "be more urgent": (OWN, "/_control/commands", command("SetPriority", agent="ann", priority="critical")),
    "be boosted": (OWN, "/_control/commands", command("BoostAgent", agent="ann", for_s=60)),
    "make another less urgent": (OWN, "/_control/commands", command("SetPriority", agent="bob", priority="low")),
    "stop another": (OWN, "/_control/commands", command("StopAgent", agent="bob", stopped=True)),
    "pause all": (OWN, "/_control/commands", command("PauseAdmissions", paused=True)),
    "end the proxy": (OWN, "/_control/commands", command("Drain", draining=True)),
    "turn a knob": (OWN, "/_control/commands", command("Tune", knob="rpm", value=0)),
    "close a circuit": (OWN, "/_control/commands", command("SetCircuit", mode="closed")),
    "begin its run anew": (OWN, "/_control/commands", command("BeginAgent", agent="ann")),
    "end another's run": (OWN, "/_control/commands", command("EndAgent", agent="bob", exit_code=0)),
    "release its child": (OWN, "/_control/commands", command("StopAgent", agent="child", stopped=False)),
    "start its child anew": (OWN, "/_control/places", {"agent": "child", "runner": "r"}),
    "raise its child's budget": (CONTROL, "/_control/commands", command("SetBudget", agent="child", tokens=500)),
    "take its own place": (OWN, "/_control/places", {"agent": "ann", "runner": "r"}),
    "take another's name": (OWN, "/_control/places", {"agent": "bob", "runner": "r"}),
    "release another's place": (OWN, "/_control/places/leave", {"agent": "mother", "runner": "m"}),
    "a more urgent task": (
        OWN,
        "/_control/commands",
        command("SubmitTasks", tasks=[{"id": "n", "priority": "critical"}]),
    ),
    "a task that holds another": (OWN, "/_control/commands", command("SubmitTasks", tasks=[TASK])),
    "make a task more urgent": (OWN, "/_control/commands", command("SetTaskPriority", task="t", priority="critical")),
    "cancel another's task": (OWN, "/_control/commands", command("CancelTask", task="t")),
    "claim another's task": (OWN, "/_control/tasks/claim", {"runner": "r"}),
    "forget others' tasks": (OWN, "/_control/commands", command("ForgetTasks", batch="")),
    "draft a settings file": (OWN, "/_control/settings/draft", {"values": {"rpm": 0}}),
    "read another's request": (OWN, "/_control/requests/1", None),
    "a tool": (OWN, "/mcp", tool("hm.budget", remove=True)),
    "a tool with the operator's token": (CONTROL, "/mcp", tool("hm.budget", agent="ann", tokens=10**6)),
    "a tool for all": (OWN, "/mcp", tool("hm.config", pause=True)),
    "a tool under another name": (OWN, "/agent/mother/mcp", tool("hm.budget", remove=True)),
}


def sent(shown: str, path: str, body: Any) -> tuple[int, str]:
    """Send one request."""
    head = {"authorization": f"Bearer {token(shown)}", "content-type": "application/json"}
    head["accept"] = "application/json, text/event-stream"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(os.environ["HIVEMIND_URL"] + path, data, head)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def token(shown: str) -> str:
    if shown == OWN:
        return os.environ["HIVEMIND_RUN_TOKEN"]
    if shown == ANOTHERS:
        return os.environ["ANOTHERS"]
    return str(json.loads(Path(os.environ["NOTE"]).read_text())["token"])


def orphaned() -> tuple[int, str]:
    """From a process without parents, in a session of its own and with none of the run's variables."""
    words = [sys.executable, __file__, "lift", os.environ["HIVEMIND_URL"], os.environ["NOTE"], "lifted"]
    shell = subprocess.run(["setsid", "sh", "-c", '"$@" & exit 0', "sh", *words], env={"PATH": "/usr/bin:/bin"})
    assert shell.returncode == 0
    while not Path("lifted").exists():
        time.sleep(0.01)
    status, text = json.loads(Path("lifted").read_text())
    return status, text


def lift(url: str, note: str, result: str) -> None:
    """What the orphan does."""
    os.environ.update(HIVEMIND_URL=url, NOTE=note)
    Path("draft").write_text(json.dumps(sent(CONTROL, "/_control/commands", LIFT)))
    os.rename("draft", result)


def forgotten() -> None:
    """From a process that is gone before it can be looked at."""
    if os.fork():
        os.wait()
        return
    host, _, port = os.environ["HIVEMIND_URL"].rpartition("/")[2].partition(":")
    body = json.dumps(LIFT)
    head = f"POST /_control/commands HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token(CONTROL)}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    socket.create_connection((host, int(port))).sendall((head + body).encode())
    os._exit(0)


def spoken() -> None:
    """Through the tools on standard input and output; prints the answer."""
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    lines = (
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        tool("hm_budget", agent="ann", remove=True),
    )
    with subprocess.Popen(("hivemind", "mcp"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(each) + "\n" for each in lines).encode())
        server.stdin.flush()
        server.stdout.readline()
        print(server.stdout.readline().decode().strip())
        server.stdin.close()


def main() -> None:
    if sys.argv[1:2] == ["spoken"]:
        return spoken()
    if sys.argv[1:2] == ["lift"]:
        return lift(*sys.argv[2:])
    made = {name: sent(*each) for name, each in REQUESTS.items()}
    made["as an orphan"] = orphaned()
    forgotten()
    print(json.dumps(made))


if __name__ == "__main__":
    main()
