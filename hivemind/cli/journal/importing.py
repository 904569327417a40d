"""`hivemind journal import`: a journal of what another program recorded."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from hivemind import __version__
from hivemind.agent_names import KnownNames
from hivemind.cli.journals import state_folder
from hivemind.console import print_note, printable
from hivemind.errors import UsageError
from hivemind.journal.codec import BOM, line_of
from hivemind.journal.files import folder_in, part_path, parts_in
from hivemind.journal.importers import flows, har
from hivemind.journal.importers.events import EventBuilder
from hivemind.journal.importers.parsed import Entry, ParsedAttempt, UnreadableEntry, grouped, parse_entry
from hivemind.journal.read.reader import opened, what_else
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler.events import Event
from hivemind.settings.sections import AgentSettings
from hivemind.store.atomic import output_file
from hivemind.text.humanise import plural
from hivemind.wire.identity import Claims

_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)
_FLOWS = re.compile(rb"\d{1,12}:")


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    path = Path(namespace.file).expanduser()
    if namespace.name is not None and not _NAME.fullmatch(namespace.name):
        raise UsageError("--name: a journal's name is of letters, digits, _ and -, 80 at most")
    folder = folder_in(state_folder(namespace))
    source = _source(path)
    counts: Counter[str] = Counter()
    tries = list(_understood(har.entries(path) if source == "har" else flows.entries(path), counts))
    if not tries:
        raise UsageError(f"{path}: no request of a model is in it{_left_out(counts)}")
    requests = grouped(tries)
    began = min(each.entry.began_at for each in tries)
    name = namespace.name or f"{_moment(began)}-{source}"
    builder = EventBuilder(began, bodies=namespace.bodies)
    events = builder.events(requests)
    first = JournalBegan(
        at=0.0,
        wall=began,
        journal=name,
        part=1,
        program=f"hivemind {__version__}",
        upstreams=builder.upstreams,
        bodies=namespace.bodies,
        source=source,
    )
    _write(folder, name, [first, *events, JournalEnded(events[-1].at)])
    count, agents = len(requests), len({tries[0].identity.agent for tries in requests})
    print(f"journal {name}: {plural(count, 'request')} of {plural(agents, 'agent')}, {plural(len(tries), 'attempt')}")
    if counts:
        sys.stdout.flush()
        print_note(f"{path.name}{_left_out(counts)}")
    return 0


def _source(path: Path) -> str:
    if not path.exists() or path.is_dir():
        raise UsageError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; name a HAR file or a dump")
    with opened(path) as file:
        start = file.read(1 << 16)
    if _FLOWS.match(start):
        return "mitmproxy"
    plain = start.removeprefix(BOM).lstrip()
    if plain.startswith(b'{"v":'):
        raise UsageError(f"{path}: is a journal already; give its path wherever one is asked for")
    if plain.startswith(b"{"):
        return "har"
    if not start:
        raise UsageError(f"{path}: is empty")
    packed = what_else(start, None)
    known = packed if packed.startswith(("is packed", "is written")) else "is neither a HAR file nor a mitmproxy dump"
    raise UsageError(f"{path}: {known}")


def _understood(entries: Iterable[Entry | UnreadableEntry | None], counts: Counter[str]) -> Iterator[ParsedAttempt]:
    """Yield the requests of models, and count the other entries by why they aren't."""
    claims = Claims(KnownNames(), AgentSettings())
    for entry in entries:
        if isinstance(entry, UnreadableEntry):
            counts[str(entry)] += 1
        elif entry is None or (tried := parse_entry(entry, claims)) is None:
            counts["no requests of models"] += 1
        else:
            yield tried


def _left_out(counts: Counter[str]) -> str:
    """`; left out: 3 (no requests of models), 1 (an entry has no URL)`."""
    if not counts:
        return ""
    reasons = [f"{count:,} ({printable(why[:100])})" for why, count in counts.most_common(5)]
    return f"; left out: {', '.join(reasons)}"


def _write(folder: Path, name: str, events: Iterable[Event]) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = name in parts_in(folder)
    except OSError as error:
        raise UsageError(f"{folder}: can't be written ({error.strerror})") from None
    if taken:
        raise UsageError(f"{name}: there is such a journal already; name this one with --name")
    path = part_path(folder, name, 1)
    with output_file(path, str(path)) as file:
        file.writelines(line_of(event) for event in events)


def _moment(wall: float) -> str:
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y%m%d-%H%M%S")
    except (OverflowError, ValueError, OSError):
        return "imported"
