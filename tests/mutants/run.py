"""Makes one fault at a time in a copy of the product and runs the tests that should catch it: `make mutants`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
MOST_S = 300.0
"""A fault that has kept its tests busy for so long counts as caught: they take seconds."""
_CAUGHT_BY = re.compile(r"^(?:FAILED|ERROR) (tests/[\w/]+\.py::[\w:]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: the file that has it, what stands there, what stands there instead, what breaks for a user, and the
    files or folders of the tests that should catch it."""

    file: str
    original: str
    mutated: str
    breaks: str
    tests: list[str]

    def __str__(self) -> str:
        return f"{self.file}: {self.breaks}"

    def applied(self) -> str:
        """Return the file with the fault. Raises: ValueError: the row doesn't fit the tree any more."""
        path = ROOT / self.file
        source = path.read_text("utf-8") if path.is_file() else ""
        if (times := source.count(self.original)) != 1:
            raise ValueError(f"{self}: the original text must be there once, not {times} times: {self.original!r}")
        if missing := [name for name in self.tests if not (ROOT / name).exists()]:
            raise ValueError(f"{self}: no such tests: {', '.join(missing)}")
        return source.replace(self.original, self.mutated)


def load() -> list[Mutant]:
    """Return the kept faults."""
    return [Mutant(**row) for row in tomllib.loads(TABLE.read_text("utf-8"))["mutant"]]


def run_tests(copy: Path, tests: list[str]) -> tuple[int, str]:
    """Run these tests, up to the first failure, against the copy. Return pytest's exit code and output."""
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not slow and not e2e and not clients", *tests]
    # The copy comes before the installed package, which is the tree itself, as -P keeps the working directory out of
    # the path. Hypothesis mustn't remember what a fault broke.
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    env["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copy / ".hypothesis")
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, ""
    return done.returncode, done.stdout + done.stderr


def main(wanted: list[str]) -> int:
    """Try the faults whose row mentions one of these words, or all. Return 1 if any survived, or couldn't be tried."""
    mutants = [each for each in load() if not wanted or any(word in f"{each} {each.tests}" for word in wanted)]
    if not mutants:
        print(f"no row mentions {' or '.join(wanted)}", file=sys.stderr)
        return 2
    failures, caught_by = 0, set[str]()
    with tempfile.TemporaryDirectory(prefix="hivemind-mutants-") as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "hivemind", copy / "hivemind", ignore=shutil.ignore_patterns("__pycache__"))
        for number, mutant in enumerate(mutants, 1):
            print(f"{number}/{len(mutants)} ", end="", flush=True)
            try:
                applied = mutant.applied()
            except ValueError as error:
                failures += 1
                print(error)
                continue
            path = copy / mutant.file
            original = path.read_text("utf-8")
            _write(path, applied)
            code, output = run_tests(copy, mutant.tests)
            _write(path, original)
            failing = _CAUGHT_BY.findall(output)
            caught_by.update(failing)
            failures += code != 1
            outcome = {0: "SURVIVED", 1: "caught"}.get(code, f"pytest couldn't run (exit code {code}):\n{output}")
            print(outcome, mutant, *failing[:1], sep="  ", flush=True)
        if caught_by:
            code, output = run_tests(copy, sorted(caught_by))
            if code:
                failures += 1
                print(f"tests that caught a fault fail without one, too:\n{output}")
    return 1 if failures else 0


def _write(path: Path, source: str) -> None:
    """Write a module, and remove its bytecode: within a second and of the same size it would count as the module's."""
    path.write_text(source, "utf-8")
    for cached in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        cached.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
