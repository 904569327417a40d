"""What a model's tokens cost, by public prices; never from the network.

`prices.json` holds them for each model, date, hour of the day and tier of service, as the library genai-prices states
them: `make prices` writes it. A seller's models are read when the first of them is looked up, and a model is looked up
once an hour; from then on a cost is five multiplications.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from hivemind.providers.profiles import PROFILES, plain_name
from hivemind.providers.tiers import BATCH, FLEX, PRIORITY, ULTRAFAST
from hivemind.scheduler.types import DEAREST, Price, Usage

TABLE = Path(__file__).with_name("prices.json")
FRESH_S = 3600.0  # a price may hold from a date on, or for some hours of the day
MODELS_KEPT = 1000
"""A model that comes when so many are known has no price, and neither has one with a very long name: names are the
agents' choice."""
NAME_LENGTH = 200

Rates = tuple[tuple[int, float, float, float, float, float, float], ...]
"""Dearest first: for requests with more than so many input tokens, dollars for a million tokens of plain input, of
cache read, of cache write, what one that is kept for an hour costs beyond that, of output, and for as many requests."""

HOUR_FACTOR = 2
"""Price of a cache write for an hour in prices of plain input, where the library knows none. Anthropic's, which for
five minutes is 1.25: https://platform.claude.com/docs/en/about-claude/pricing, "Prompt caching"."""


_FREE: Rates = ((-1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),)
"""Of models that run at home."""

_FACTORS = {
    ("anthropic", BATCH): 0.5,  # https://platform.claude.com/docs/en/about-claude/pricing
    ("azure", BATCH): 0.5,  # https://azure.microsoft.com/pricing/details/azure-openai
    ("azure", PRIORITY): 2.0,  # its retail prices for GPT-5.1, 5.2 and 5.4; 2.5 for 5.5
    ("google", BATCH): 0.5,  # https://ai.google.dev/gemini-api/docs/optimization
    ("google", FLEX): 0.5,
    ("google", PRIORITY): 1.8,  # that page says 1.75 to 2; 1.8 where the library knows it
    ("openai", BATCH): 0.5,  # https://developers.openai.com/api/docs/pricing
    ("openai", ULTRAFAST): 6.0,  # https://developers.openai.com/api/docs/pricing, for GPT-6 Astra
}
"""By seller and tier: the price in standard prices, for models of which the table has no price at that tier."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What holds from a moment on, in seconds since the epoch, between two seconds of a day in UTC: rates by tier of
    service, "" for the standard one; nothing for a model that isn't paid by the token."""

    since: float
    start_s: int
    end_s: int
    rates: dict[str, Rates]


class Names(msgspec.Struct, frozen=True, array_like=True):
    """What something is called, in small letters: names, beginnings and parts of names, and a regular expression, or
    "", of which names have a match."""

    whole: tuple[str, ...]
    beginnings: tuple[str, ...]
    parts: tuple[str, ...]
    pattern: str

    def __contains__(self, name: str) -> bool:
        return (
            name in self.whole
            or name.startswith(self.beginnings)
            or any(part in name for part in self.parts)
            or (self.pattern != "" and re.search(self.pattern, name) is not None)
        )


class Model(msgspec.Struct, frozen=True, array_like=True):
    """A model: what it is called, and its prices, latest first."""

    names: Names
    rows: tuple[Row, ...]

    def at(self, wall: float) -> dict[str, Rates]:
        """Return the rates by tier at that moment, in seconds since the epoch."""
        second = wall % 86_400
        return next(row.rates for row in self.rows if row.since <= wall and row.start_s <= second < row.end_s)


class Seller(msgspec.Struct, frozen=True, array_like=True):
    """Somebody who sells models: what they and their models are called, whose models they sell too, and their own, in
    the order in which they are looked at."""

    names: Names
    sells: Names
    others: tuple[str, ...]
    models: msgspec.Raw


class Prices:
    """To be used by one thread at a time.

    `wall` is the time of day in seconds since the epoch.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._rates: dict[tuple[str, str, str], Rates | None] = {}
        self._asked_at = wall()

    def cost(self, provider: str, model: str, usage: Usage) -> float | None:
        """US dollars; None where the price isn't known. The model :data:`.DEAREST` is unknown at gateways.

        `provider` is the name of a profile. A tier of service without a price of its own has the standard one.
        """
        if self._wall() - self._asked_at > FRESH_S:
            self._rates.clear()
            self._asked_at = self._wall()
        key = (provider, model, usage.tier)
        try:
            rates = self._rates[key]
        except KeyError:
            if model != DEAREST and (len(self._rates) >= MODELS_KEPT or len(model) > NAME_LENGTH):
                return None
            rates = self._rates[key] = self._look_up(*key)
        if rates is None:
            return None
        requests = usage.requests or 1
        total = usage.total_input if requests == 1 else usage.total_input / requests
        for rate in rates:
            if total > rate[0]:
                break
        _, plain, read, write, hour, output, request = rate
        return (
            plain * usage.input_tokens
            + read * usage.cache_read_tokens
            + write * usage.cache_write_tokens
            + hour * usage.cache_write_1h_tokens
            + output * usage.output_tokens
            + request * requests
        ) / 1e6

    def _look_up(self, provider: str, model: str, tier: str) -> Rates | None:
        profile = PROFILES.get(provider)
        if profile is None or not model:
            return None
        if profile.priced_as is None:
            return _FREE
        if model == DEAREST:
            found = _dearest(profile.priced_as, self._asked_at)
        else:
            found = next(filter(None, (_find(*each) for each in _sold_as(profile.priced_as, model))), None)
        if found is None:
            return None
        seller, sold = found
        by_tier = sold.at(self._wall())
        if tier in by_tier:
            return by_tier[tier] or None
        factor = _FACTORS.get((seller, tier), 1.0)
        return tuple((above, *(factor * part for part in parts)) for above, *parts in by_tier[""]) or None  # type: ignore[misc]


def prices_at(wall: float | None = None) -> Price:
    """Return public prices as they were at that moment, in seconds since the epoch, or today's."""
    earliest, latest = 1_500_000_000.0, 4_000_000_000.0  # beyond, a file says what can't be, or no date at all
    prices = Prices() if wall is None or wall < earliest else Prices(lambda: min(wall, latest))
    return prices.cost


@cache
def _sellers() -> dict[str, Seller]:
    return msgspec.json.decode(TABLE.read_bytes(), type=dict[str, Seller])


@cache
def _models(seller: str) -> tuple[Model, ...]:
    return msgspec.json.decode(_sellers()[seller].models, type=tuple[Model, ...])


def _find(seller: str | None, model: str) -> tuple[str, Model] | None:
    """Return who sells a model, and the model, as the library would find them; at "litellm", a gateway, by the seller
    that its name begins with, or that sells such names."""
    name = model.lower()
    if seller == "litellm":
        first, slash, rest = name.partition("/")
        if slash and (named := _named(first)) is not None:
            seller, name = named, rest
        else:
            seller = next((each for each, its in _sellers().items() if name in its.sells), None)
    if seller is None:
        return None
    # Gateways write dates without dashes.
    dashed = re.sub(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)", r"-\1-\2-\3", name)
    sellers = (seller, *_sellers()[seller].others)
    sold = (
        model for spelled in (name, dashed) for each in sellers for model in _models(each) if spelled in model.names
    )
    return next(((seller, model) for model in sold), None)


def _named(name: str) -> str | None:
    sellers = _sellers()
    return name if name in sellers else next((each for each, its in sellers.items() if name in its.names), None)


def _dearest(seller: str, wall: float) -> tuple[str, Model] | None:
    """Return the model of which input and output together cost most; None: the seller is a gateway."""
    if seller == "litellm":
        return None

    def price(model: Model) -> float:
        rates = model.at(wall)[""]
        return rates[-1][1] + rates[-1][5] if rates else 0.0

    return seller, max(_models(seller), key=price)


def _sold_as(seller: str, model: str) -> Iterator[tuple[str, str]]:
    """Say under which names to look a model up, and at whom, in this order: one at a gateway may be Amazon's, or its
    maker's under a longer name."""
    yield seller, model
    if seller == "litellm" and (plain := plain_name(model)) != model.lower():
        yield "aws", model.rpartition("/")[2]
        yield seller, plain
