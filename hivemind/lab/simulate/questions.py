"""Questions about more than settings: another provider, more agents. Parsed from text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.text.humanise import duration, instead_of, listed, parse_duration, parse_number

_FACTOR = re.compile(r"(?:[x×*] *(?P<before>\d+(?:\.\d*)?|\.\d+)|(?P<after>\d+(?:\.\d*)?|\.\d+) *[x×])")
_NONE = frozenset({"none", "off", "no"})
_NAME = re.compile(r"provider(?:\.(?P<upstream>.+))?\.(?P<what>\w+)", re.IGNORECASE)
LEAST_FACTOR, MOST_FACTOR = 0.01, 100.0
MOST_AGENTS = 10_000


class Allowed(Struct, frozen=True):
    """What the value of a question may be."""

    means: str
    """What is asked."""
    factor: bool = False
    """`x2`, of what was recorded."""
    amount: bool = False
    """A number, such as `200k`."""
    none: bool = False
    """`none`, or `off`."""
    other: str = ""
    """Anything else, in words."""

    def __str__(self) -> str:
        kinds = [
            "a factor such as x2" if self.factor else "",
            "a number such as 8 or 200k" if self.amount else "",
            "none" if self.none else "",
            self.other,
        ]
        return listed(kinds)


PROVIDER: Mapping[str, Allowed] = {
    "limits": Allowed("all of its rate limits: another tier", factor=True, none=True),
    "requests": Allowed("requests a window", factor=True, amount=True, none=True),
    "tokens": Allowed("tokens a window", factor=True, amount=True, none=True),
    "input": Allowed("input tokens a window", factor=True, amount=True, none=True),
    "output": Allowed("output tokens a window", factor=True, amount=True, none=True),
    "places": Allowed("requests it takes at once", factor=True, amount=True, none=True),
    "latency": Allowed("the time of its answers: a slower or faster model", factor=True),
    "cache": Allowed("how long its cache keeps a prompt", none=True, other="a time such as 5m"),
    "tier": Allowed("the limits that are published for a tier", other="its name, such as 4"),
    "model": Allowed("another model, at its price", other="its name, such as claude-haiku-4-5"),
    "outage": Allowed(
        "every attempt fails for so long", none=True, other="a time such as 5m, or 5m@10m: 10 minutes in"
    ),
}
"""What can be asked about a provider: `provider.WHAT`, or `provider.UPSTREAM.WHAT` of one of several."""
AGENTS = Allowed("how many agents there are", factor=True, amount=True)


class Factor(Struct, frozen=True):
    """A multiple of what was recorded."""

    by: float

    def __str__(self) -> str:
        return f"x{self.by:.6g}"


class Outage(Struct, frozen=True):
    """Every attempt fails for so long."""

    lasts_s: float
    begins_s: float | None
    """After the beginning of the recording; None: after a third of it."""

    def __str__(self) -> str:
        at = "" if self.begins_s is None else f"@{_plain(self.begins_s)}"
        return f"{_plain(self.lasts_s)}{at}"


class Kept(Struct, frozen=True):
    """Prompts are kept for so long after their last use."""

    for_s: float

    def __str__(self) -> str:
        return _plain(self.for_s)


Value = Factor | Outage | Kept | float | str | None
"""None: none, off."""


class Question(Struct, frozen=True):
    """One question, by what it asks about."""

    what: str
    """One of :data:`PROVIDER`, or `agents`."""
    value: Value
    upstream: str = ""
    """Of several; empty: all of them."""


def is_question(name: str) -> bool:
    """Return whether a name is that of a question rather than of a setting."""
    plain = name.strip().lower().lstrip("-")
    return plain in ("agents", "provider") or plain.startswith("provider.")


def question(name: str, text: str) -> Question:
    """Parse a question. Raises: UsageError: there is none of that name, or its value isn't one."""
    plain = name.strip().lstrip("-")
    if plain.lower() == "agents":
        return Question("agents", _agents(text))
    found = _NAME.fullmatch(plain)
    what = "" if found is None else found["what"].lower()
    if found is None or what not in PROVIDER:
        raise UsageError(f"{plain}: nothing of that name can be asked about a provider{instead_of(what, PROVIDER)}")
    return Question(what, _value(plain, what, text), found["upstream"] or "")


def canonical(asked: Question) -> tuple[str, str]:
    """Return name and value as they are shown, and parsed again."""
    place = f"provider.{asked.upstream}." if asked.upstream else "provider."
    name = asked.what if asked.what == "agents" else place + asked.what
    value = asked.value
    if value is None:
        return name, "none"
    return name, f"{value:.10g}" if isinstance(value, float) else str(value)


def all_names() -> list[str]:
    """Return what can be asked, for messages."""
    return ["agents", *(f"provider.{what}" for what in PROVIDER)]


def meaning_of(name: str) -> Allowed:
    """Return what a question, one of :func:`all_names`, asks and may be answered with."""
    return AGENTS if name == "agents" else PROVIDER[name.rpartition(".")[2]]


def _agents(text: str) -> Value:
    value = _factor(text, "agents", AGENTS)
    if value is not None:
        return value
    number = _amount(text)
    if number is None or number != int(number) or not 1 <= number <= MOST_AGENTS:
        raise UsageError(f"agents {text.strip()[:40]}: must be {AGENTS}, at most {MOST_AGENTS:,}")
    return number


def _value(name: str, what: str, text: str) -> Value:
    allowed, plain = PROVIDER[what], text.strip()
    refused = UsageError(f"{name} {plain[:40]}: must be {allowed}")
    if allowed.none and plain.lower() in _NONE:
        return None
    if what == "outage":
        return _outage(name, plain)
    if what == "cache":
        return _kept(name, plain)
    if what in ("tier", "model"):
        return plain
    if allowed.factor and (factor := _factor(plain, name, allowed)) is not None:
        return factor
    number = _amount(plain) if allowed.amount else None
    if number is None or number < 1 or (what == "places" and number != int(number)):
        raise refused
    return number


def _factor(text: str, name: str, allowed: Allowed) -> Factor | None:
    found = _FACTOR.fullmatch(text.strip().lower())
    if found is None:
        return None
    by = float(found["before"] or found["after"])
    if not LEAST_FACTOR <= by <= MOST_FACTOR:
        raise UsageError(f"{name} {text.strip()[:40]}: must be {allowed}, from x{LEAST_FACTOR:g} to x{MOST_FACTOR:g}")
    return Factor(by)


def _amount(text: str) -> float | None:
    try:
        return parse_number(text)
    except ValueError:
        return None


def _outage(name: str, text: str) -> Outage:
    lasts, at, begins = (part.strip() for part in text.partition("@"))
    try:
        outage = Outage(parse_duration(lasts), parse_duration(begins) if at else None)
    except ValueError:
        raise UsageError(f"{name} {text[:40]}: must be {PROVIDER['outage']}") from None
    if outage.lasts_s <= 0:
        raise UsageError(f"{name} {text[:40]}: must be longer than {duration(0)}")
    return outage


def _kept(name: str, text: str) -> Kept:
    try:
        kept = Kept(parse_duration(text))
    except ValueError:
        raise UsageError(f"{name} {text[:40]}: must be {PROVIDER['cache']}") from None
    if kept.for_s <= 0:
        raise UsageError(f"{name} {text[:40]}: must be longer than {duration(0)}, or none")
    return kept


def _plain(seconds: float) -> str:
    return f"{seconds / 60:.10g}m" if seconds and seconds % 60 == 0 else f"{seconds:.10g}s"
