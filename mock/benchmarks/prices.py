"""Writes the table of prices that the program brings along, `hivemind/prices.json`, from the library genai-prices:

    PYTHONPATH=mock python -m benchmarks.prices

The library decides what a model costs at a moment and a tier of service; the table keeps its answers.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import msgspec
from genai_prices import types
from genai_prices.data import providers

from hivemind.prices import HOUR_FACTOR, TABLE
from hivemind.providers.tiers import BATCH, FAST, FLEX, PRIORITY

CONTEXTS = {
    "": None,
    BATCH: {"processing": "batch"},
    FAST: {"speed": "fast", "service_tier": "fast"},  # Anthropic's and OpenAI's words
    FLEX: {"service_tier": "flex"},
    PRIORITY: {"service_tier": "priority"},
}
"""By tier: what the library calls it."""

_LONG_AGO = date(2000, 1, 1)


def table() -> str:
    """Return the table's text, a line a model: see :class:`hivemind.prices.Seller`."""
    sellers = []
    for provider in providers:
        names, sells = (_names(match) for match in (provider.provider_match, provider.model_match))
        head = msgspec.json.encode([names, sells, provider.fallback_model_providers or []]).decode()
        models = (msgspec.json.encode([_names(model.match), _rows(model)]).decode() for model in provider.models)
        sellers.append(f'"{provider.id}":{head[:-1]},[\n' + ",\n".join(models) + "]]")
    return "{" + ",\n".join(sellers) + "}\n"


def rates(price: types.ModelPrice) -> list[tuple[float, ...]]:
    """Return what :data:`hivemind.prices.Rates` says, in dollars a million, dearest first; nothing for a model that
    isn't paid by the token."""
    if price.input_mtok is None and price.output_mtok is None:
        return []
    parts = (
        price.input_mtok,
        # Cached input without a price of its own is input like any other.
        price.input_mtok if price.cache_read_mtok is None else price.cache_read_mtok,
        price.input_mtok if price.cache_write_mtok is None else price.cache_write_mtok,
        price.cache_write_1h_mtok,
        price.output_mtok,
    )
    starts = {tier.start for part in parts for tier in getattr(part, "tiers", ())}
    request = _at(price.requests_kcount, 0) * 1000
    found = []
    for above in (*sorted(starts, reverse=True), -1):
        plain, read, write, hour, output = (_at(part, above) for part in parts)
        if price.cache_write_1h_mtok is None:
            hour = write if price.cache_write_mtok is None else plain * HOUR_FACTOR
        found.append((above, *(float(part) for part in (plain, read, write, hour - write, output, request))))
    return found


def _rows(model: types.ModelInfo) -> list[tuple[float, int, int, dict[str, Any]]]:
    """Return from when on, and between which seconds of a day, what holds; latest first."""
    found: list[tuple[float, int, int, dict[str, Any]]] = []
    priced = model.prices if isinstance(model.prices, list) else []
    constraints = [each.constraint for each in (*priced, *(model.price_variants or ()))]
    days = {_LONG_AGO, *(each.start_date for each in constraints if isinstance(each, types.StartDateConstraint))}
    daily = [each for each in constraints if isinstance(each, types.TimeOfDateConstraint)]
    seconds = sorted({0, *(_second(at) for each in daily for at in (each.start_time, each.end_time))})
    for day in sorted(days, reverse=True):
        midnight = datetime.combine(day, time(), UTC)
        for start, end in zip(seconds, [*seconds[1:], 86_400], strict=True):
            at = midnight + timedelta(seconds=start)
            standard = model.get_prices(at)
            by_tier = {
                tier: rates(price)
                for tier, context in CONTEXTS.items()
                if (price := model.get_prices(at, cast(Any, context))) != standard or not tier
            }
            found.append((midnight.timestamp() if day != _LONG_AGO else 0.0, start, end, by_tier))
    return found


def _second(at: time) -> int:
    if (at.utcoffset() or timedelta()) != timedelta() or at.microsecond:
        raise ValueError(f"{at} isn't a whole second of UTC")
    return at.hour * 3600 + at.minute * 60 + at.second


def _names(match: types.MatchLogic | None) -> tuple[list[str], list[str], list[str], str]:
    """Return the fields of :class:`hivemind.prices.Names`."""
    clauses = match.or_ if isinstance(match, types.ClauseOr) else [] if match is None else [match]
    whole = [each.equals.lower() for each in clauses if isinstance(each, types.ClauseEquals)]
    beginnings = [each.starts_with.lower() for each in clauses if isinstance(each, types.ClauseStartsWith)]
    parts = [each.contains.lower() for each in clauses if isinstance(each, types.ClauseContains)]
    simple = types.ClauseEquals | types.ClauseStartsWith | types.ClauseContains
    return whole, beginnings, parts, "|".join(_pattern(each) for each in clauses if not isinstance(each, simple))


def _pattern(match: types.MatchLogic) -> str:
    match match:
        case types.ClauseOr():
            return f"(?:{'|'.join(map(_pattern, match.or_))})"
        case types.ClauseAnd():
            return rf"\A{''.join(f'(?=.*{_pattern(part)})' for part in match.and_)}"
        case types.ClauseEquals():
            return rf"\A{re.escape(match.equals.lower())}\Z"
        case types.ClauseStartsWith():
            return rf"\A{re.escape(match.starts_with.lower())}"
        case types.ClauseEndsWith():
            return rf"{re.escape(match.ends_with.lower())}\Z"
        case types.ClauseContains():
            return re.escape(match.contains.lower())
        case types.ClauseRegex():
            return match.regex


def _at(price: Any, above: int) -> Decimal:
    """Of a price with tiers, the one for requests with more input tokens than that."""
    if price is None or isinstance(price, Decimal):
        return price or Decimal(0)
    reached = [tier.price for tier in price.tiers if tier.start <= above]
    return Decimal(reached[-1] if reached else price.base)


if __name__ == "__main__":
    Path(TABLE).write_text(table(), encoding="utf-8")
