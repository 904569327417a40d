"""Rate-limit headers of every provider."""

from __future__ import annotations

import pytest
from scheduler.driving import lane_config

from hivemind.providers.base import Limits
from hivemind.providers.limits import limits_in_words, read_limits
from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.credits import Terms
from hivemind.scheduler.limits import PROBE_S
from hivemind.scheduler.ticket import Agent, Ticket
from hivemind.scheduler.types import Priority, Request, Utilisation, WindowKind, WindowReading

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def limits(**headers: str) -> Limits:
    return read_limits([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()], NOW)


def test_anthropic() -> None:
    """Three separate windows with RFC 3339 resets."""
    assert limits(
        anthropic_ratelimit_requests_limit="50",
        anthropic_ratelimit_requests_remaining="49",
        anthropic_ratelimit_requests_reset="2026-09-21T14:13:21Z",
        anthropic_ratelimit_input_tokens_limit="40000",
        anthropic_ratelimit_input_tokens_remaining="39000",
        anthropic_ratelimit_input_tokens_reset="2026-09-21T14:14:20Z",
        anthropic_ratelimit_output_tokens_limit="8000",
        anthropic_ratelimit_output_tokens_remaining="8000",
        anthropic_ratelimit_output_tokens_reset="2026-09-21T14:13:20Z",
        anthropic_ratelimit_tokens_limit="48000",
        anthropic_ratelimit_tokens_remaining="47000",
        anthropic_ratelimit_tokens_reset="2026-09-21T14:14:20Z",
    ).readings == (
        WindowReading(WindowKind.REQUESTS, 50, 49, 1.0),
        WindowReading(WindowKind.INPUT, 40000, 39000, 60.0),
        WindowReading(WindowKind.OUTPUT, 8000, 8000, 0.0),
        WindowReading(WindowKind.TOKENS, 48000, 47000, 60.0),
    )


def test_resets_are_read_against_the_providers_clock() -> None:
    """With a clock that is ten minutes off, a reset a minute ahead is still a minute ahead."""
    stated = limits(
        date="Mon, 21 Sep 2026 14:23:20 GMT",
        anthropic_ratelimit_requests_limit="50",
        anthropic_ratelimit_requests_reset="2026-09-21T14:24:20Z",
    )
    assert stated.readings == (WindowReading(WindowKind.REQUESTS, 50, None, 60.0),)


def test_openai() -> None:
    """Resets are Go durations."""
    assert limits(
        x_ratelimit_limit_requests="60",
        x_ratelimit_remaining_requests="59",
        x_ratelimit_reset_requests="1s",
        x_ratelimit_limit_tokens="150000",
        x_ratelimit_remaining_tokens="149984",
        x_ratelimit_reset_tokens="6m0s",
    ).readings == (
        WindowReading(WindowKind.REQUESTS, 60, 59, 1.0),
        WindowReading(WindowKind.TOKENS, 150000, 149984, 360.0),
    )


def test_a_days_window_counts_beside_a_minutes() -> None:
    """Each has its own state: the day's that is used up holds requests, and is asked again, whatever the minute's says,
    and no lease divides it."""
    windows = {
        "requests_day": ("14400", "0", "3h"),
        "requests_minute": ("30", "29", "2s"),
        "tokens_per_day": ("1000", "800", ""),
    }
    fields = [("limit", 0), ("remaining", 1), ("reset", 2)]
    headers = {f"x_ratelimit_{field}_{name}": windows[name][at] for name in windows for field, at in fields}
    stated = limits(**headers).readings
    assert stated == (
        WindowReading(WindowKind.REQUESTS_DAY, 14400, 0, 10800.0),
        WindowReading(WindowKind.REQUESTS, 30, 29, 2.0),
        WindowReading(WindowKind.TOKENS_DAY, 1000, 800, None),
    )
    allowance = Allowance(lane_config(), Terms())
    assert allowance.read(0.0, stated, 0.0, None) == []
    assert {kind: window.credits is None for kind, window in allowance.windows.items()} == {
        WindowKind.REQUESTS_DAY: True,
        WindowKind.REQUESTS: False,
        WindowKind.TOKENS_DAY: True,
    }
    left = {
        state.kind: state.remaining for state in allowance.states(dict.fromkeys(allowance.windows.values(), "m"), 0.0)
    }
    assert left[WindowKind.REQUESTS_DAY] == 0
    assert left[WindowKind.TOKENS_DAY] == 800
    alone = Allowance(lane_config())
    alone.read(0.0, stated, 0.0, None)
    request = Request("agent", "lane", "m", "m", 0, None, stream=True)
    ticket = Ticket(1, request, Agent("agent", 0.0), "p", Priority.NORMAL, 0.0, 0.0, 60.0)
    assert alone.shut(0.0, ticket) == ("requests", PROBE_S)


def test_the_tighter_of_two_token_windows_counts() -> None:
    """A project's allowance below its organization's is the one that refuses."""
    stated = {
        "x_ratelimit_limit_tokens": "150000",
        "x_ratelimit_remaining_tokens": "100000",
        "x_ratelimit_limit_project_tokens": "30000",
        "x_ratelimit_remaining_project_tokens": "500",
        "x_ratelimit_reset_project_tokens": "20ms",
    }
    expected = (WindowReading(WindowKind.TOKENS, 30000, 500, 0.02),)
    assert limits(**stated).readings == expected
    assert limits(**dict(reversed(stated.items()))).readings == expected


@pytest.mark.parametrize("reset", ["26", "26.0"])
def test_azure(reset: str) -> None:
    """Resets are plain seconds."""
    stated = limits(x_ratelimit_limit_tokens="120000", x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens=reset)
    assert stated.readings == (WindowReading(WindowKind.TOKENS, 120000, 0, 26.0),)


@pytest.mark.parametrize("limit", ["-1", "0", "unlimited"])
def test_no_limit_states_nothing(limit: str) -> None:
    """Azure's -1/-1/0 and a limit of 0 are no windows."""
    stated = limits(
        x_ratelimit_limit_requests=limit, x_ratelimit_remaining_requests="-1", x_ratelimit_reset_requests="0"
    )
    assert stated == Limits()


def test_what_is_missing_stays_unknown() -> None:
    """A window may come without its limit or reset; a reset alone is no window."""
    assert limits(x_ratelimit_remaining_requests="7").readings == (WindowReading(WindowKind.REQUESTS, None, 7, None),)
    assert limits(x_ratelimit_reset_requests="1s") == Limits()
    assert limits(x_ratelimit_limit_tokens="9", x_ratelimit_remaining_tokens="-1").readings == (
        WindowReading(WindowKind.TOKENS, 9, None, None),
    )


def test_other_pools_are_left_alone() -> None:
    """Anthropic's priority and fast pools, and windows of unknown names, say nothing of the ordinary windows."""
    assert limits(anthropic_priority_input_tokens_limit="5", anthropic_fast_output_tokens_remaining="0") == Limits()
    assert (
        limits(x_ratelimit_limit_images="5", x_ratelimit_over_limit="5", x_ratelimit_limit_custom_day="5") == Limits()
    )


REQUESTS = WindowReading(WindowKind.REQUESTS, 60, 5, 30.0)
HOUR = WindowReading(WindowKind.REQUESTS_HOUR, 1000, 7, 4000.0)
DAY = WindowReading(WindowKind.REQUESTS_DAY, 1000, 7, 4000.0)
IN_OTHER_WORDS: dict[str, tuple[dict[str, str], tuple[WindowReading, ...]]] = {
    "no unit": ({"x_ratelimit_limit": "60", "x_ratelimit_remaining": "5", "x_ratelimit_reset": "30"}, (REQUESTS,)),
    "hyphens": ({"x_rate_limit_limit": "60", "x_rate_limit_remaining": "5", "x_rate_limit_reset": "30s"}, (REQUESTS,)),
    "used": ({"x_ratelimit_limit": "60", "x_ratelimit_used": "55", "x_ratelimit_reset": "30"}, (REQUESTS,)),
    "a rate": (
        {"x_ratelimit_rpm_limit": "60", "x_ratelimit_rpm_remaining": "5", "x_ratelimit_reset_rpm": "30"},
        (REQUESTS,),
    ),
    "an hour": (
        {
            "x_ratelimit_limit_requests_1h": "1000",
            "x_ratelimit_remaining_requests_1h": "7",
            "x_ratelimit_reset_requests_1h": "4000",
        },
        (HOUR,),
    ),
    "every length at once": (
        {
            f"x_ratelimit_{field}_{length}": value
            for length, values in {
                "second": ("10", "9", "1"),
                "minute": ("60", "5", "30"),
                "hour": ("1000", "7", "4000"),
                "24h": ("1000", "7", "4000"),
            }.items()
            for field, value in zip(("limit", "remaining", "reset"), values, strict=True)
        },
        (REQUESTS, HOUR, DAY),
    ),
    "a team's": (
        {
            "x_ratelimit_team_limit_requests": "60",
            "x_ratelimit_team_remaining_requests": "5",
            "x_ratelimit_team_reset_requests": "30",
        },
        (REQUESTS,),
    ),
    "older draft": (
        {"ratelimit_limit": "60, 60;w=60", "ratelimit_remaining": "5", "ratelimit_reset": "30"},
        (REQUESTS,),
    ),
    "older draft of a day": (
        {
            "ratelimit_policy": "1000;w=86400",
            "ratelimit_limit": "1000",
            "ratelimit_remaining": "7",
            "ratelimit_reset": "4000",
        },
        (DAY,),
    ),
    "draft of one field": ({"ratelimit": "limit=60, remaining=5, reset=30"}, (REQUESTS,)),
    "draft": ({"ratelimit_policy": '"a";q=60;w=60', "ratelimit": '"a";r=5;t=30'}, (REQUESTS,)),
    "draft of two": (
        {
            "ratelimit_policy": '"burst";q=60;w=60,"daily";q=1000;w=86400',
            "ratelimit": '"burst";r=5;t=30, "daily";r=7;t=4000',
        },
        (REQUESTS, DAY),
    ),
    "draft of tokens": (
        {"ratelimit_policy": '"input-tokens";q=9000;w=60', "ratelimit": '"input-tokens";r=800;t=30'},
        (WindowReading(WindowKind.INPUT, 9000, 800, 30.0),),
    ),
    "draft of what isn't counted": ({"ratelimit_policy": '"a";q=9;qu="content-bytes"', "ratelimit": '"a";r=1;t=3'}, ()),
    "a policy alone": ({"ratelimit_policy": '"a";q=60;w=60'}, ()),
}


@pytest.mark.parametrize(("stated", "read"), IN_OTHER_WORDS.values(), ids=list(IN_OTHER_WORDS))
def test_limits_in_other_words(stated: dict[str, str], read: tuple[WindowReading, ...]) -> None:
    """As gateways and the drafts of the IETF name them."""
    assert limits(**stated).readings == read


def test_a_month_is_a_plan() -> None:
    """It is shown, and holds nothing."""
    stated = limits(x_ratelimit_limit_tokens_month="1000", x_ratelimit_remaining_tokens_month="250")
    assert (stated.readings, stated.plan) == ((), (Utilisation("tokens a month", 0.75, None, ""),))


def test_subscription_plan() -> None:
    """The unified headers are shares of long plan limits, with resets in epoch seconds."""
    stated = limits(
        anthropic_ratelimit_unified_status="allowed",
        anthropic_ratelimit_unified_reset="1790003600",
        anthropic_ratelimit_unified_5h_utilization="0.42",
        anthropic_ratelimit_unified_5h_reset="1790003600",
        anthropic_ratelimit_unified_5h_status="allowed",
        anthropic_ratelimit_unified_7d_utilization="1.3",
        anthropic_ratelimit_unified_7d_status="rejected",
        anthropic_ratelimit_unified_representative_claim="five_hour",
    )
    assert stated.readings == ()
    assert stated.plan == (Utilisation("5h", 0.42, 3600.0, "allowed"), Utilisation("7d", 1.0, None, "rejected"))


def test_a_plan_s_reset_in_the_year_9999_is_none() -> None:
    """No plan lasts that long, and nobody is shown it."""
    stated = {
        "anthropic_ratelimit_unified_7d_utilization": "0.5",
        "anthropic_ratelimit_unified_7d_reset": "253402300799",
    }
    assert limits(**stated).plan == (Utilisation("7d", 0.5, None, ""),)
    stated["date"] = "Fri, 31 Dec 9999 23:59:59 GMT"
    stated["anthropic_ratelimit_unified_7d_reset"] = str(int(NOW) + 600_000)
    assert limits(**stated).plan == (Utilisation("7d", 0.5, 600_000.0, ""),)


@pytest.mark.parametrize("window", ["requests", "tokens", "input-tokens", "output-tokens"])
def test_the_headers_that_providers_document_are_understood(window: str) -> None:
    """Each limit header of Anthropic, OpenAI and Azure makes a reading."""
    names = [f"anthropic-ratelimit-{window}-{field}" for field in ("limit", "remaining")]
    names += [f"x-ratelimit-{field}-{window}" for field in ("limit", "remaining") if "put" not in window]
    assert all(read_limits([(name.encode(), b"5")], NOW).readings for name in names)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please",
            (WindowKind.INPUT, 30_000),
        ),
        ("would exceed your account's rate limit of 50 requests per minute", (WindowKind.REQUESTS, 50)),
        (
            "Rate limit reached for gpt-5.4 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000",
            (WindowKind.TOKENS, 30_000),
        ),
        ("on requests per minute (RPM): Limit 3, Used 3", (WindowKind.REQUESTS, 3)),
        ("This request would exceed your organization's rate limit of requests per minute.", None),
        ("Limit 100,000 tokens per day", None),
    ],
)
def test_a_limit_in_the_words_of_a_refusal(text: str, wanted: tuple[WindowKind, int] | None) -> None:
    """Is read where it is one of a minute."""
    found = [(each.kind, each.limit) for each in limits_in_words(text)]
    assert found == ([] if wanted is None else [wanted])
