"""Where a key may be found besides the upstream that it was sent to; docs/security.md has the same table."""

from __future__ import annotations

import re
from typing import NamedTuple


class Place(NamedTuple):
    """A row of the table, and the outputs and keys that it stands for, as patterns."""

    where: str
    what: str
    outputs: str
    keys: str


_RECORDED = (
    r"file state/journals/|file out\.(har|csv)|file err\.txt|hivemind journal show|GET /_control/requests([/?]|$)"
)
ALLOWED = (
    Place("files of yours", "settings as you wrote them", r"file hivemind\.toml", "settings: "),
    Place(
        "`control-PORT.json`, while the proxy runs",
        "the control token",
        r"running: control-\d+\.json",
        "settings: control token",
    ),
    Place(
        "`proxy-PORT.db`, checkpoints, and for the operator the lists of both (`/_control`, `--json`)",
        "commands of runs and tasks, as they were given",
        r"file state/(proxy-\d+\.db|checkpoints/)|GET /_control/(tasks|checkpoints)"
        r"|hivemind (tasks|checkpoints) --json",
        r"task: (argument|output)",
    ),
    Place(
        "`batches/`, and the standard output of `hivemind run`",
        "what an agent's process writes itself",
        r"file state/batches/.*\.log|hivemind run, standard output",
        r"task: (argument|output|variable)",
    ),
    Place(
        "variables and command lines of an agent's process and its runner",
        "what the runner was given, but for the variables of settings that hold secrets (`HIVEMIND_ALERTS__WEBHOOK`,"
        " ...): programs remove them once they are read",
        r"file (environ|cmdline)\.txt",
        r"task: (variable|argument|output)$",
    ),
    Place(
        "a request's page, `/_control/requests`, the log, and journals with what is exported from them",
        "a key of no known form that came in a header of no known name, where the upstream repeats it",
        _RECORDED,
        r"client: header x-(tenant|made-up): ",
    ),
)


def allowed(output: str, key: str) -> Place | None:
    """The row by which a key that was put in a place may stand in an output."""
    return next((row for row in ALLOWED if re.match(row.outputs, output) and re.match(row.keys, key)), None)
