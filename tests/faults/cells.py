"""One cell of the matrix: what should come of it, by rule, and what does, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from faults.formats import APIS, Api, ErrorShape, Malformed
from faults.upstream import SILENT_S, Broken, Ending, Phase, good_answer
from ports import unused_port
from proxy.kit import Pairs, Raw, playing, proxying, raw, request
from upstream.scripted import Scripted, serving

ATTEMPTS = 3
"""As many as the proxy makes here."""
LISTENS_AFTER_S = 0.5
"""The delay of a retry where somebody listens by then."""
TIMEOUTS = {"headers_timeout_s": SILENT_S, "idle_timeout_s": SILENT_S}


@dataclass(frozen=True)
class Outcome:
    """What the agent sees, and how many attempts it took."""

    seen: str
    attempts: int = 1

    def __str__(self) -> str:
        return self.seen


WHOLE = Outcome("answered")
CUT = Outcome("cut")
ERROR_EVENT = Outcome("error event")
PROVIDERS_EVENT = Outcome("provider's event")
RETRIED = Outcome("retried", 2)


@dataclass(frozen=True)
class Cell:
    """A format, a form, a fault, and whether it lasts."""

    api: Api
    stream: bool
    fault: Broken
    lasting: bool

    def __str__(self) -> str:
        form = "stream" if self.stream else "whole"
        last = "each time" if self.lasting else "once"
        return f"{self.api.name} {form}: {self.fault.ending.value} {self.fault.phase.value}, {last}"


def expected(cell: Cell) -> Outcome:
    """What should come of a cell.

    While nothing of an answer was passed on, a failure is retried unseen; one that lasts ends in an error of the
    provider's shape. Afterwards it ends in an error event of the provider's, unless that would come inside an event.
    """
    ending, phase = cell.fault.ending, cell.fault.phase
    if phase in (Phase.END, Phase.MARKER) or _ends_anyway(cell):
        return WHOLE
    if not cell.stream or phase in _UNSEEN:
        if not cell.lasting:
            return RETRIED
        if ending is Ending.ERROR:
            return Outcome(PROVIDERS_EVENT.seen, ATTEMPTS)
        return Outcome("504" if ending is Ending.SILENT else "502", ATTEMPTS)
    if ending is Ending.ERROR:
        return PROVIDERS_EVENT
    return CUT if phase is Phase.EVENT else ERROR_EVENT


_UNSEEN = (Phase.CONNECT, Phase.REQUEST, Phase.HEAD, Phase.START, Phase.OPENING)


def _ends_anyway(cell: Cell) -> bool:
    """A chat that has told its finish reason is complete at a clean end: some servers omit `[DONE]`."""
    end = (cell.fault.ending, cell.fault.phase) == (Ending.CLEAN, Phase.LAST)
    return cell.stream and end and cell.api.name == "openai_chat"


def cells() -> Iterator[Cell]:
    """Every cell."""
    for api in APIS.values():
        for stream in (False, True):
            for ending in Ending:
                for phase in ending.phases(stream):
                    for lasting in (False, True):
                        yield Cell(api, stream, Broken(ending, phase), lasting)


# --- Observing ------------------------------------------------------------------------------------------------------


async def observed(cell: Cell) -> Outcome:
    """What comes of a cell. The proxy checks its invariants after each step, and everything is given back."""
    async with _upstream(cell) as (upstream, url), proxying(f"lab={url}", **_settings(cell)) as proxy:
        async with raw(proxy.port) as agent:
            api, stream = cell.api, cell.stream
            asked = request(api.path(stream), api.request(stream))
            await agent.send(asked)
            if upstream is None and not cell.lasting:
                await proxy.until(lambda world: world.totals.retries > 0)
                async with serving(playing(good_answer(api, stream)), port=int(url.rpartition(":")[2])):
                    seen = await _seen(cell, agent)
            else:
                seen = await _seen(cell, agent)
        world = await proxy.until(lambda world: not world.slots and not world.queued)
        assert world.totals.requests == 1
        attempts = world.totals.retries + 1
        assert [lane.state.active for lane in world.lanes] == [0]
        return Outcome(RETRIED.seen if (seen, attempts) == (WHOLE.seen, RETRIED.attempts) else seen, attempts)


@contextlib.asynccontextmanager
async def _upstream(cell: Cell) -> AsyncIterator[tuple[Scripted | None, str]]:
    """None where nobody listens at first."""
    if cell.fault.ending is Ending.REFUSED:
        yield None, f"http://127.0.0.1:{unused_port()}"
        return
    async with serving(cell.fault.upstream(cell.api, cell.stream, lasting=cell.lasting)) as upstream:
        yield upstream, upstream.url


def _settings(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = {"retry": {"max_attempts": ATTEMPTS}}
    if cell.fault.ending is Ending.SILENT:
        found |= TIMEOUTS
    elif cell.fault.ending is Ending.REFUSED and not cell.lasting:
        found["retry"] |= {"base_s": LISTENS_AFTER_S, "max_s": LISTENS_AFTER_S}
    return found


async def _seen(cell: Cell, agent: Raw) -> str:
    """What the agent sees, in a few words; what no agent should see in many."""
    try:
        status, headers = await agent.head()
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        return f"no answer: {error!r}"
    body, whole = await _body(agent, headers)
    try:
        return _named(cell, status, headers, body, whole=whole)
    except Malformed as error:
        return f"malformed {status}, {'whole' if whole else 'cut'}: {error}"


async def _body(agent: Raw, headers: Pairs) -> tuple[bytes, bool]:
    """What came of a body, and whether it came to its end."""
    body = bytearray()
    length = dict(headers).get(b"content-length")
    try:
        if length is not None:
            body += await agent.reader.readexactly(int(length))
            return bytes(body), True
        while piece := await agent.chunk():
            body += piece
    except asyncio.IncompleteReadError as error:
        return bytes(body + (error.partial if length is not None else b"")), False
    except (ConnectionError, ValueError):
        return bytes(body), False
    return bytes(body), True


def _named(cell: Cell, status: int, headers: Pairs, body: bytes, *, whole: bool) -> str:
    api = cell.api
    if status >= 400:
        error = api.whole_error(body)
        _check_own(error, status)
        if dict(headers)[b"content-type"] != b"application/json" or not whole:
            raise Malformed("an error in a form of its own")
        return str(status)
    good = api.stream if cell.stream else api.whole
    if body == good and whole:
        return "answered"
    if not cell.stream:
        raise Malformed(f"half an answer: {body!r}")
    return _stream_named(cell, body, whole=whole)


def _stream_named(cell: Cell, body: bytes, *, whole: bool) -> str:
    api = cell.api
    sent = b"".join(cell.fault.sent(api, True))
    if whole and body == sent and cell.fault.ending is Ending.ERROR:
        if api.error_event(cell.fault.error(api)) is None:
            raise Malformed("an event that isn't an error")
        return PROVIDERS_EVENT.seen
    if whole and body == sent and _ends_anyway(cell):
        return WHOLE.seen
    if not body.startswith(sent):
        raise Malformed(f"other content: {body!r}")
    if whole:
        raise Malformed(f"half a stream, ended as if it were whole: {body!r}")
    rest = body[len(sent) :]
    if not rest:
        return CUT.seen
    error = api.error_event(rest)
    if error is None:
        raise Malformed(f"more than was sent: {rest!r}")
    _check_own(error, None)
    return ERROR_EVENT.seen


def _check_own(error: ErrorShape, status: int | None) -> None:
    if not error.message.startswith("HiveMind: "):
        raise Malformed(f"not our words: {error.message}")
    if status is not None and error.status not in (None, status):
        raise Malformed(f"another status in the body: {error}")


async def run(chosen: list[Cell], *, together: int = 24) -> dict[Cell, Outcome]:
    """Observe cells, some at a time."""
    free, found = asyncio.Semaphore(together), dict[Cell, Outcome]()

    async def one(cell: Cell) -> None:
        async with free:
            found[cell] = await observed(cell)

    async with asyncio.TaskGroup() as group:
        for cell in chosen:
            group.create_task(one(cell))
    return found
