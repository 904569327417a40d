from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from benchmarks.perf import command, rounds, servers
from benchmarks.perf.fleet import FleetSizes
from benchmarks.perf.recording import RecordingSizes
from benchmarks.perf.screen import ScreenSizes
from benchmarks.perf.seeking import SeekingSizes
from benchmarks.perf.target import PerfError
from benchmarks.perf.wire import Pace
from hivemind.errors import UsageError
from hivemind.host.loop import run_loop

TINY = rounds.Sizes(
    rounds=1,
    warm_s=0.05,
    measure_s=0.05,
    stream_rounds=1,
    pace=Pace(4, 0.005),
    skip=1,
    screen=ScreenSizes(
        *(2, Pace(4, 0.005), 1), unread=2, stream_rounds=1, rounds=1, warm_s=0.05, measure_s=0.05, agents=2, starts=1
    ),
    fleet=FleetSizes(agents=30, requests=60, lessons=1, times=1),
    recording=RecordingSizes(pairs=1, rounds=1, warm_s=0.05, measure_s=0.05),
    seeking=SeekingSizes(megabytes=1, seeks=3, openings=2),
    streams=(2,),
    crowd=3,
    crowd_pace=Pace(3, 0.005),
    other_rounds=0,
    clients=(1, 2),
)


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(argv)


@pytest.mark.slow
@pytest.mark.e2e
def test_perf(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A whole run starts the servers, measures each, prints the tables, writes the file, and leaves nothing behind."""
    monkeypatch.setattr(rounds, "QUICK", TINY)
    monkeypatch.setenv("HIVEMIND_PORT", "not a port")  # the user's own settings are not what is measured
    path = tmp_path / "perf.json"
    assert command.execute(arguments("--quick", "--json", str(path))) == 0
    shown = capsys.readouterr()
    assert "added p50, 1 client" in shown.out
    assert shown.err == ""
    found = msgspec.json.decode(path.read_bytes())
    targets = {"direct", "hivemind"} | ({"nginx"} if servers.find_nginx() else set())
    measured, crowd, recording, streams_beside, unread, beside, steps, start, fleet, seeking = found["rounds"]
    assert {(one["load"], one["target"]) for one in measured} == {
        *((load, target) for load in ("1 client", "2 clients") for target in targets),
        *(("2 streams", target) for target in targets),
    }
    assert [(one["target"], one["complete"]) for one in crowd] == [("direct", 3), ("hivemind", 3)]
    assert set(found["programs"]) >= {"hivemind"}
    assert [(one["load"], one["target"]) for one in recording] == [
        ("16 clients", "recording"),
        ("16 clients", "not recording"),
    ]
    assert [one["target"] for one in (*streams_beside, *unread)] == ["no screen", "screen", "unread"]
    assert {(one["load"], one["target"]) for one in beside} == {
        (load, target) for load in ("1 client", "16 clients", "128 clients") for target in ("screen", "no screen")
    }
    assert steps[0]["steps"] > 0
    assert start[0]["first_frame_s"] > 0
    assert [one["load"] for one in fleet] == ["scroll", "filter", "sort", "steps"]
    assert all(0 < one["p50_ms"] <= one["p95_ms"] <= one["worst_ms"] for one in fleet[:3])
    assert {"first sight", "by index", "index"} <= {one["load"] for one in seeking}
    assert seeking[-1]["events"] > 0
    judged = {one["what"] for one in found["goals"] if one["verdict"] in {"held", "missed"}}
    assert {"first frame", "added p99 beside a screen, 1 client", "screen's longest step, on a processor"} < judged
    assert [one["verdict"] for one in found["goals"] if one["what"] == "events lost"] == ["held"]


def test_json_unwritable(tmp_path: Path) -> None:
    """A file that can't be written is told before anything is measured."""
    with pytest.raises(UsageError, match="--json: can't write"):
        command.execute(arguments("--json", str(tmp_path / "nowhere" / "perf.json")))


def test_server_that_fails(tmp_path: Path) -> None:
    """A server that doesn't start is told with its own last words."""
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    program.chmod(0o755)

    async def start() -> None:
        async with servers.upstream() as direct, servers.nginx(str(program), direct):
            pass

    with pytest.raises(PerfError, match="nginx didn't start: no such thing"):
        run_loop(start())
