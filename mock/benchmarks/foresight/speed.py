"""`python -m benchmarks.foresight.speed`: how soon what-if answers, and what memory it takes."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.figures import Figure, table
from benchmarks.foresight.answer import Answered
from benchmarks.foresight.hours import recorded_hour, repeated
from benchmarks.paths import environment
from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, show_progress

CHANGE = "max_concurrency=8"
_MEGABYTES = 1000
_COMMAND = ("-c", "import sys; from hivemind.cli.main import main; sys.exit(main())")
_ANSWER = ("-m", "benchmarks.foresight.answer")
_LOOK_S = 0.05
"""Between two looks at the memory of a program."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that has ended."""

    wall_s: float
    most_mb: float
    """Memory of its processes together, where what they share counts once, as often as it was looked at."""
    output: bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code. A missed target is a result, so that is 0 then too."""
    parser = argparse.ArgumentParser(prog="benchmarks.foresight.speed", description=__doc__)
    add = parser.add_argument
    add("--cache", metavar="FOLDER", help="where the journals are kept [nowhere]")
    add("--megabytes", metavar="N", type=int, default=_MEGABYTES, help="of the large journal [%(default)s]")
    add("--tune", action="store_true", help="measure hivemind tune, too, which takes minutes")
    add("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
        with tempfile.TemporaryDirectory(prefix="hivemind-speed-") as made:
            figures = measured(Path(namespace.cache or made), namespace.megabytes, tune=namespace.tune)
    except HiveMindError as error:
        print(f"benchmarks.foresight.speed: {error}", file=sys.stderr)
        return error.exit_code
    show_progress("")
    output.write(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    if not output.replaces_tables:
        print(table("what-if", figures))
    return 0


def measured(folder: Path, megabytes: int, *, tune: bool) -> list[Figure]:
    """Measure an hour of fifty agents, and a large journal. Raises: HiveMindError: a program failed."""
    folder.mkdir(parents=True, exist_ok=True)
    show_progress("an hour of fifty agents")
    hour = recorded_hour(folder)
    show_progress("what-if of an hour")
    figures = [*_of_the_hour(hour)]
    if tune:
        show_progress("tune of an hour")
        figures.append(
            Figure("hour: hivemind tune", run_program(*_COMMAND, "tune", str(hour)).wall_s, 90.0, False, "s")
        )
    show_progress(f"a journal of {megabytes} MB")
    large = repeated(hour, folder / f"{megabytes}-mb", megabytes * 1_000_000)
    show_progress(f"what-if of {megabytes} MB")
    return [*figures, *_of_the_command(f"{megabytes} MB", large, 60.0)]


def _of_the_hour(hour: Path) -> Iterator[Figure]:
    answered = msgspec.json.decode(run_program(*_ANSWER, str(hour), CHANGE).output, type=Answered)
    # What doesn't depend on the change that is asked about, and is done once for a recording.
    fit, answer = (answered.load, answered.held_out, answered.unchanged), answered.predict
    yield Figure("hour: requests", answered.requests, 9000, True)
    yield Figure("hour: fit", sum(each.wall_s for each in fit), 10.0, False, "s")
    yield Figure("hour: answer", answer.wall_s, 2.0, False, "s")
    # Other work on the machine adds less to these; the bounds are those of two processors in the same time.
    yield Figure("hour: fit, of processors", sum(each.cpu_s for each in fit), 20.0, False, "s")
    yield Figure("hour: answer, of processors", answer.cpu_s, 4.0, False, "s")
    yield from _of_the_command("hour", hour, 12.0)


def _of_the_command(name: str, journal: Path, most_s: float) -> Iterator[Figure]:
    ran = run_program(*_COMMAND, "what-if", str(journal), "--set", CHANGE)
    yield Figure(f"{name}: hivemind what-if", ran.wall_s, most_s, False, "s")
    yield Figure(f"{name}: its memory", ran.most_mb, 500.0, False, "MB")


def run_program(*arguments: str) -> Ran:
    """Run a Python program to its end. Raises: HiveMindError: it failed."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        command = [sys.executable, *arguments]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment()
        ) as process:
            most = 0
            while process.poll() is None:
                most = max(most, sum(map(_memory_kb, _family(process.pid))))
                time.sleep(_LOOK_S)
        wall_s = time.monotonic() - began
        if process.returncode:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise HiveMindError(f"{arguments[-1]}: {last[0] if last else f'exit code {process.returncode}'}")
        out.seek(0)
        return Ran(wall_s, most / 1000, out.read())


def _family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _family(int(child))


def _memory_kb(pid: int) -> int:
    """Return the memory of a process, its part of what it shares; 0: it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
