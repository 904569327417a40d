"""Runs of targets by atheris, which is libFuzzer for Python: it keeps the mutated inputs that reach new branches.

Its process ends with the first finding, so each run is a process of its own, forked from one that has imported and
instrumented everything.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fuzz.kit import Target

AREAS = ("streams", "json_text", "replies", "limits", "encodings", "redaction", "files", "http", "calls", "records")
"""The modules of targets."""
TIMEOUT_S = 25
"""A single input that takes longer is a finding."""
_MINIMISED_S = 60.0
_MEMORY_MB = 3000
_BROKEN = "found-broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that breaks a target's property."""

    target: Target
    path: Path
    why: str


def load(*, instrumented: bool) -> None:
    """Import all targets, and with them what they test, so that atheris sees which branches run."""
    if not instrumented:
        for area in AREAS:
            importlib.import_module(f"fuzz.{area}")
        return
    import atheris

    shown, sys.stderr = sys.stderr, open(os.devnull, "w")  # noqa: SIM115 - names each module
    try:
        with atheris.instrument_imports(include=["hivemind"]):
            load(instrumented=False)
    finally:
        sys.stderr = shown


def run(target: Target, work: Path, *, seconds: float, runs: int, seed: int) -> tuple[str, Finding | None]:
    """Try mutated inputs for a time or a number of runs (0: without end). Return the statistics, and what was found.

    `work` keeps the inputs that reached something new, from which the next run goes on.
    """
    corpus, log = work / "corpus", work / "log"
    corpus.mkdir(parents=True, exist_ok=True)
    for old in work.glob("found-*"):
        old.unlink()
    tokens = work / "tokens"
    tokens.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens), "ascii")
    arguments = [
        *("fuzz", f"-artifact_prefix={work}/found-", f"-dict={tokens}", f"-max_len={target.longest}", f"-seed={seed}"),
        *(
            f"-timeout={TIMEOUT_S}",
            f"-report_slow_units={TIMEOUT_S}",
            f"-rss_limit_mb={_MEMORY_MB}",
            "-print_final_stats=1",
            "-verbosity=1",
        ),
        *((f"-max_total_time={max(1, round(seconds))}",) if seconds else ()),
        *((f"-runs={runs}",) if runs else ()),
        str(corpus),
        *((str(target.folder),) if target.folder.is_dir() else ()),
    ]
    with log.open("wb") as output:
        status = _forked(lambda: _fuzz(arguments, target, work / _BROKEN), output.fileno())
    text = log.read_text("utf-8", "replace")
    found = sorted(work.glob("found-*"))
    if not found:
        if status:
            raise RuntimeError(f"{target.name}: the fuzzer ended with {status}:\n{text[-2000:]}")
        return _statistics(text), None
    return _statistics(text), _kept(target, found[0], text)


def _fuzz(arguments: list[str], target: Target, broken: Path) -> None:
    import atheris

    def run(data: bytes) -> None:
        try:
            target.run(data)
        except Exception:
            broken.write_bytes(data)  # libFuzzer itself writes only what takes too long or too much memory
            raise

    atheris.Setup(arguments, run)
    atheris.Fuzz()


def _forked(work: Callable[[], None], output: int) -> int:
    """Do something in a process of its own. Return its status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def _escaped(token: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in token)


def _statistics(text: str) -> str:
    wanted = {"number_of_executed_units": "runs", "average_exec_per_sec": "a second", "new_units_added": "new inputs"}
    found = dict(line[6:].split(":") for line in text.splitlines() if line.startswith("stat::"))
    return ", ".join(f"{found[name].strip()} {shown}" for name, shown in wanted.items() if name in found)


# --- Findings ---------------------------------------------------------------------------------------------------------


def _kept(target: Target, found: Path, text: str) -> Finding:
    """Put an input, as short as it can be made, among the kept ones."""
    data = found.read_bytes()
    why = broken_by(target, data) if found.name == _BROKEN else ""
    if why:
        data = _minimised(target, data, why.partition(":")[0])
        why = broken_by(target, data)
    else:
        lines = [line for line in text.splitlines() if "Exception" in line or "ERROR" in line]
        why = lines[0] if lines else found.name
    target.folder.mkdir(parents=True, exist_ok=True)
    path = target.folder / f"found-{blake2b(data, digest_size=4).hexdigest()}"
    path.write_bytes(data)
    return Finding(target, path, why)


def broken_by(target: Target, data: bytes) -> str:
    """Return in one line how an input breaks the property; nothing where it doesn't."""
    try:
        target.run(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return ""


def _minimised(target: Target, data: bytes, kind: str) -> bytes:
    """Return what remains of an input when all is left out without which the same kind of error is raised."""
    until = time.monotonic() + _MINIMISED_S
    size = len(data)
    while size := size // 2:
        at = 0
        while at < len(data):
            if time.monotonic() > until:
                return data
            shorter = data[:at] + data[at + size :]
            if broken_by(target, shorter).partition(":")[0] == kind:
                data = shorter
            else:
                at += size
    return data


def replayed(target: Target) -> Iterator[tuple[Path, bytes]]:
    """Yield the kept inputs."""
    for path in target.kept():
        yield path, path.read_bytes()
