from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import redis_server

from benchmarks import workers
from benchmarks.perf.load import Load


def test_summary_is_of_medians() -> None:
    """One row for each load and number of processes, in the table and in the manual."""
    found = [
        Load(target, clients, 10, per_s, 1.0, 2.0, 3.0, cpu_us)
        for clients in (16, 32, 64, 128)
        for target, factor in (("1", 1.0), ("2", 1.6))
        for per_s, cpu_us in ((1000 * factor, 100.0), (900 * factor, 300.0), (1100 * factor, 110.0))
    ]
    rows = workers.summary(found, 2)["rows"]
    medians = [(row["clients"], row["processes"], row["per_s"], row["cpu_us"]) for row in rows[:3]]
    assert medians == [(16, 1, 1000, 110), (32, 1, 1000, 110), (32, 2, 1600, 110)]
    assert "| 32 | 2 | 1,600 | 1.00 | 3.00 | 110 |" in workers.markdown(workers.summary(found, 2))


@pytest.mark.slow
@pytest.mark.e2e
def test_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole run measures both, and writes the file and the manual's table."""
    redis_server.program()
    monkeypatch.setattr(workers, "CLIENTS", (4,))
    monkeypatch.setattr(workers, "WARM_S", 2.0)  # the first lease takes a moment
    path = tmp_path / "workers.json"
    assert workers.main(["--rounds", "1", "--measure-s", "0.5", "--json", str(path), "--docs", str(tmp_path)]) == 0
    _, one, two = msgspec.json.decode(path.read_bytes())["rows"]
    assert min(one["per_s"], two["per_s"], one["cpu_us"], two["cpu_us"]) > 0
    assert "CPU µs/request" in capsys.readouterr().out
    assert (tmp_path / workers.FIGURES).read_text().startswith("Measured on ")
