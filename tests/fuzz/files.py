"""What people and other programs write: one clear line says what is wrong with it, and nothing else is raised."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import msgspec
from fuzz.kit import choices, require, target

from hivemind.agents.plans.document import PlanError
from hivemind.agents.plans.reading import read_plan
from hivemind.control.parsing import command_from
from hivemind.errors import UsageError
from hivemind.journal import codec
from hivemind.journal.importers import flows, har
from hivemind.journal.importers.parsed import UnreadableEntry
from hivemind.scheduler.commands import Rejected
from hivemind.settings.load import from_file_alone
from hivemind.store import checkpoints
from hivemind.wire.request_head import parse_path

_SECRET = "sk-ant-api03-canary0000000000"
_SHOWN = re.compile(rf"(?<![A-Za-z0-9]){_SECRET}")
"""Behind a letter it is part of a word."""


def _file(data: bytes, name: str) -> Path:
    """Return a file with these bytes, which the next one takes the place of."""
    path = Path(_FOLDER.name) / name
    path.write_bytes(data)
    return path


_FOLDER = tempfile.TemporaryDirectory(prefix="hivemind-fuzz-")


@target(
    "plan", [b"tasks:\n", b"  a: x\n", b"after: [", b"<<: *", b"&a ", b"budget: $2", b"timeout: 1h", b"env: {", b"!!"]
)
def plan(data: bytes) -> None:
    try:
        read_plan(_file(data, "plan.yaml"), "plan.yaml")
    except PlanError as error:
        for line in str(error).split("\n"):
            require(line.startswith("plan.yaml"), "no place", line)
            require(line.isprintable(), "not printable", line)


@target(
    "settings", [b"[proxy]\n", b"upstream = ", b"rpm = ", b"'''", b'control_token = "', _SECRET.encode(), b"[[", b"1e9"]
)
def settings(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        from_file_alone(text, "hivemind.toml")
    except UsageError as error:
        told = str(error)
        require("hivemind.toml" in told, "no origin", told)
        require(all(line.isprintable() for line in told.split("\n")), "not printable", told)
        require(not _SHOWN.search(told), "a secret is repeated", told)


@target(
    "har", [b'{"log":{"entries":[', b'"request":{', b'"url":"http://', b'"timings":{"wait":', b'"headers":[{', b"1e308"]
)
def har_file(data: bytes) -> None:
    try:
        for entry in har.entries(_file(data, "run.har")):
            require(not isinstance(entry, UnreadableEntry) or str(entry).isprintable(), "not a line", entry)
    except UsageError as error:
        require(str(error).isprintable(), "not a line", error)


@target(
    "mitmproxy", [b"4:type;4:http;", b"7:request;", b"8:response;", b"0:~", b"1:1#", b"4:true!", b"999999999999:", b"}"]
)
def mitmproxy(data: bytes) -> None:
    try:
        for entry in flows.entries(_file(data, "run.mitm")):
            require(not isinstance(entry, UnreadableEntry) or str(entry).isprintable(), "not a line", entry)
    except UsageError as error:
        require(str(error).isprintable(), "not a line", error)


@target(
    "checkpoint",
    [
        *(b'"agent":', b'"at":', b'"format":1', b"null", b"1e400", b',"conversation":\n', b"\n}\n"),
        b'"conversation_bytes":',
    ],
)
def checkpoint(data: bytes) -> None:
    """What is kept is read whole, or refused; its conversation is JSON."""
    try:
        kept = checkpoints.read(_file(data, "agent-1.json"))
        said = checkpoints.conversation(kept)
        require(said is None or msgspec.json.decode(said, type=msgspec.Raw), "no conversation", said)
    except checkpoints.Unreadable as error:
        require(str(error).isprintable(), "not a line", error)


@target("journal_line", [b'{"e":"', b'"at":', b'"usage":', b"null", b'"v":'])
def journal_line(data: bytes) -> None:
    """A line is an event, one of a kind that is unknown or was removed, or bad; an event that was read can be written
    and read."""
    codec.version_of(data)
    try:
        event = codec.event_of(data)
    except (codec.BadLine, codec.Unknown, codec.Removed):
        return
    require(codec.event_of(codec.line_of(event).rstrip(b"\n")) == event, "written and read, it is another", event)


@target(
    "command", [b'{"agent":"a"', b'"priority":', b'"tokens":', b"null", b"-1", b"1e300", b"true", b"hold", b"set_knob"]
)
def command(data: bytes) -> None:
    """A command's arguments are checked: it is made, or refused in one line."""
    name, _, body = data.partition(b" ")
    try:
        arguments = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    try:
        command_from(name.decode("latin-1"), arguments)
    except Rejected as error:
        require(str(error).isprintable(), "not a line", error)


@target(
    "path",
    [b"/agent/", b"/upstream/", b"/to/", b"/token/", b"//", b"/../", b"%2e", b"%252e", b";x=1", b"\\", b"/v1/messages"],
)
def path(data: bytes) -> None:
    """A path that isn't refused begins with a slash and can't leave the upstream's base path."""
    _, raw = choices(data, 0)
    found = parse_path(b"/" + raw)
    if not found.flaw:
        require(found.raw_path.startswith(b"/") and b"//" not in found.raw_path, "not a path", found)
        require(not {".", ".."} & set(found.path.split("/")), "it leaves the base path", found)
