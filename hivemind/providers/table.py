"""What a provider's own words mean, as data: the classes of the rows in :mod:`hivemind.providers.known`.

A file there describes one provider, gateway or server, in a constant `PROVIDER`, and holds nothing but rows. Each row
stands on bytes that were recorded or documented: its `example`, by which the tests hold it to what the reader says.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from msgspec import Struct

SEARCHED = 1000
"""Characters of a refusal's text that are searched for words and waits: of hostile text in some 2 ms, of usual text in
less than one."""


@cache
def compiled(pattern: str, flags: int = re.I) -> re.Pattern[str]:
    """Return the pattern without regard to case, compiled on first use, because that takes some milliseconds."""
    return re.compile(pattern, flags)


class Meaning(Enum):
    """What a refusal says about the next attempt."""

    USED_UP = "used_up"
    """Credit, a plan, or the quota of a day or longer: no attempt helps, unless a nearer wait is stated."""
    FORBIDDEN = "forbidden"
    """As :attr:`USED_UP`, whatever wait is stated."""
    TOO_LARGE = "too_large"
    """This request alone can never pass."""
    THROTTLED = "throttled"
    """It passes after a while, whatever words stand beside."""
    FULL = "full"
    """The provider is at its capacity, whoever asks."""


class Row(Struct, frozen=True, kw_only=True):
    """What every row states of its own origin."""

    source: str
    """URL or name of the document or report."""
    seen: str
    """When: `2026-11`."""


class Refusal(Row, frozen=True, kw_only=True):
    """One refusal. Of `code`, `text` and `status`, all that are given have to match."""

    meaning: Meaning
    example: str
    """The body, as recorded or documented."""
    code: str = ""
    """One of the error's codes, types and status names, in lower case."""
    text: str = ""
    """Regular expression, searched in the error's text without regard to case."""
    status: int = 429
    """The example's status."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the example, where they matter."""

    def matches(self, codes: frozenset[str], text: str) -> bool:
        """Return whether an error with these codes and this text is one of this kind."""
        return (not self.code or self.code in codes) and (not self.text or compiled(self.text).search(text) is not None)


class Wait(Row, frozen=True, kw_only=True):
    """A header that states a wait under a name of its own: not `Retry-After`, and no `reset` of a rate limit."""

    header: str
    """In lower case. Its value: seconds, a duration, a date, or seconds or milliseconds since the epoch."""
    given: tuple[str, str] | None = None
    """Another header and a regular expression of its value, without which this one says nothing of the refusal."""


class Failing(Row, frozen=True, kw_only=True):
    """A form of failures that come with status 200, which :mod:`hivemind.providers.failing` recognises by itself."""

    example: str
    """The last block of a stream, or a whole reply."""
    stream: bool = True
    status: int | None = 502
    """The status that the failure counts as; None: nothing came."""


class Counts(Row, frozen=True, kw_only=True):
    """Names under which replies state what they used. Where the object with these names stands is found."""

    input: str = ""
    output: str = ""
    cached: str = ""
    """What was read from a cache."""
    written: str = ""
    """What was written into one."""
    apart: bool = False
    """Tokens of the cache aren't part of the input."""
    example: str
    """An event's data, or a whole reply of the dialect :attr:`dialect`."""
    dialect: str = "openai_chat"
    stream: bool = True
    counted: tuple[int, int, int, int]
    """What the example states: input without the cache, read from it, written, output."""


class Path(Row, frozen=True, kw_only=True):
    """Paths of its own under which a known dialect is spoken, or that cost nothing."""

    path: str
    """Regular expression, searched in a path without regard to case and matched at its end; its group `model`, if there
    is one, is the model's name."""
    dialect: str = ""
    """Empty: a POST there is free."""
    stream: bool | None = None
    """Whether it is answered by a stream; None: the body says."""
    example: str
    """The path of a request."""
    model: str = ""
    """The model that the example names."""


class Limit(Row, frozen=True, kw_only=True):
    """How headers state what is left of a limit. Without a `header` their names say it (:mod:`.limits`)."""

    example: tuple[tuple[str, str], ...]
    """The headers, as recorded or documented."""
    says: tuple[tuple[str, float, float], ...] = ()
    """What is read from them: for each window what it counts, its limit and what remains."""
    used: tuple[tuple[str, float], ...] = ()
    """The same of plans: their names, and the share that is used."""
    header: str = ""
    """Regular expression of names that don't say it in known words, with a group `field` (`limit`, `remaining`, `used`,
    `reset`; of long windows `utilization` from 0 to 1, `percent`, `minutes` that they last, or `quota`: Copilot's form)
    and, if several, `window`."""
    window: str = ""
    """What it counts, a value of :class:`~hivemind.scheduler.types.WindowKind`; empty: it is a long window."""
    fields: tuple[tuple[str, str], ...] = ()
    """By other words for a field in the names, the field."""


class Load(Row, frozen=True, kw_only=True):
    """Where a model server at home tells how many requests it has, computed and waiting inside, or can compute."""

    path: str
    """What is asked for, now and then."""
    text: str
    """Regular expression of each number to add up, its group; without one each match is a request."""
    example: str
    """The reply's body, as recorded or documented."""
    requests: int
    """What the example states."""

    def read(self, body: str) -> int | None:
        """Return the requests that a reply tells of; None: it tells nothing."""
        found = compiled(self.text).findall(body)
        return sum(int(each) if each.isdigit() else each == "true" for each in found) if found else None


class Sign(Row, frozen=True, kw_only=True):
    """By what a model server is recognised: all that is given has to match."""

    example: str
    """The reply's body, as recorded or documented."""
    server: str = ""
    """Beginning of the `Server` header."""
    path: str = ""
    """What is asked for; empty: any reply tells."""
    text: str = ""
    """Regular expression, searched in the body."""

    def matches(self, server: str, path: str, body: str) -> bool:
        """Return whether a reply is this server's."""
        if self.path and (path != self.path or compiled(self.text).search(body) is None):
            return False
        return server.startswith(self.server)


class Provider(Struct, frozen=True, kw_only=True):
    """A provider, gateway or server."""

    name: str
    hosts: tuple[str, ...] = ()
    """Its host names; `.example.com`: all below that domain."""
    headers: tuple[str, ...] = ()
    """Beginnings of names of headers that only its replies have, in lower case."""
    errors: str = ""
    """Regular expression that only its errors' bodies match."""
    zone_h: float = 0.0
    """Hours from UTC of the times that it states without a zone."""
    refusals: tuple[Refusal, ...] = ()
    """The first that matches counts."""
    waits: tuple[Wait, ...] = ()
    failing: tuple[Failing, ...] = ()
    counts: tuple[Counts, ...] = ()
    paths: tuple[Path, ...] = ()
    limits: tuple[Limit, ...] = ()
    signs: tuple[Sign, ...] = ()
    """Of a model server, which has the profile of the same name."""
    loads: tuple[Load, ...] = ()
    """The first that is served is asked for."""
    slots: Load | None = None
    """Where it tells, once, how many requests it computes at a time; further ones wait inside."""

    def serves(self, host: str) -> bool:
        """Return whether a host name, in lower case, is one of its own."""
        return any(host == each.lstrip(".") or (each[0] == "." and host.endswith(each)) for each in self.hosts)
