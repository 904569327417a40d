"""The attacks: what a hostile upstream answers, and a run of one of them against a real proxy."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.attacks import upstream
from benchmarks.attacks.__main__ import measure
from benchmarks.attacks.clients import ATTACKS
from benchmarks.attacks.slow import CONNECTIONS, is_installed, measure_slow


def test_names_are_unique() -> None:
    """`--only` and the table tell attacks by their names."""
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize(("path", "status"), [("/answer/redirect/v1/messages", b"302"), ("/v1/messages", b"200")])
async def test_answer_goes_by_the_path(path: str, status: bytes) -> None:
    """The hostile upstream gives the answer that the path names, an ordinary one where it names none."""
    async with upstream.serving() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        assert (await reader.readline()).split()[1] == status
        writer.close()


async def test_an_attack_on_a_real_proxy() -> None:
    """The proxy refuses each request of the attack, and answers the probe all the while."""
    (result,) = await measure("two hosts", at_least_s=0.1)
    assert set(result.answers) == {"400"}
    assert result.health_asked > 0


@pytest.mark.e2e
@pytest.mark.skipif(not is_installed(), reason="slowhttptest isn't installed")
async def test_slow_clients_of_a_real_proxy() -> None:
    """All of them are connected while others are served; how fast is for `make bench` to say."""
    result = await measure_slow("slow heads", measure_s=0.2)
    assert (result.connections, result.p99_ms > 0) == (CONNECTIONS, True)
