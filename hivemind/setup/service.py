"""The proxy as a service of the user: a unit for systemd, a property list for launchd."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

Manager = Literal["systemd", "launchd"]
LABEL = "dev.hivemind.proxy"
"""The name of the service for launchd."""
_MARK = "# Written by hivemind setup service."
_STOPS_WITHIN_S = 15
"""How long the proxy may take to end once nothing is in flight any more."""
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:@,")

_UNIT = """\
{mark}
[Unit]
Description=HiveMind, a proxy that schedules agents on a rate-limited LLM API

[Service]
Type=exec
ExecStart={command}
# HIVEMIND_TOKEN and the like, one NAME=value a line, in a file that only you can read.
EnvironmentFile=-%E/hivemind/environment
Restart=on-failure
RestartSec=2
# A mistake in the settings doesn't go away by itself.
RestartPreventExitStatus=2
# Streams in flight may finish.
KillMode=mixed
TimeoutStopSec={stops_within_s}
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""


class Service(Struct, frozen=True):
    """A file that has the system run the proxy, and what to do with it."""

    path: Path
    text: str
    start: tuple[str, ...]
    """The commands that start it, now and at each login."""
    stop: tuple[str, ...]
    """Those that take it away again."""
    more: str = ""
    """What else is good to know."""

    def replaces(self, text: str) -> bool:
        """Return whether a file of this text may be replaced, because it was written by this program."""
        return text == self.text or text.startswith(_MARK) or f"<string>{LABEL}</string>" in text


def service(
    manager: Manager, command: Sequence[str], drain_s: float, home: Path, environ: Mapping[str, str]
) -> Service:
    """Return the service that runs this command, which ends on SIGTERM once streams in flight have ended."""
    stops_within_s = round(drain_s) + _STOPS_WITHIN_S
    if manager == "systemd":
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Service(
            config / "systemd" / "user" / "hivemind.service",
            _UNIT.format(mark=_MARK, command=" ".join(map(_quoted, command)), stops_within_s=stops_within_s),
            ("systemctl --user daemon-reload", "systemctl --user enable --now hivemind"),
            ("systemctl --user disable --now hivemind",),
            "its log: journalctl --user -u hivemind; to have it run while nobody is logged in: loginctl enable-linger",
        )
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    log = str(home / "Library" / "Logs" / "hivemind.log")
    values = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": stops_within_s,
        "ProcessType": "Interactive",
        "Umask": 0o77,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return Service(
        path,
        plistlib.dumps(values, sort_keys=False).decode(),
        (f"launchctl bootstrap gui/$(id -u) '{path}'",),
        (f"launchctl bootout gui/$(id -u)/{LABEL}",),
        f"its log: {log}",
    )


def _quoted(word: str) -> str:
    """Return a word of a command line as systemd reads it, where `%` and `$` have a meaning within quotes too."""
    text = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.issuperset(word):
        return text
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
