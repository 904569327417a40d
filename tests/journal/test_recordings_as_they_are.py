"""Recordings as they are on disks: packed, cut off, repeated, with titles first; and what other programs really wrote.

`exports/` holds what Phoenix made of what `--otlp` sent it, and what LiteLLM handed to its loggers.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from journal.recordings import HERE

from hivemind.cli.main import main
from hivemind.errors import UsageError
from hivemind.journal.files import find
from hivemind.journal.importers.sources import Shelf, find_sources, tales_of
from hivemind.journal.importers.told import without_copies
from hivemind.journal.read.reader import open_journal
from hivemind.packing import zstd
from hivemind.scheduler import events as ev

SESSIONS = HERE / "sessions"
CODE, CODEX, PLAN = (SESSIONS / name for name in ("claude-code-2.1.332-a", "codex-0.171.0", "codex-0.171.0-plan"))
(FORK,) = CODE.glob("4e71*.jsonl")
WHOLE = FORK.read_bytes()
TITLE = b'{"type":"summary","summary":"CANARY","leafUuid":"1"}\n'
LONG = (
    json.dumps(
        {"type": "user", "sessionId": "s", "timestamp": "2026-11-28T10:00:00Z", "message": {"content": "x" * 300_000}}
    ).encode()
    + b"\n"
)
CUT_GZIP = gzip.compress(WHOLE)[:-300]


def told(*paths: Path | str) -> tuple[int, int, list[str]]:
    """Attempts and tokens, and what was left out."""
    counts: Counter[str] = Counter()
    tales = tales_of(find_sources([str(each) for each in paths]), Shelf(None), counts, lambda done, of: None)
    found = list(without_copies(tales))
    return len(found), sum(each.usage.total for each in found if each.usage is not None), [*counts]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WHOLE + WHOLE, id="resumed into itself"),
        pytest.param(TITLE * 80 + WHOLE, id="titles first"),
        pytest.param(LONG + WHOLE, id="long line first"),
        pytest.param(b"\0" * 100 + b"\n" + WHOLE + b"\0" * 4096, id="zeros"),
        pytest.param(WHOLE.replace(b"CANARY", b"\\ud83d", 1), id="half a character"),
        pytest.param(WHOLE.replace(b"\n", b"\r\n"), id="other line ends"),
        pytest.param(gzip.compress(WHOLE), id="gzip"),
        pytest.param(zstd.compress(WHOLE), id="zstd"),
        pytest.param(zstd.compress(WHOLE[:5000]) + zstd.compress(WHOLE[5000:]), id="zstd in two frames"),
    ],
)
def test_a_session_in_another_form(tmp_path: Path, text: bytes) -> None:
    """Counts the same as it is."""
    path = tmp_path / "session"
    path.write_bytes(text)
    assert told(path) == told(FORK) == (12, 145_230, [])


def test_what_is_cut_off(tmp_path: Path) -> None:
    """Anywhere, counts what is whole, or is refused in one line; packed too."""
    seen = set()
    for end in range(1, len(WHOLE), 997):
        (tmp_path / "cut.jsonl").write_bytes(WHOLE[:end])
        try:
            attempts, _, left_out = told(tmp_path / "cut.jsonl")
        except UsageError:
            continue
        seen.add(attempts)
        assert left_out in ([], ["lines that aren't whole, or not of its form"])
    assert max(seen) == 12
    (tmp_path / "cut.gz").write_bytes(CUT_GZIP)
    attempts, _, left_out = told(tmp_path / "cut.gz")
    assert 0 < attempts <= 12
    assert "the rest of a file that can't be unpacked to its end" in left_out
    (tmp_path / "cut.zst").write_bytes(zstd.compress(WHOLE)[:50])
    with pytest.raises(UsageError, match="can't be unpacked"):
        told(tmp_path / "cut.zst")


def test_links_in_circles(tmp_path: Path) -> None:
    """Are met once, by folders and by patterns; what is no file or twice there doesn't matter."""
    folder = tmp_path / "sessions"
    shutil.copytree(CODE, folder)
    (folder / "again").symlink_to(folder)
    (folder / "up").symlink_to(tmp_path)
    (folder / "nowhere").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe")
    shutil.copy(folder / FORK.name, folder / "copy.jsonl")
    assert told(folder) == told(folder / "**" / "*.jsonl", folder, folder / "*.jsonl") == told(CODE)


@pytest.mark.parametrize("packed", [lambda data: data, zstd.compress], ids=["plain", "zstd"])
def test_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: Callable[[bytes], bytes]) -> None:
    """What Codex wrote of it is in the gauges and in look-back; rollouts that Codex packed count too."""
    (rollout,) = PLAN.iterdir()
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(packed(rollout.read_bytes()))
    state = ("--state-dir", str(tmp_path / "state"))
    assert main(["journal", "import", str(path), "--name", "it", *state]) == 0
    sampled = [each for each in open_journal(find("it", tmp_path / "state")).events() if isinstance(each, ev.Sampled)]
    plan = {each.name: (each.used, each.reset_in_s) for each in sampled[-1].lanes[0].plan}
    assert plan["5h"][0] == 1.0
    assert plan["7d"][0] == 0.125
    assert plan["7d"][1] == pytest.approx(199_999, abs=2)
    capsys.readouterr()
    assert main(["look-back", str(path), "--json", *state]) == 0
    seen = json.loads(capsys.readouterr().out)["plan"]
    assert seen == {"5h": {"most": 1.0, "used_up": 1}, "7d": {"most": 0.125, "used_up": 0}}
    assert main(["look-back", str(path), *state]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "your 5h window was used up 1 time; of your 7d window 12 % at most" in said


@pytest.mark.parametrize(
    ("name", "requests", "tokens", "failed", "stated"),
    [
        ("phoenix-20.26-spans.json", 2, 69, 0, []),
        ("phoenix-20.26-otlp.json", 2, 69, 0, []),
        ("phoenix-20.26-frame.csv", 2, 69, 0, []),
        ("litellm-1.108-standard.jsonl", 4, 773, 2, [9, 9]),
    ],
)
def test_exports(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    requests: int,
    tokens: int,
    failed: int,
    stated: list[int],
) -> None:
    """Requests and tokens are the exporter's own; what refusals state of limits is read."""
    state = ("--state-dir", str(tmp_path))
    assert main(["journal", "import", str(HERE / "exports" / name), "--name", "it", *state]) == 0
    assert main(["journal", "stats", "it", "--json", *state]) == 0
    found = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert [found[each] for each in ("requests", "tokens", "failed")] == [requests, tokens, failed]
    journal = open_journal(find("it", tmp_path))
    read = [event.readings for event in journal.events() if isinstance(event, ev.LimitsRead)]
    assert [each.limit for readings in read for each in readings] == stated
    assert b"CANARY" not in journal.path.read_bytes()


def test_codex_beside_claude_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one program doesn't write down is unknown of its requests alone, and the other's are foretold."""
    both, state = (str(CODE), str(PLAN)), ("--state-dir", str(tmp_path))
    assert main(["journal", "import", *both, "--name", "it", *state]) == 0
    unknown = open_journal(find("it", tmp_path)).began.unknown
    assert (unknown["refusals"], unknown["starts"], unknown["first tokens"], unknown["limits"]) == (3, 3, 11, 11)
    assert main(["look-back", *both, *state]) == 0
    assert "with HiveMind     (of all but Codex) " in capsys.readouterr().out
