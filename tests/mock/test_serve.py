"""The mock on real sockets: resets are resets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import uvloop

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig
from hivemind_mock.provider.serve import serving

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def exchange(loop: Callable[[], asyncio.AbstractEventLoop], faults: FaultConfig, stream: bool) -> tuple[bytes, str]:
    """What a bare client reads from one request, and how its connection ends."""

    async def main() -> tuple[bytes, str]:
        mock = MockProvider(MockConfig(latency=LatencyConfig(0.002, 0.0), faults=faults))
        async with serving(mock) as url:
            host, port = urlsplit(url).hostname, urlsplit(url).port
            reader, writer = await asyncio.open_connection(host, port)
            messages = [{"role": "user", "content": "hello"}]
            body = json.dumps({"model": "m", "max_tokens": 1024, "stream": stream, "messages": messages}).encode()
            head = "POST /v1/messages HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            got, ending = b"", "fin"
            try:
                while chunk := await reader.read(65_536):
                    got += chunk
            except ConnectionResetError:
                ending = "rst"
            finally:
                writer.close()
            return got, ending

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reset_is_a_reset(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The client's socket sees RST, not an orderly end, and not one byte of a reply."""
    assert exchange(loop, FaultConfig(reset=1.0), stream=False) == (b"", "rst")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reset_in_the_middle_comes_after_content(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """What was sent before the reset arrives."""
    got, ending = exchange(loop, FaultConfig(reset_mid=1.0), stream=True)
    assert b"content_block_delta" in got
    assert ending == "rst"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_truncated_answer_ends_with_fin(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A whole answer that is cut off ends in good order, short of its stated length."""
    got, ending = exchange(loop, FaultConfig(truncated=1.0), stream=False)
    head, _, body = got.partition(b"\r\n\r\n")
    stated = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    assert ending == "fin"
    assert 0 < len(body) < stated


class Patience:
    """A provider's sleep that never ends, and tells when it began and when it was broken off."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def ask_and_wait(url: str, patience: Patience) -> asyncio.StreamWriter:
    """A connection whose request the provider works on."""
    _, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 2\r\n\r\n{}")
    await patience.began.wait()
    return writer


async def test_a_client_that_hangs_up_is_noticed() -> None:
    """A place in the concurrency limit doesn't stay taken by somebody who has gone."""
    patience = Patience()
    mock = MockProvider(MockConfig(), sleep=patience)
    async with asyncio.timeout(10), serving(mock) as url:
        writer = await ask_and_wait(url, patience)
        assert mock.stats.active == 1
        writer.close()
        await patience.ended.wait()
        await asyncio.sleep(0)
        assert (mock.stats.active, mock.stats.left) == (0, 1)
