"""One cell of the matrix: what should come of it, by rule, and what does, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from faults.answers import ANSWERS, Answer, Kind
from faults.formats import APIS, Api, ErrorShape, Malformed
from faults.mocked import MOCKED, Mocked, good_body
from faults.upstream import SILENT_S, Broken, Ending, Phase, good_answer
from ports import unused_port
from proxy.kit import Pairs, Raw, playing, proxying, raw, request
from proxy.wire import http
from upstream.scripted import serving

from hivemind.records import replace
from hivemind_mock.provider.faults import REFUSALS, STREAM_FAULTS
from hivemind_mock.provider.faults import Fault as MockFault

ATTEMPTS = 3
"""As many as the proxy makes here."""
PROVIDERS_WORDS = (
    "Overloaded",
    "Bad gateway",
    "Number of requests is too high right now.",
    "You have reached your specified usage limits.",
    "no",
)
"""What the provider's own errors say."""
LISTENS_AFTER_S = 2.0
"""The delay of a retry where somebody listens by then."""
TIMEOUTS = {"headers_timeout_s": SILENT_S, "idle_timeout_s": SILENT_S}


Fault = Broken | Answer | Mocked


@dataclass(frozen=True)
class Outcome:
    """What the agent sees, and how many attempts it took."""

    seen: str
    attempts: int = 1

    def __str__(self) -> str:
        return self.seen


WHOLE = Outcome("answered")
CUT = Outcome("cut")
LAST_EVENT = Outcome("last event")
ERROR_EVENT = Outcome("error event")
PROVIDERS_EVENT = Outcome("provider's event")
PROVIDERS_STATUS = Outcome("provider's status")
RETRIED = Outcome("retried", 2)
PASSED_ON = Outcome("passed on")


class Mode(Enum):
    """What is special about a request."""

    USUAL = ""
    BEGUN = "begun"
    """Its stream was begun with keepalives, because it waited after a first attempt that failed."""
    STORED = "stored"
    """It continues state on the server, so it may not be sent twice."""
    ENCODED = "encoded"
    """Its stream is compressed for the agent."""


@dataclass(frozen=True)
class Cell:
    """A format, a form, a fault, and whether it lasts."""

    api: Api
    stream: bool
    fault: Fault
    lasting: bool
    mode: Mode = Mode.USUAL

    def __str__(self) -> str:
        form = "stream" if self.stream else "whole"
        last = "each time" if self.lasting else "once"
        return f"{self.api.name} {form} {self.mode.value}: {self.fault.name}, {last}"

    @property
    def request(self) -> bytes:
        """The request's body."""
        body = self.api.request(self.stream)
        return body.replace(b"{", b'{"store": true, ', 1) if self.mode is Mode.STORED else body

    @property
    def ending(self) -> Ending | None:
        """How the attempt ends; None where it ends in an answer."""
        return self.fault.ending if isinstance(self.fault, Broken) else None


def expected(cell: Cell) -> Outcome:
    """What should come of a cell."""
    usual = _usual(cell)
    if cell.mode is Mode.STORED and cell.ending is not Ending.REFUSED and not _is_refusal(cell.fault):
        return _usual(replace(cell, lasting=True)) if usual.attempts == 1 else _once(cell)
    if cell.mode is Mode.ENCODED and usual == ERROR_EVENT:
        return CUT
    if cell.mode is not Mode.BEGUN:
        return usual
    # A kept connection that ends at once is replaced without a word, once.
    stale = not cell.lasting and cell.fault in (
        Broken(Ending.CLOSED, Phase.REQUEST),
        Broken(Ending.RESET, Phase.REQUEST),
    )
    attempts = usual.attempts + (not stale)
    if usual in (WHOLE, RETRIED):
        return Outcome(RETRIED.seen, attempts)
    fault = cell.fault
    if isinstance(fault, Answer) and fault.is_error(cell.api, cell.stream):
        return Outcome(PROVIDERS_EVENT.seen, attempts)
    ends = usual.seen == PASSED_ON.seen or usual.seen.isdigit()
    return Outcome(LAST_EVENT.seen if ends else usual.seen, attempts)


def _is_refusal(fault: Fault) -> bool:
    """Whether the answer says that nothing ran."""
    if isinstance(fault, Mocked):
        return fault.fault in REFUSALS
    return isinstance(fault, Answer) and fault.name.startswith(("429", "529", "overload"))


def _once(cell: Cell) -> Outcome:
    """What comes of a fault that would be retried, at the first attempt."""
    return Outcome(_usual(replace(cell, lasting=True)).seen)


def _usual(cell: Cell) -> Outcome:
    """What should come of a request with nothing special about it.

    While nothing of an answer was passed on, a failure is retried unseen; one that lasts ends in an error of the
    provider's shape. Afterwards it ends in an error event of the provider's. A part of an event isn't passed on.
    """
    if isinstance(cell.fault, Answer):
        return _of_answer(cell.fault.kind(cell.stream), lasting=cell.lasting)
    if isinstance(cell.fault, Mocked):
        return _of_mock(cell, cell.fault.fault)
    ending, phase = cell.fault.ending, cell.fault.phase
    if phase in (Phase.END, Phase.MARKER) or _ends_anyway(cell):
        return WHOLE
    if not cell.stream or phase in _UNSEEN:
        if not cell.lasting:
            return RETRIED
        if ending is Ending.ERROR:
            return _of_early_error(cell)
        return Outcome("504" if ending is Ending.SILENT else "502", ATTEMPTS)
    if ending is Ending.ERROR:
        return PROVIDERS_EVENT
    return ERROR_EVENT


def _of_answer(kind: Kind, *, lasting: bool) -> Outcome:
    """What should come of an answer that isn't what was asked for."""
    if kind is Kind.GOOD:
        return WHOLE
    if kind is Kind.FINAL:
        return PASSED_ON
    if not lasting:
        return RETRIED
    return Outcome(PASSED_ON.seen if kind is Kind.TEMPORARY else "502", ATTEMPTS)


def _of_mock(cell: Cell, fault: MockFault) -> Outcome:
    """What should come of a fault of the mock's."""
    if fault in REFUSALS or fault is MockFault.BAD_GATEWAY:
        return _of_answer(Kind.FINAL if fault is MockFault.QUOTA else Kind.TEMPORARY, lasting=cell.lasting)
    if fault in STREAM_FAULTS and not cell.stream:
        return WHOLE
    if fault is MockFault.ERROR_MID:
        return PROVIDERS_EVENT
    if cell.stream and fault in (MockFault.RESET_MID, MockFault.TRUNCATED):
        return ERROR_EVENT
    if not cell.lasting:
        return RETRIED
    return _of_early_error(cell) if fault is MockFault.ERROR_EARLY else Outcome("502", ATTEMPTS)


def _of_early_error(cell: Cell) -> Outcome:
    """What should come of an error event before content, each time: a status, where the event has an answer's form."""
    as_answer = cell.stream and cell.mode is Mode.USUAL and cell.api.name != "openai_responses"
    return Outcome((PROVIDERS_STATUS if as_answer else PROVIDERS_EVENT).seen, ATTEMPTS)


_UNSEEN = (Phase.CONNECT, Phase.REQUEST, Phase.HEAD, Phase.START, Phase.OPENING)


def _ends_anyway(cell: Cell) -> bool:
    """An answer that has said why it ended is complete at a clean end: some servers omit the last marker."""
    decided = cell.api.name in ("openai_chat", "anthropic")
    return decided and cell.stream and cell.fault == Broken(Ending.CLEAN, Phase.LAST)


def cells() -> Iterator[Cell]:
    """Every cell."""
    for api in APIS.values():
        for stream in (False, True):
            faults: list[Fault] = [*ANSWERS, *MOCKED]
            faults += [Broken(ending, phase) for ending in Ending for phase in ending.phases(stream)]
            for fault in faults:
                for lasting in (False, True):
                    for mode in Mode:
                        cell = Cell(api, stream, fault, lasting, mode)
                        if _is_possible(cell):
                            yield cell


def _is_possible(cell: Cell) -> bool:
    if cell.mode is Mode.USUAL:
        return True
    fault = cell.fault
    connecting = isinstance(fault, Broken) and fault.phase is Phase.CONNECT
    if isinstance(fault, Mocked) or (cell.lasting and cell.ending is Ending.SILENT):
        return False  # as a fault of the raw upstream; takes long
    if cell.mode is Mode.BEGUN:
        return cell.stream and not connecting
    if cell.mode is Mode.ENCODED:
        return cell.stream and isinstance(fault, Broken) and not cell.lasting and not connecting
    # Whether a connection that was closed at once has taken the request, is a matter of chance.
    return cell.api.name == "openai_responses" and (not connecting or cell.ending is Ending.REFUSED)


# --- Observing ------------------------------------------------------------------------------------------------------


async def observed(cell: Cell) -> Outcome:
    """What comes of a cell. The proxy checks its invariants after each step, and everything is given back."""
    good = await _good(cell)
    async with upstream_of(cell) as url, proxying(f"lab={url}", hangs_s=60, **settings_of(cell)) as proxy:
        async with raw(proxy.port) as agent:
            api, stream = cell.api, cell.stream
            headers = ["accept-encoding: gzip"] if cell.mode is Mode.ENCODED else []
            asked = request(api.path(stream), cell.request, *headers)
            await agent.send(asked)
            if cell.ending is Ending.REFUSED and not cell.lasting:
                await proxy.until(lambda world: world.totals.retries > 0)
                async with serving(playing(good_answer(api, stream)), port=int(url.rpartition(":")[2])):
                    seen = await _seen(cell, agent, good)
            else:
                seen = await _seen(cell, agent, good)
        world = await proxy.until(lambda world: not world.slots and not world.queued)
        assert world.totals.requests == 1
        attempts = world.totals.retries + 1
        assert [lane.state.active for lane in world.lanes] == [0]
        return Outcome(RETRIED.seen if seen == WHOLE.seen and attempts > 1 else seen, attempts)


@contextlib.asynccontextmanager
async def upstream_of(cell: Cell) -> AsyncIterator[str]:
    """The URL of the upstream, where nobody may be listening."""
    if cell.ending is Ending.REFUSED:
        yield f"http://127.0.0.1:{unused_port()}"
    elif isinstance(cell.fault, Mocked):
        async with cell.fault.serving(lasting=cell.lasting) as url:
            yield url
    else:
        first = [[http(503, cell.api.error_body(503, "no"))]] if cell.mode is Mode.BEGUN else []
        encoded = {"encoded": True} if cell.mode is Mode.ENCODED else {}
        made = cell.fault.upstream(cell.api, cell.stream, *first, lasting=cell.lasting, **encoded)
        async with serving(made) as upstream:
            yield upstream.url


async def _good(cell: Cell) -> bytes:
    """The body of a good answer."""
    if isinstance(cell.fault, Mocked):
        return await good_body(cell.api, cell.stream)
    return cell.api.stream if cell.stream else cell.api.whole


def settings_of(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = {"retry": {"max_attempts": ATTEMPTS}}
    if cell.mode is Mode.BEGUN:
        found = {"retry": {"max_attempts": ATTEMPTS + 1, "base_s": 0.05, "max_s": 0.05}}
        found |= {"keepalive_after_s": 0.001, "keepalive_every_s": 60}
    if cell.ending is Ending.SILENT:
        found |= TIMEOUTS
    elif cell.ending is Ending.REFUSED and not cell.lasting:
        found["retry"] |= {"base_s": LISTENS_AFTER_S, "max_s": LISTENS_AFTER_S}
    return found


async def _seen(cell: Cell, agent: Raw, good: bytes) -> str:
    """What the agent sees, in a few words; what no agent should see in many."""
    try:
        status, headers = await agent.head()
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        return f"no answer: {error!r}"
    body, whole = await _body(agent, status, headers)
    if dict(headers).get(b"content-encoding") == b"gzip":
        body = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body)
    try:
        return _named(cell, good, status, headers, body, whole=whole)
    except Malformed as error:
        return f"malformed {status}, {'whole' if whole else 'cut'}: {error}"


async def _body(agent: Raw, status: int, headers: Pairs) -> tuple[bytes, bool]:
    """What came of a body, and whether it came to its end."""
    body = bytearray()
    length = dict(headers).get(b"content-length")
    try:
        if status == 204:
            return b"", True
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


def _named(cell: Cell, good: bytes, status: int, headers: Pairs, body: bytes, *, whole: bool) -> str:
    api, fault = cell.api, cell.fault
    if cell.mode is Mode.BEGUN:
        if not body.startswith(api.keepalive):
            raise Malformed(f"no keepalive: {body!r}")
        body = body.removeprefix(api.keepalive)
    if (status, body, whole) == (200, good, True):
        return WHOLE.seen
    begun = cell.mode is Mode.BEGUN
    if isinstance(fault, Answer) and whole and not begun and (status, body) == fault.passed_on(api, cell.stream):
        return PASSED_ON.seen
    if status >= 400:
        if isinstance(fault, Mocked) and fault.edge:
            return PASSED_ON.seen
        error = api.whole_error(body)
        if error.message in PROVIDERS_WORDS:
            early = isinstance(fault, Broken) or (isinstance(fault, Mocked) and fault.fault is MockFault.ERROR_EARLY)
            return (PROVIDERS_STATUS if early else PASSED_ON).seen
        _check_own(error, status)
        if dict(headers)[b"content-type"] != b"application/json" or not whole:
            raise Malformed("an error in a form of its own")
        return str(status)
    if not cell.stream or (isinstance(fault, Answer) and cell.mode is not Mode.BEGUN):
        raise Malformed(f"half an answer, or another: {body!r}")
    return _stream_named(cell, good, body, whole=whole)


def _stream_named(cell: Cell, good: bytes, body: bytes, *, whole: bool) -> str:
    """What a stream is that isn't the good one: the good one's beginning, and then perhaps an error."""
    api, fault = cell.api, cell.fault
    same = next((at for at, (one, other) in enumerate(zip(body, good, strict=False)) if one != other), len(body))
    if isinstance(fault, Broken):
        events = [] if fault.phase in _UNSEEN and fault.ending is not Ending.ERROR else fault.sent(api, True)
        held = fault.phase is Phase.EVENT and cell.mode is not Mode.ENCODED
        sent = b"".join(events[:-1] if held or fault.ending is Ending.ERROR else events)
    elif isinstance(fault, Answer):
        sent = b""
    else:
        sent = body[: good.rfind(api.separator, 0, same) + len(api.separator)] if api.separator in good[:same] else b""
    rest = body.removeprefix(sent)
    if not (good.startswith(sent) and body.startswith(sent)):
        raise Malformed(f"other content: {body!r}")
    if not rest:
        if whole and not _ends_anyway(cell):
            raise Malformed(f"half a stream, ended as if it were whole: {body!r}")
        return WHOLE.seen if whole else CUT.seen
    error = api.error_event(rest)
    if error is None:
        raise Malformed(f"more than was sent: {rest!r}")
    if error.message in PROVIDERS_WORDS:
        return PROVIDERS_EVENT.seen
    _check_own(error, None)
    if whole and cell.mode is Mode.BEGUN and not sent:
        return LAST_EVENT.seen
    if whole:
        raise Malformed(f"half a stream, ended as if it were whole: {body!r}")
    return ERROR_EVENT.seen


def _check_own(error: ErrorShape, status: int | None) -> None:
    if not error.message.startswith("HiveMind: "):
        raise Malformed(f"not our words: {error.message}")
    if status is not None and error.status not in (None, status):
        raise Malformed(f"another status in the body: {error}")


async def run(chosen: list[Cell]) -> dict[Cell, Outcome]:
    """Observe cells: many at a time of those that wait, and fewer of those that work, so that no answer takes long.

    Where a clock decides, a machine with too much else to do may show another outcome; such a cell is observed again,
    alone.
    """
    working, waiting, found = asyncio.Semaphore(16), asyncio.Semaphore(64), dict[Cell, Outcome]()

    async def one(cell: Cell) -> None:
        async with waiting if _is_timed(cell) else working:
            try:
                found[cell] = await observed(cell)
            except TimeoutError:
                found[cell] = Outcome("no end")

    async with asyncio.TaskGroup() as group:
        for cell in chosen:
            group.create_task(one(cell))
    for cell in chosen:
        if _is_timed(cell) and found[cell] != expected(cell):
            await one(cell)
    return found


def _is_timed(cell: Cell) -> bool:
    return cell.ending in (Ending.SILENT, Ending.REFUSED)
