"""Tokens, and each place where one can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from hivemind.api_types import PREFIX
from hivemind.control.api import ENDPOINTS

AGENTS = "agents-token-0123456789abcdef"
ALICES = "token-of-alice-0123456789abcdef"
CONTROL = "control-token-0123456789abcdef"


def endpoints() -> list[tuple[str, str]]:
    """Method and path of every endpoint of the control API, in the order of its table."""
    return [(each.method, PREFIX + each.path.replace("{ticket}", "1").replace("{name}", "a")) for each in ENDPOINTS]


def openers(token: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each way to show a token: what goes before the path, and headers."""
    yield "", {}
    if token:
        yield "", {"authorization": f"Bearer {token}"}
        yield "", {"authorization": f"Basic {token}"}
        yield "", {"x-hivemind-token": token}
        yield "", {"x-hivemind-control-token": token}
        yield "", {"x-api-key": token, "cookie": f"token={token}"}
        yield f"/token/{quote(token, safe='')}", {}
