"""`make fuzz`: tries mutated inputs on every target, and beside that the property tests with many examples.

Findings are kept in `tests/fuzz/corpus/TARGET/`, where `make test` replays them.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from fuzz import engine
from fuzz.kit import TARGETS, Target

ROOT = Path(__file__).parents[2]
_WORK = ROOT / ".fuzz"
"""What runs go on from; not among the kept files, because it's much and holds nothing that broke something."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="how long in all")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target, from an empty corpus")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations; 0: another one each time")
    parser.add_argument("--target", action="append", help="only this one, and no property tests")
    parser.add_argument("--input", type=Path, help="replay this file, kept in a target's folder")
    asked = parser.parse_args()
    if asked.input is not None:
        engine.load(instrumented=False)
        TARGETS[asked.input.resolve().parent.name].run(asked.input.read_bytes())
        print(f"{asked.input} breaks nothing")
        return 0
    until = time.monotonic() + asked.minutes * 60
    properties = _PropertyTests(until) if asked.minutes and not (asked.target or asked.runs) else None
    if properties is not None:
        properties.start()
    failed = False
    if importlib.util.find_spec("atheris") is None:
        print("atheris has no package for this Python or system, so only the property tests run")
    else:
        failed = _fuzz(asked, until)
    if properties is not None:
        properties.join()
        failed |= properties.failed
    return int(failed)


def _fuzz(asked: argparse.Namespace, until: float) -> bool:
    """Give each target its share of the time. Return whether anything was found."""
    engine.load(instrumented=True)
    chosen = [TARGETS[name] for name in asked.target] if asked.target else list(TARGETS.values())
    if asked.runs:
        chosen = [target for target in chosen if not target.timed]
    findings = 0
    for at, target in enumerate(chosen):
        seconds = (until - time.monotonic()) / (len(chosen) - at) if asked.minutes else 0.0
        seed = asked.seed or random.randrange(1, 1 << 31)
        if asked.runs:
            with tempfile.TemporaryDirectory(prefix="hivemind-fuzz-") as folder:
                findings += _run(target, Path(folder), seconds, asked.runs, seed)
        else:
            findings += _run(target, _WORK / target.name, max(1.0, seconds), 0, seed)
    print(f"{len(chosen)} targets, {findings} findings", flush=True)
    return findings > 0


def _run(target: Target, work: Path, seconds: float, runs: int, seed: int) -> bool:
    statistics, found = engine.run(target, work, seconds=seconds, runs=runs, seed=seed)
    print(f"{target.name}: {statistics}", flush=True)
    if found is None:
        return False
    path = found.path.relative_to(ROOT)
    print(f"{target.name}: {found.why}\n  replay it with: make fuzz INPUT={path}", flush=True)
    return True


class _PropertyTests(threading.Thread):
    """Runs the files of property tests, in random order, again and again until the time is over."""

    def __init__(self, until: float) -> None:
        super().__init__(daemon=True)
        self.failed = False
        self._until = until

    def run(self) -> None:
        files = [
            path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "hypothesis" in path.read_text("utf-8")
        ]
        while time.monotonic() < self._until:
            random.shuffle(files)
            for path in files:
                left = self._until - time.monotonic()
                if left <= 1:
                    return
                self._test(path, left)

    def _test(self, path: Path, seconds: float) -> None:
        command = [*(sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "--hypothesis-profile=fuzz"), str(path)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        if done.returncode not in (0, 5):  # 5: it has no property tests
            self.failed = True
            print(done.stdout[-8000:], flush=True)


if __name__ == "__main__":
    sys.exit(main())
