"""Files that other programs wrote: which there are under a path, what each is by its content, and what it tells.

What a session file tells is kept in the state directory, so that it is read once (:class:`Shelf`): who asked when and
what it used, and no text of theirs.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice, takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from hivemind import __version__
from hivemind.agent_names import KnownNames
from hivemind.errors import UsageError
from hivemind.journal.codec import BOM
from hivemind.journal.importers import FORMATS, claude_code, codex, flows, har
from hivemind.journal.importers.lines import beginning, decoded, lines
from hivemind.journal.importers.parsed import Entry, ParsedAttempt, UnreadableEntry, parse_entry
from hivemind.journal.importers.tables import Layout, layout_of, read, rows
from hivemind.journal.importers.told import Tale, Understanding, without_copies
from hivemind.journal.read.reader import what_else
from hivemind.processes import on_cores
from hivemind.settings.sections import AgentSettings
from hivemind.store.atomic import output_file
from hivemind.wire.identity import Claims

FOLDER = "recordings"
"""In the state directory: what was read of other programs' files, and the journals made of them."""
_FLOWS = re.compile(rb"\d{1,12}:")
_HAR = re.compile(rb'\{\s*"log"\s*:')
_JOURNAL = b'{"v":'
_HEAD = 1 << 18
_MOST_LINES = 50
_MOST_TITLES, _MOST_READ = 1000, 64 << 20
"""Lines and bytes before the first one that says what a file is."""
_anything: msgspec.json.Decoder[object] = msgspec.json.Decoder()
_MOST_FILES = 100_000
_VERSION = f"2 {__version__}"
HTTP = ("har", "mitmproxy")
Tell = Callable[[int, int], object]


class Source(Struct, frozen=True):
    """A file, and how it is read."""

    path: Path
    kind: str
    """`har`, `mitmproxy`, `claude-code`, `codex`, or the name of a table's layout."""
    form: str = ""
    """Of a table: `csv`, `jsonl` or `json`."""
    layout: Layout | None = None

    def read(self) -> Tale:
        """What the file tells. Raises: UsageError: it can't be read."""
        if self.kind == claude_code.NAME:
            return claude_code.read(self.path)
        if self.kind == codex.NAME or self.layout is None:
            return codex.read(self.path)
        return read(self.path, self.form, self.layout)


@dataclass
class Found:
    """What there is under the names that were given."""

    sources: list[Source] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """What can't be used, a line each."""
    others: int = 0
    """Files of folders that are something else."""


def find_sources(texts: Iterable[str], layout: Layout | None = None) -> Found:
    """Every recording that is meant by these paths of files and folders, and patterns.

    Raises: UsageError: nothing is there, or nothing of it is a recording.
    """
    found, seen, said = Found(), set(), ""
    for text in texts:
        named = _paths(text)
        for path, within in named:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            try:
                found.sources.append(_source(path, layout))
            except UsageError as error:
                said = said or str(error)
                if within:
                    found.others += 1
                else:
                    found.foreign.append(str(error))
    if not found.sources:
        what = found.foreign[0] if found.foreign else f"{', '.join(texts)}: no recording is in it"
        raise UsageError(what)
    return found


def is_known(path: Path) -> bool:
    """Whether a file is such a recording. Raises: UsageError: it can't be read."""
    try:
        return bool(_source(path, None))
    except UsageError:
        return False


def _paths(text: str) -> Iterator[tuple[Path, bool]]:
    """Files, and whether they were found in a folder."""
    path = Path(os.path.expanduser(text))
    if not path.exists() and glob.has_magic(text):
        matching = sorted(_matching(path))
        if not matching:
            raise UsageError(f"{text}: no file matches it")
        for each in matching:
            yield from _within(each) if each.is_dir() else [(each, False)]
    elif path.is_dir():
        yield from _within(path)
    else:
        yield path, False
        beside = path.with_suffix("") / "subagents"
        if beside.is_dir():
            yield from _within(beside)


def _matching(pattern: Path) -> Iterator[Path]:
    """What matches it; `**` doesn't follow links, which may lead around in circles."""
    plain = [*takewhile(lambda part: not glob.has_magic(part), pattern.parts)]
    return Path(*plain).glob(os.path.join(*pattern.parts[len(plain) :]))


def _within(folder: Path) -> Iterator[tuple[Path, bool]]:
    count = 0
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if (count := count + 1) > _MOST_FILES:
                raise UsageError(f"{folder}: has more than {_MOST_FILES:,} files; name fewer of them")
            yield Path(at) / name, True


def _source(path: Path, layout: Layout | None) -> Source:
    """Raises: UsageError: it is no recording."""
    if not path.exists():
        raise UsageError(f"{path}: no such file")
    head = beginning(path, _HEAD)
    plain = head.removeprefix(BOM).lstrip(b"\0 \t\r\n")
    if _FLOWS.match(head) and layout is None:
        return Source(path, "mitmproxy")
    if plain.startswith(_JOURNAL):
        raise UsageError(f"{path}: is a journal already; give its path wherever one is asked for")
    if not plain:
        raise UsageError(f"{path}: is empty")
    if plain.startswith((b"{", b"[")):
        return _json_source(path, plain, layout)
    packed = what_else(head, None)
    if packed.startswith(("is packed", "is written")):
        raise UsageError(f"{path}: {packed}")
    columns = plain.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    separator = max(",;\t", key=columns.count)
    named = [each.strip().strip('"') for each in columns.split(separator)]
    chosen = layout or layout_of(named)
    if chosen is None or (layout is not None and separator not in columns and len(named) == 1 and b"\0" in head):
        raise UsageError(f"{path}: is none of the recordings that are read: {FORMATS}")
    _check_columns(path, layout, named)
    return Source(path, chosen.name, "csv", chosen)


def _json_source(path: Path, head: bytes, layout: Layout | None) -> Source:
    if layout is None and (_HAR.match(head) or (head.startswith(b"{") and head.strip() == b"{")):
        return Source(path, "har")
    objects = _objects_of(path, head)
    if layout is None:
        if codex.matches(objects):
            return Source(path, codex.NAME)
        if claude_code.matches(objects):
            return Source(path, claude_code.NAME)
    form = "jsonl" if objects and head.startswith(b"{") else "json"
    first: Mapping[str, object] | None = objects[0] if objects else None
    if first is None or not (layout or layout_of(first)):
        form, first = "json", next(iter(rows(path, "json", Tale(""))), None) if head[:1] in b"{[" else None
    chosen = layout or (None if first is None else layout_of(_names_in(first)))
    if layout is None and first is not None and "log" in first:
        return Source(path, "har")
    if chosen is None:
        raise UsageError(f"{path}: is none of the recordings that are read: {FORMATS}")
    if first is not None and layout is not None and "." not in "".join(sum(layout.columns.values(), ())):
        _check_columns(path, layout, list(first))
    return Source(path, chosen.name, form, chosen)


def _names_in(row: object) -> list[str]:
    """Columns of a row; spans are rows already."""
    names = list(row) if isinstance(row, dict) else []
    return [*names, "resourceSpans"] if {"spanId", "startTimeUnixNano"} <= set(names) else names


def _check_columns(path: Path, layout: Layout | None, named: list[str]) -> None:
    for columns in () if layout is None else layout.columns.values():
        if columns[0] not in named:
            known = ", ".join(named[:12])
            raise UsageError(f"--columns: {path} has no column {columns[0][:40]!r}; it has {known[:300]}")


def _objects_of(path: Path, head: bytes) -> list[dict[str, object]]:
    """The objects of the first lines, and of more where these are long, or titles and the like."""
    found = _objects_in(head.split(b"\n")[:_MOST_LINES])
    if not head.startswith(b"{") or _says(found) or (found and layout_of(found[0])):
        return found
    read = 0
    for line in islice(lines(path, Tale("")), _MOST_TITLES):
        one = _objects_in([line])
        if _says(one):
            return one
        if (read := read + len(line)) > _MOST_READ:
            break
    return found


def _says(objects: list[dict[str, object]]) -> bool:
    return codex.matches(objects) or claude_code.matches(objects)


def _objects_in(texts: Iterable[bytes]) -> list[dict[str, object]]:
    tale = Tale("")
    values = (decoded(text, _anything, tale) for text in texts)
    return [value for value in values if isinstance(value, dict)]


class Shelf:
    """What was read of files before; a file that changed is read again."""

    def __init__(self, state_dir: Path | None) -> None:
        self._folder = None if state_dir is None else state_dir / FOLDER
        self._decoder = msgspec.msgpack.Decoder(tuple[str, list[int], Tale])

    def tale(self, source: Source) -> Tale:
        """What a file tells. Raises: UsageError: it can't be read."""
        if self._folder is None or source.kind not in (claude_code.NAME, codex.NAME):
            return source.read()  # the others are read as fast as what is kept of them
        try:
            status = source.path.stat()
        except OSError as error:
            raise UsageError(f"{source.path}: can't be read ({error.strerror})") from None
        name = blake2b(os.fsencode(source.path.resolve()), digest_size=12).hexdigest()
        path, stamp = self._folder / f"{name}.msgpack", [status.st_size, status.st_mtime_ns]
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            version, known, tale = self._decoder.decode(path.read_bytes())
            if version == _VERSION and known == stamp:
                return tale
        tale = source.read()
        with contextlib.suppress(OSError, UsageError):  # it is read again next time
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with output_file(path, str(path)) as file:
                file.write(msgspec.msgpack.encode((_VERSION, stamp, tale)))
        return tale


def understood(
    found: Found, shelf: Shelf, counts: Counter[str], tell: Tell = lambda done, of: None
) -> list[ParsedAttempt]:
    """The requests of models; entries that aren't are counted by why, files that can't be read are noted. `tell` is
    called with the files that are done, and all."""
    claims, made = Claims(KnownNames(), AgentSettings()), Understanding()
    tries: list[ParsedAttempt] = []

    def parse(source: Source) -> None:
        entries = har.entries(source.path) if source.kind == "har" else flows.entries(source.path)
        tries.extend(_parsed(entries, claims, counts))

    tales = tales_of(found, shelf, counts, tell, parse)
    unseen = {id(told): tale.unseen for tale in tales for told in tale.attempts}
    tries += [made.attempt(told, unseen[id(told)]) for told in without_copies(tales)]
    return tries


def tales_of(
    found: Found, shelf: Shelf, counts: Counter[str], tell: Tell, parse: Callable[[Source], None] | None = None
) -> list[Tale]:
    """What the files tell, as of :func:`understood`; they are read on all cores. `parse` takes those that are
    recordings of HTTP."""

    def read(source: Source) -> Tale | UsageError:
        try:
            return shelf.tale(source)
        except UsageError as error:
            return error

    logs = [each for each in found.sources if each.kind not in HTTP]
    results: list[Tale | UsageError] = on_cores(read, logs, tell)
    for done, source in enumerate(each for each in found.sources if each.kind in HTTP):
        tell(len(logs) + done, len(found.sources))
        try:
            if parse is not None:
                parse(source)
        except UsageError as error:
            results.append(error)
    tales = [each for each in results if isinstance(each, Tale)]
    errors = [each for each in results if isinstance(each, UsageError)]
    if errors and len(found.sources) == 1:
        raise errors[0]
    found.foreign += map(str, errors)
    for tale in tales:
        counts.update(tale.skipped)
    return tales


def _parsed(
    entries: Iterable[Entry | UnreadableEntry | None], claims: Claims, counts: Counter[str]
) -> Iterator[ParsedAttempt]:
    for entry in entries:
        if isinstance(entry, UnreadableEntry):
            counts[str(entry)] += 1
        elif entry is None or (tried := parse_entry(entry, claims)) is None:
            counts["no requests of models"] += 1
        else:
            yield tried
