"""What a model's tokens cost, by the public prices that the library genai-prices brings along; never from the network.

The library takes some time to import and a fraction of a millisecond for each price, so it is imported away from the
event loop, and asked once for each model, tier of service and hour; from then on a cost is five multiplications.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hivemind.providers.profiles import PROFILES, plain_name
from hivemind.providers.tiers import BATCH, FAST, FLEX, PRIORITY, ULTRAFAST
from hivemind.scheduler.types import DEAREST, Price, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

FRESH_S = 3600.0  # a price may hold from a date on, or for some hours of the day
MODELS_KEPT = 1000
"""A model that comes when so many are known has no price, and neither has one with a very long name: names are the
agents' choice."""
NAME_LENGTH = 200

Rates = tuple[tuple[int, float, float, float, float, float, float], ...]
"""Dearest first: for requests with more than so many input tokens, dollars for one token of plain input, of cache read,
of cache write, what one that is kept for an hour costs beyond that, of output, and for the request itself."""

HOUR_FACTOR = 2
"""Price of a cache write for an hour in prices of plain input, where the library knows none. Anthropic's, which for
five minutes is 1.25: https://platform.claude.com/docs/en/about-claude/pricing, "Prompt caching"."""


_FREE: Rates = ((-1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),)
"""Of models that run at home."""

_CONTEXTS = {
    BATCH: {"processing": "batch"},
    FAST: {"speed": "fast", "service_tier": "fast"},  # Anthropic's and OpenAI's words
    FLEX: {"service_tier": "flex"},
    PRIORITY: {"service_tier": "priority"},
}
"""By tier: what the library calls it."""
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
"""By the library's name for a provider, and tier: the price in standard prices, for models of which the library has no
price at that tier."""


class Prices:
    """To be used once :meth:`load` has returned, by one thread at a time.

    `wall` is the time of day in seconds since the epoch.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._rates: dict[tuple[str, str, str], Rates | None] = {}
        self._asked_at = wall()

    def load(self) -> None:
        """Import the library; takes about a tenth of a second, so call it in a thread."""
        self._look_up("openai", "gpt-4o", "")

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
        )

    def _look_up(self, provider: str, model: str, tier: str) -> Rates | None:
        profile = PROFILES.get(provider)
        if profile is None or not model:
            return None
        if profile.priced_as is None:
            return _FREE
        import genai_prices

        if model == DEAREST:
            dearest = _dearest(profile.priced_as)
            return None if dearest is None else self._look_up(provider, dearest, tier)
        at = datetime.fromtimestamp(self._wall(), UTC)
        nothing = genai_prices.Usage(input_tokens=0, output_tokens=0)
        for seller, name in _sold_as(profile.priced_as, model):
            try:
                found = genai_prices.calc_price(nothing, name, provider_id=seller, genai_request_timestamp=at)
                break
            except LookupError:
                continue
        else:
            return None
        price = found.model_price
        if not tier:
            return _rates(price)
        at_tier = found.model.get_prices(at, _CONTEXTS.get(tier))
        factor = _FACTORS.get((found.provider.id, tier), 1.0) if at_tier == price else 1.0
        return _rates(at_tier, factor)


def prices_at(wall: float | None = None) -> Price:
    """Return public prices as they were at that moment, in seconds since the epoch, or today's."""
    earliest, latest = 1_500_000_000.0, 4_000_000_000.0  # beyond, a file says what can't be, or no date at all
    prices = Prices() if wall is None or wall < earliest else Prices(lambda: min(wall, latest))
    prices.load()
    return prices.cost


def _dearest(seller: str) -> str | None:
    """Return the model of which input and output together cost most; None: the seller is a gateway."""
    from genai_prices.data import providers

    models = next((each.models for each in providers if each.id == seller and seller != "litellm"), [])
    at = datetime.now(UTC)

    def price(model: Any) -> float:
        rates = _rates(model.get_prices(at, None))
        return 0.0 if rates is None else rates[-1][1] + rates[-1][5]

    return str(max(models, key=price).id) if models else None


def _sold_as(seller: str, model: str) -> list[tuple[str, str]]:
    """Return under which names to look a model up, and at whom, in this order: one at a gateway may be Amazon's, or its
    maker's under a longer name."""
    found = [(seller, model)]
    if seller == "litellm" and (plain := plain_name(model)) != model.lower():
        found += [("aws", model.rpartition("/")[2]), (seller, plain)]
    return found


def _rates(price: ModelPrice, factor: float = 1.0) -> Rates | None:
    """Return `factor` times the price; None for a model that isn't paid by the token."""
    if price.input_mtok is None and price.output_mtok is None:
        return None
    parts = (
        price.input_mtok,
        # Cached input without a price of its own is input like any other.
        price.input_mtok if price.cache_read_mtok is None else price.cache_read_mtok,
        price.input_mtok if price.cache_write_mtok is None else price.cache_write_mtok,
        price.cache_write_1h_mtok,
        price.output_mtok,
    )
    starts = {tier.start for part in parts for tier in getattr(part, "tiers", ())}
    request = factor * float(_at(price.requests_kcount, 0)) / 1e3
    rates = []
    for above in (*sorted(starts, reverse=True), -1):
        plain, read, write, hour, output = (factor * float(_at(part, above)) / 1e6 for part in parts)
        if price.cache_write_1h_mtok is None:
            hour = write if price.cache_write_mtok is None else plain * HOUR_FACTOR
        rates.append((above, plain, read, write, hour - write, output, request))
    return tuple(rates)


def _at(price: Any, above: int) -> Decimal:
    """Of a price with tiers, the one for requests with more input tokens than that."""
    if price is None or isinstance(price, Decimal):
        return price or Decimal(0)
    reached = [tier.price for tier in price.tiers if tier.start <= above]
    return Decimal(reached[-1] if reached else price.base)
