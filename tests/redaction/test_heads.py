"""Headers and paths as they may be shown."""

from __future__ import annotations

import pytest

from hivemind.redaction.text import MASK, identifier, label, mask_any_length, redact, shortened
from hivemind.redaction.values import MOST, credentials_in, credentials_of_url, masked_headers, masked_path

UUID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("user-agent", "claude-cli/2.0.0 (external, cli)", "claude-cli/2.0.0 (external, cli)"),
        ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("x-stainless-runtime", "CPython-3.11", "CPython-3.11"),
        ("request-id", "req_011CSHoEeqs5C35K2UUqR7Fy", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        ("x-hivemind-agent", "alice-the-second", "alice-the-second"),
        ("x-hivemind-token", "alice-the-second", MASK),
        ("x-tenant", UUID, MASK),
        ("x-subscription-id", UUID, MASK),
        ("x-flag", "true", "true"),
        ("authorization", "Bearer abc", f"Bearer {MASK}"),
        ("referer", "https://x/y?token=abcdefgh&b=1", f"https://x/y?token={MASK}&b=1"),
        ("user-agent", "x" * 5000, "…"),
    ],
)
def test_headers_by_allow_list(name: str, value: str, shown: str) -> None:
    """Those that are known are shown; of others only what is too short to be a credential."""
    assert masked_headers([(name.encode(), value.encode())], ()) == ((name, shown),)


def test_a_path() -> None:
    """What percent-decoding would bring to light hides all of it; a long one is cut."""
    assert masked_path("/v1/messages", "beta=true&key=abc") == f"/v1/messages?beta=true&key={MASK}"
    assert masked_path("/v1/%73k-ant-api03-abcdefgh") == MASK
    assert len(masked_path("/v1/" + "a/" * 20_000, "")) < 9000


@pytest.mark.parametrize("key", ["sk-ant-api03-" + "k" * 90, "eyJ" + "h" * 40 + "." + "p" * 300])
@pytest.mark.parametrize("at", range(0, 120, 7))
def test_no_half_key_at_a_cut(key: str, at: int) -> None:
    """Wherever a long text is cut, nothing of a key is left."""
    text = "x " * 8150 + " " * at + key + " after " + "y" * 20_000
    assert "kkk" not in redact(text)
    assert "hhh" not in redact(text)
    assert shortened("short", 10) == "short"
    name = "m" * (100 + at) + " " + key + "z" * 5000
    assert not {"kkk", "hhh"} & {each for each in ("kkk", "hhh") if each in label(name)}


def test_labels() -> None:
    """Short and printable, the same when made twice; ids that hold a key stay apart."""
    for text in ("claude-sonnet-4-5", "a\nb", "m" * 1000, "sk-ant-api03-abcdefgh", "", "x" * 200):
        made = label(text)
        assert (label(made), len(made) <= 200, made.isprintable()) == (made, True, True)
    one, two = (identifier(f"sk-ant-api03-abcdefgh{end}") for end in "ab")
    assert one != two
    assert "abcdefgh" not in one + two


def test_the_credentials_of_a_url() -> None:
    """In each spelling; short ones are looked for as words."""
    found = credentials_of_url("http://ann:p%40ss@proxy:8080")
    assert {"ann", "p%40ss", "p@ss", "YW5uOnBAc3M="} <= set(found)
    assert mask_any_length("ann said p@ss, YW5uOnBAc3M= and annual", found) == "*** said ***, *** and annual"
    assert credentials_of_url("http://proxy:8080") == credentials_of_url("http://[") == ()


def test_many_credentials() -> None:
    """Their number is bounded, since each is looked for in whole bodies."""
    cookies = "; ".join(f"c{number}={number:020}" for number in range(3000))
    assert len(credentials_in([(b"cookie", cookies.encode())], b"")) <= MOST
    assert "password" in credentials_in([(b"authorization", b"Basic YW5uOnBhc3N3b3Jk")], b"")
