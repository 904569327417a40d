"""Attempts as logs of clients, gateways and traces tell of them: who asked when and what it used, without headers and
bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from hivemind.agent_names import LONGEST, BadName, KnownNames, normalised
from hivemind.journal.importers.parsed import Entry, Hints, ParsedAttempt, UnreadableEntry
from hivemind.journal.records import UNEXPLAINED
from hivemind.providers.base import Facts, Limits
from hivemind.providers.clients import Client
from hivemind.providers.errors import classify
from hivemind.providers.limits import limits_in_words
from hivemind.providers.paths import dialect_for
from hivemind.providers.profiles import profile_for
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import Failure, FailureKind, Usage, Utilisation, WindowKind, WindowReading
from hivemind.settings.sections import AgentSettings
from hivemind.wire.identity import ANONYMOUS, Claims, Identity, identify
from hivemind.wire.request_head import RequestRefused, parse_path

_LONGEST_MODEL = 100
_EARLIEST, _LATEST = 1e8, 4.1e9
"""Moments in seconds since the epoch, 1973 and 2099: a smaller number is one since a trace began."""


class Told(msgspec.Struct, omit_defaults=True):
    """One attempt. Moments are seconds since the epoch; None is what isn't recorded."""

    at: float
    session: str
    source: str
    """The reader's name, as in `claude-code`."""
    model: str = ""
    ident: str = ""
    """The same in every copy of this attempt; empty: there are no copies."""
    copied: bool = False
    """This is a copy, so the original goes before it."""
    request: str = ""
    """Attempts at one request have the same; empty: it is the only one."""
    agent: str = ""
    """A sub-agent of the session."""
    parent: str = ""
    """What started this one: a sub-agent of the session, or a session where `agent` is empty."""
    origin: str = ""
    end: float | None = None
    first: float | None = None
    """Of the first content."""
    status: int | None = 200
    """None: it failed, and with what isn't recorded."""
    failed: bool = False
    left: bool = False
    """Its client gave it up, or ended."""
    usage: Usage | None = None
    delay_s: float | None = None
    """Retry-After."""
    max_output: int | None = None
    size_chars: int = 0
    stream: bool = False
    tier: str = ""
    limits: list[tuple[str, int]] = []
    """What its refusal states of limits a minute, by the values of :class:`~hivemind.scheduler.types.WindowKind`."""
    plan: list[tuple[str, float, float | None]] = []
    """What its answer states of windows of a plan: name, used share (0 to 1), moment of the reset."""


class Tale(msgspec.Struct, omit_defaults=True):
    """What a file tells."""

    source: str
    attempts: list[Told] = []
    skipped: dict[str, int] = {}
    """How many entries say nothing of an attempt, by why."""
    unseen: list[str] = []
    """What no file of this kind records, of :data:`~hivemind.journal.records.UNKNOWN`."""
    dollars: dict[str, float] = {}
    """What the program itself states that it used, by the run that it counts."""

    def skip(self, why: str) -> None:
        """Count an entry."""
        self.skipped[why] = self.skipped.get(why, 0) + 1


def without_copies(tales: Iterable[Tale]) -> Iterator[Told]:
    """Every attempt once. Of copies (resumed and forked sessions repeat earlier lines) the original counts, or the one
    in the file that began first."""
    copies: dict[str, Told] = {}
    began = sorted((tale for tale in tales if tale.attempts), key=lambda tale: min(_own(tale)))
    for told in (told for tale in began for told in tale.attempts):
        if not told.ident:
            yield told
        elif (other := copies.get(told.ident)) is None or (other.copied and not told.copied):
            copies[told.ident] = told
    yield from copies.values()


def stated_dollars(tales: Iterable[Tale]) -> float | None:
    """What the programs themselves say that they used; None: they don't. A resumed or forked run counts on."""
    most: dict[str, float] = {}
    for run, dollars in (each for tale in tales for each in tale.dollars.items()):
        most[run] = max(dollars, most.get(run, 0.0))
    return sum(most.values()) if most else None


def _own(tale: Tale) -> list[float]:
    return [told.at for told in tale.attempts if not told.copied] or [told.at for told in tale.attempts]


class Understanding:
    """Makes of attempts that were told what a recording of HTTP gives."""

    def __init__(self) -> None:
        self._claims = Claims(KnownNames(), AgentSettings())
        self._tickets: dict[tuple[str, str], int] = {}
        self._identities: dict[tuple[str, str, str, str], Identity] = {}

    def attempt(self, told: Told, unseen: Sequence[str] = ()) -> ParsedAttempt:
        """The same as of an entry; `unseen`: what its file doesn't record."""
        key = (told.source, told.session, told.agent, told.parent)
        if (identity := self._identities.get(key)) is None:
            identity = self._identities[key] = self._identity(told)
        origin = told.origin or f"recorded://{told.source}"
        end = max(told.at, told.at if told.first is None else told.first, told.at if told.end is None else told.end)
        ticket = self._tickets.setdefault((told.session, told.request), len(self._tickets)) if told.request else None
        entry = Entry(
            *("POST", origin, b"", b"", [], b"", told.at, told.at),
            first_at=told.first,
            ended_at=end,
            status=told.status or 0,
            # Its attempts follow each other; which is which doesn't matter beyond that the first one begins it.
            hints=Hints(ticket=ticket, attempt=2 if ticket is not None else 1),
            timed=told.end is not None,
        )
        model = told.model[:_LONGEST_MODEL]
        model = model if model.isprintable() else ""
        facts = Facts(model, told.stream, told.size_chars, told.max_output, tier=told.tier)
        return ParsedAttempt(
            entry=entry,
            address=_NOWHERE,
            provider=profile_for(origin).name,
            lane=ANONYMOUS,
            identity=identity,
            client=Client(told.source),
            facts=facts,
            path="",
            request=b"",
            limits=_limits(told, end),
            failure=_failure(told) if told.failed else None,
            left=told.left,
            usage=told.usage,
            content=told.first is not None,
            unseen=unseen,
        )

    def _identity(self, told: Told) -> Identity:
        client = Client(told.source, session=told.session, agent=told.agent, parent=told.parent)
        try:
            if told.source not in ("claude-code", "codex") and told.session:
                name = normalised(told.session[:LONGEST].strip(" /"))
                return Identity(self._claims.spelled(name), None, named=True, priority=None)
            return identify(self._claims, client, "", name="", credential=ANONYMOUS, priority=None)
        except (BadName, RequestRefused):
            return identify(self._claims, client, "", name="", credential=ANONYMOUS, priority=None)


_NOWHERE = parse_path(b"/")


def _failure(told: Told) -> Failure:
    if told.status is None:
        return Failure(FailureKind.SERVER_ERROR, True, None, told.delay_s, UNEXPLAINED)
    if told.status == 0:
        return Failure(FailureKind.DISCONNECTED, True, None, told.delay_s, "no answer came")
    found = classify(told.status, [], b"", told.at)
    kind, again = (FailureKind.CLIENT_ERROR, False) if found is None else (found.kind, found.retryable)
    return Failure(kind, again, told.status, told.delay_s, f"status {told.status}")


def _limits(told: Told, end: float) -> Limits:
    readings = (WindowReading(WindowKind(kind), limit, None, None) for kind, limit in told.limits)
    plan = (
        Utilisation(name, used, None if resets_at is None else max(0.0, resets_at - end), "")
        for name, used, resets_at in told.plan
    )
    return Limits(tuple(readings), tuple(plan))


def stated_limits(text: object) -> list[tuple[str, int]]:
    """What the text of a refusal states, for :attr:`Told.limits`."""
    found = limits_in_words(text) if isinstance(text, str) else ()
    return [(each.kind.value, each.limit) for each in found if each.limit]


def read_usage(path: str, usage: bytes) -> Usage | None:
    """The tokens that an object `usage` of the API at this path states."""
    tap = dialect_for(path).tap([], Facts())
    feed_through(tap, b'{"usage":' + usage + b"}")
    end_through(tap)
    return tap.state.usage


def moment(value: object) -> float:
    """Seconds since the epoch of a date and time (UTC where no zone stands there), or of a number of seconds,
    milliseconds, microseconds or nanoseconds. Raises: UnreadableEntry."""
    found = number(value)  # first, because some numbers of milliseconds are dates to `fromisoformat`
    if found is not None:
        found /= next((unit for unit in (1e9, 1e6, 1e3) if found >= _EARLIEST * unit), 1.0)
    elif isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            date = datetime.fromisoformat(value.strip())
            found = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if found is None or not 0 <= found <= _LATEST:
        raise UnreadableEntry("an entry doesn't say when it began")
    return found


def number(value: object) -> float | None:
    """A finite number, or the one that a text holds."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e20 else None
    )


def count(value: object) -> int | None:
    """A number of tokens."""
    found = number(value)
    return None if found is None or not 0 <= found < 1e12 else int(found)
