from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest
from control.kit import proving
from tools.kit import ABOUT

from hivemind.api_types import CommandResult, ErrorBody, TasksPart
from hivemind.control.discovery import parse_address
from hivemind.scheduler.commands import PauseAdmissions, Rejected
from hivemind.tools.access import Caller, RemoteAccess, Unavailable

URL = "http://127.0.0.1:8765"


def proxy(answer: Callable[[httpx.Request], httpx.Response], file: Path) -> RemoteAccess:
    """Of a proxy that answers so, whose token stands in that file."""
    http = httpx.AsyncClient(transport=proving(answer, file.read_text))
    return RemoteAccess(parse_address(URL), {}, file, http)


def reply(value: object, status: int = 200) -> httpx.Response:
    """As the control API gives it."""
    return httpx.Response(status, content=msgspec.json.encode(value))


def put(file: Path, token: str) -> None:
    """Another token in its place."""
    file.write_text(token)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """With the first token."""
    file = tmp_path / "token"
    put(file, "one")
    return file


async def test_another_token(token_file: Path) -> None:
    """A proxy that was started anew has another token: it is looked up, and the question asked again, once."""
    wanted, shown = "one", []

    def answer(request: httpx.Request) -> httpx.Response:
        shown.append(request.headers["authorization"])
        return reply(ABOUT) if shown[-1] == f"Bearer {wanted}" else reply(ErrorBody("not this one"), 401)

    remote = proxy(answer, token_file)
    assert (await remote.about()).address == URL
    wanted = "two"
    put(token_file, "two")
    await remote.about()
    assert shown == ["Bearer one", "Bearer one", "Bearer two"]
    wanted = "three"
    with pytest.raises(Unavailable, match="not this one"):
        await remote.about()


async def test_an_answer_that_is_missing(token_file: Path) -> None:
    """What may have been carried out isn't ordered twice, and the text says to look first; what only looks is asked
    again."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if len(asked) > 1:
            raise httpx.ReadError("reset")
        return reply(TasksPart("run", ()))

    remote = proxy(answer, token_file)
    await remote.tasks()
    with pytest.raises(Unavailable, match="check before you repeat it"):
        await remote.apply(PauseAdmissions(True), "mcp")
    assert len(asked) == 2
    second = proxy(answer, token_file)
    asked.clear()
    await second.tasks()
    with pytest.raises(Unavailable, match="broke off"):
        await second.tasks()
    assert len(asked) == 3


async def test_refused(token_file: Path) -> None:
    """The proxy's own words reach the tool as they are; what is ordered is signed."""
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(msgspec.json.decode(request.content))
        return reply(CommandResult("PauseAdmissions", {}, "mcp")) if len(bodies) == 1 else reply(ErrorBody("no"), 422)

    remote = proxy(answer, token_file)
    await remote.apply(PauseAdmissions(True), Caller("ann").who)
    assert bodies == [{"name": "PauseAdmissions", "arguments": {"paused": True}, "who": "mcp:ann"}]
    with pytest.raises(Rejected, match=r"^no$"):
        await remote.apply(PauseAdmissions(True), "mcp")


@pytest.mark.parametrize(
    ("agent", "who"), [(None, "mcp"), ("ann", "mcp:ann"), ("x" * 80, "mcp:" + "x" * 36), ("a\nb", "mcp")]
)
def test_signature(agent: str | None, who: str) -> None:
    """A caller signs with its name as far as the log takes one."""
    assert Caller(agent).who == who
