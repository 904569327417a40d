"""`hivemind-mock`: its flags, its ready line and its errors."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from dataclasses import fields

import httpx
import pytest

from hivemind.errors import UsageError
from hivemind_mock.provider.config import SCENARIOS, FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.main import add_flags, configured, main


def read(*argv: str, base: MockConfig | None = None) -> MockConfig:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return configured(parser.parse_args(argv), base or MockConfig())


def test_no_flags_change_nothing() -> None:
    """The base is kept as it is."""
    base = SCENARIOS["stress"].provider(seed=4)
    assert read(base=base) == base


def test_flags_reach_every_part() -> None:
    """Numbers, shares, choices and yes or no end up in their fields."""
    config = read(
        "--seed", "7", "--rpm", "60", "--window", "bucket", "--reserve-max-tokens", "yes", "--latency-base-s", "0.5",
        "--bad-gateway", "0.1", "--reset", "0.2", "--reply-tokens", "300", "--reply-encoding", "zstd",
        "--format", "google", "--format", "ollama",
    )  # fmt: skip
    assert config == MockConfig(
        seed=7,
        formats=("google", "ollama"),
        limits=LimitConfig(rpm=60, window="bucket", reserve_max_tokens=True),
        latency=LatencyConfig(base_s=0.5),
        faults=FaultConfig(bad_gateway=0.1, reset=0.2),
        reply=ReplyConfig(tokens=300, encoding="zstd"),
    )


def test_numbers_as_people_type_them() -> None:
    """As HiveMind's own flags take them; after seconds an `m` would be minutes."""
    limits = read("--tpm", "1.5m", "--rpm", "1_000").limits
    assert (limits.tpm, limits.rpm) == (1_500_000, 1000)
    with pytest.raises(UsageError, match=r"--rpm: must be a whole number from 0 to 1e\+09, not '2\.5'"):
        read("--rpm", "2.5")
    with pytest.raises(UsageError, match="--window-s: must be a number"):
        read("--window-s", "5m")


def test_every_field_has_a_flag() -> None:
    """Nothing of the configuration is out of reach of the command line."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    known = vars(parser.parse_args([])).keys()
    for part, kind in {"limits": LimitConfig, "latency": LatencyConfig, "faults": FaultConfig}.items():
        assert {f"{part}.{field.name}" for field in fields(kind)} <= known


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--rpm", "many"], "--rpm: must be a whole number from 0 to 1e+09, not 'many'"),
        (["--reset", "1.5"], "--reset: must be a number from 0 to 1, not '1.5'"),
        (["--reset", "0.6", "--bad-gateway", "0.6"], "the fault probabilities add up to 1.2, which is more than 1"),
        (["--window-s", "0"], "--window-s: must be a number from 0.001 to 1e+09, not '0'"),
        (["--reply-event-tokens", "0"], "--reply-event-tokens: must be a whole number from 1 to 1e+09, not '0'"),
        (["--window", "rolling"], "--window: must be one of fixed, bucket, sliding, not 'rolling'"),
        (["--scenario", "calm"], "--scenario: must be one of micro-5,"),
        (["--format", "cohere"], "--format: must be one of anthropic,"),
        (["--port", "99999"], "--port: must be a whole number from 0 to 65535, not '99999'"),
        (["--rmp", "5"], "--rmp: no such flag"),
    ],
)
def test_bad_input_is_one_clear_line(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Naming the flag and what it allows, with exit code 2."""
    assert main(argv) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"hivemind-mock: {line}")
    assert shown.count("\n") == 1


@pytest.mark.slow
async def test_the_program_serves_and_stops() -> None:
    """One ready line with the address, answers there, and exit code 0 on SIGTERM."""
    program = "import sys; from hivemind_mock.provider.main import main; sys.exit(main())"
    arguments = ["-c", program, "--port", "0", "--scenario", "stress", "--seed", "7", "--format", "any"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
            assert line.startswith("hivemind-mock: ready on http://127.0.0.1:")
            async with httpx.AsyncClient(base_url=line.split()[-1]) as client:
                assert (await client.get("/_mock/stats")).json()["arrived"] == 0
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
