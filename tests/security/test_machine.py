"""Another machine: what listens where, and what it takes to get in where the proxy is opened to it."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from security.kit import AGENTS, CONTROL, endpoints
from tools.kit import served

from hivemind.host.listening import bind
from hivemind.settings import Settings
from hivemind.settings.checks import checked
from hivemind.settings.sections import BadSetting

PUBLIC = ("/_health", f"/_proof?nonce={64 * '0'}", "/_control/openapi.json")
PATHS = ("/v1/messages", "/agent/ann/v1/messages", "/to/lab/v1/models", "/_stats", "/metrics", "/_nothing", "/", "/mcp")


def test_it_reaches_nothing_by_default() -> None:
    """Unless told otherwise the proxy listens on loopback only."""
    sockets = bind(Settings(upstream=("lab=http://127.0.0.1:9",)).host, 0)
    try:
        assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1"]
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.parametrize("token", [None, "x", "a" * 40, "0123456789abcde"])
def test_without_a_strong_token_nothing_is_opened(token: str | None) -> None:
    """On an address that others reach the proxy doesn't start without a token, or with one that can be guessed."""
    for host in ("0.0.0.0", "::", "192.0.2.7", "fd00::2", "example.org", "[::]", "0", "127.1.example"):
        with pytest.raises(BadSetting) as caught:
            checked({"upstream": ("lab=http://127.0.0.1:9",), "host": host, "token": token})
        assert token is None or len(token) < 9 or token not in str(caught.value)


async def test_only_a_token_opens_the_rest(tmp_path: Path) -> None:
    """Opened to others, every path wants a token but health and the description of the control API."""
    settings = {"host": "0.0.0.0", "token": AGENTS, "control_token": CONTROL}
    async with served(tmp_path, **settings) as proxy, httpx.AsyncClient(timeout=60, trust_env=False) as web:
        url = f"http://{_address()}:{proxy.address.rpartition(':')[2]}"
        for path in PUBLIC:
            assert (await web.get(url + path)).status_code == 200
        for method, path in (*(("POST", path) for path in PATHS), *endpoints()):
            answer = await web.request(method, url + path, content=b"{}")
            assert (answer.status_code, "run" in answer.json()) == (401, False), path
        shown = {"x-hivemind-token": AGENTS}
        assert (await web.post(f"{url}/v1/messages", json={"model": "m"}, headers=shown)).status_code == 200


def _address() -> str:
    """The address by which other machines reach this one; loopback where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(sock.getsockname()[0])
