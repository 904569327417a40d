"""What tokens cost."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice

from benchmarks.prices import rates, table
from hivemind.prices import FRESH_S, MODELS_KEPT, TABLE, Prices
from hivemind.records import replace
from hivemind.scheduler.types import DEAREST, Usage

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp()
USED = Usage(1_000, 200, 300, 100)
SIZES = (
    Usage(),
    USED,
    Usage(150_000, 49_999, 1, 700),
    Usage(150_000, 50_000, 1, 700),
    Usage(10, 0, 271_990, 5),
    Usage(11, 271_990, 0, 5),
    Usage(1_000_000, 0, 0, 64_000),
)
HOURLY = (Usage(1_000, 200, 300, 100, 120), Usage(10, 0, 271_990, 5, 271_990))
"""Caches that are written for an hour, in part and alone."""
"""On both sides of the marks from which providers take more for long prompts."""


def by_the_library(provider: str, model: str, usage: Usage, **context: str) -> float:
    """What it says itself; its input is all input."""
    used = genai_prices.Usage(
        input_tokens=usage.total_input,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
    )
    at = datetime.fromtimestamp(NOON, UTC)
    found = genai_prices.calc_price(
        used, model, provider_id=provider, genai_request_timestamp=at, price_context=context or None
    )
    return float(found.total_price)


def test_the_table_is_the_library_s() -> None:
    """Of the version that development is pinned to; `make prices` writes it anew."""
    assert TABLE.read_text(encoding="utf-8") == table()


def test_a_cost_is_the_sum_of_its_parts() -> None:
    """In dollars a million: 2 for input, a tenth of it from the cache, a quarter more into it, 10 for output."""
    cost = Prices(lambda: NOON).cost("anthropic", "claude-sonnet-5", USED)
    assert cost == pytest.approx((1_000 * 2 + 200 * 0.2 + 300 * 2.5 + 100 * 10) / 1e6)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "azure", "google"])
def test_costs_are_the_library_s(provider: str) -> None:
    """For every model that is paid by the token, short prompts and long ones."""
    (known,) = [each for each in get_snapshot().providers if each.id == provider]
    prices, seen = Prices(lambda: NOON), 0
    for model in known.models:
        costs = [prices.cost(provider, model.id, usage) for usage in SIZES]
        if None not in costs:
            seen += 1
            assert costs == pytest.approx([by_the_library(provider, model.id, usage) for usage in SIZES]), model.id
    assert seen > 10


def test_caches_that_are_kept_for_an_hour_cost_more() -> None:
    """Twice the input, not a quarter more: the library's prices for all of Anthropic's models."""
    (known,) = [each for each in get_snapshot().providers if each.id == "anthropic"]
    prices = Prices(lambda: NOON)
    for model in known.models:
        costs = [prices.cost("anthropic", model.id, usage) for usage in HOURLY]
        assert costs == pytest.approx([by_the_library("anthropic", model.id, usage) for usage in HOURLY]), model.id
    cost = prices.cost("anthropic", "claude-sonnet-5", HOURLY[0])
    assert cost == pytest.approx((1_000 * 2 + 200 * 0.2 + 180 * 2.5 + 120 * 4 + 100 * 10) / 1e6)


def test_an_hour_without_a_price_of_its_own() -> None:
    """Twice the input where cache writes have a price, else input like any other."""
    for writes, hour in ((Decimal(5), 8), (None, 4)):
        price = ModelPrice(input_mtok=Decimal(4), output_mtok=Decimal(20), cache_write_mtok=writes)
        ((_, _, _, write, more, _, _),) = rates(price)
        assert write + more == pytest.approx(hour)


@pytest.mark.parametrize(
    ("provider", "tier", "context", "least"),
    [
        ("anthropic", "fast", {"speed": "fast"}, 4),
        ("anthropic", "batch", {"processing": "batch"}, 10),
        ("openai", "priority", {"service_tier": "priority"}, 15),
        ("openai", "fast", {"service_tier": "fast"}, 15),
        ("openai", "flex", {"service_tier": "flex"}, 15),
        ("openai", "batch", {"processing": "batch"}, 25),
        ("google", "priority", {"service_tier": "priority"}, 2),
        ("google", "batch", {"processing": "batch"}, 10),
    ],
)
def test_tiers_have_the_library_s_prices(provider: str, tier: str, context: dict[str, str], least: int) -> None:
    """For every model that has prices of its own at that tier, short prompts and long ones."""
    (known,) = [each for each in get_snapshot().providers if each.id == provider]
    prices, seen = Prices(lambda: NOON), 0
    for model in known.models:
        usages = [replace(usage, tier=tier) for usage in (*SIZES[1::2], *HOURLY[: provider == "anthropic"])]
        costs = [prices.cost(provider, model.id, usage) for usage in usages]
        if None in costs:
            continue
        there = [by_the_library(provider, model.id, usage, **context) for usage in usages]
        if there != [by_the_library(provider, model.id, usage) for usage in usages]:
            seen += 1
            assert costs == pytest.approx(there), model.id
    assert seen >= least


@pytest.mark.parametrize(
    ("provider", "model", "tier", "factor"),
    [
        ("anthropic", "claude-opus-5-5", "fast", 2),
        ("generic", "anthropic/claude-opus-5-5", "fast", 2),
        ("anthropic", "claude-opus-5-5", "priority", 1),
        ("anthropic", "claude-opus-5-5", "no-such-tier", 1),
        ("google", "gemini-3.8-flash", "flex", 0.5),
        ("google", "gemini-3.8-flash", "priority", 1.8),
        ("openai", "gpt-6-astra", "ultrafast", 6),
        ("azure", "gpt-5.1", "priority", 2),
        ("azure", "gpt-5.1", "batch", 0.5),
        ("openai", "gpt-4.1", "flex", 1),
    ],
)
def test_a_tier_is_some_factor_of_the_standard_price(provider: str, model: str, tier: str, factor: float) -> None:
    """Where the library has none, the provider's own statement counts, and without one the standard price."""
    prices = Prices(lambda: NOON)
    for usage in SIZES[1:4]:
        standard = prices.cost(provider, model, usage)
        assert standard is not None
        assert prices.cost(provider, model, replace(usage, tier=tier)) == pytest.approx(factor * standard)


def test_a_tier_that_nobody_knows_keeps_an_unknown_price_unknown() -> None:
    """And doesn't make one up."""
    assert Prices(lambda: NOON).cost("openai", "no-such-model", replace(USED, tier="fast")) is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o-2024-08-06"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("generic", "claude-sonnet-5"),
        ("generic", "anthropic/claude-sonnet-5"),
        ("generic", "openai/gpt-5.5"),
    ],
)
def test_models_are_known_by_all_their_names(provider: str, model: str) -> None:
    """With a date, and as gateways call them."""
    cost = Prices(lambda: NOON).cost(provider, model, USED)
    assert cost is not None
    assert cost > 0


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "no-such-model"),
        ("openai", ""),
        ("generic", "x" * 100_000),
        ("generic", "who/knows"),
        ("", "gpt-4o"),
        ("openai", "whisper-1"),
    ],
)
def test_an_unknown_price_is_none(provider: str, model: str) -> None:
    """Not nothing: of a model nobody knows, one that isn't paid by the token."""
    assert Prices(lambda: NOON).cost(provider, model, USED) is None


def test_the_dearest_model() -> None:
    """A provider's dearest costs no less than any it sells, also when too many models are known; at home nothing costs
    anything, and a gateway's dearest isn't known."""
    prices = Prices(lambda: NOON)
    for number in range(MODELS_KEPT):
        prices.cost("openai", f"made-up-{number}", USED)
    used = Usage(input_tokens=1000, output_tokens=1000)
    for provider, model in (("openai", "o1-pro"), ("anthropic", "claude-opus-4-1"), ("google", "gemini-2.5-pro")):
        known = Prices(lambda: NOON).cost(provider, model, used)
        dearest = prices.cost(provider, DEAREST, used)
        assert known is not None
        assert dearest is not None
        assert dearest >= known
    assert Prices(lambda: NOON).cost("ollama", "gpt-oss", used) == 0.0
    assert prices.cost("generic", DEAREST, used) is None


@pytest.mark.parametrize(
    ("model", "tier", "earlier", "later", "ratio"),
    [
        (
            "deepseek/deepseek-v4-pro",
            "",
            datetime(2026, 11, 1, 2, tzinfo=UTC),
            datetime(2026, 11, 1, 4, tzinfo=UTC),
            0.5,
        ),
        ("gemini-4-argon", "", datetime(2026, 11, 30, 23, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC), 2),
        ("gemini-3.8-flash", "batch", datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), 2),
    ],
)
def test_prices_change_with_the_date_and_the_hour(
    model: str, tier: str, earlier: datetime, later: datetime, ratio: float
) -> None:
    """Also while the program runs: a model is looked up again after an hour."""
    clock = [earlier.timestamp()]
    prices, usage = Prices(lambda: clock[0]), replace(USED, tier=tier)
    before = prices.cost("generic", model, usage)
    clock[0] = later.timestamp() + FRESH_S
    after = prices.cost("generic", model, usage)
    assert before is not None
    assert after == pytest.approx(ratio * before)


def test_names_that_agents_make_up_do_not_fill_the_memory() -> None:
    """Beyond so many, new ones have no price; those known keep theirs."""
    prices = Prices(lambda: NOON)
    assert prices.cost("openai", "gpt-4o", USED) is not None
    for n in range(MODELS_KEPT):
        prices.cost("ollama", f"model-{n}", USED)
    assert prices.cost("openai", "gpt-4o-mini", USED) is None
    assert prices.cost("openai", "gpt-4o", USED) is not None


def test_the_library_is_not_imported() -> None:
    """It brings an HTTP client along and takes some megabytes."""
    script = (
        "import sys\n"
        "from hivemind.prices import Prices\n"
        "from hivemind.scheduler.types import Usage\n"
        "print(Prices().cost('openai', 'gpt-4o', Usage(1000)), 'genai_prices' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0.0025 False\n"
