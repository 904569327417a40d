"""The heads of recent requests, and how they are masked."""

from __future__ import annotations

import pytest

from hivemind.redaction.values import credentials_in, is_secret
from hivemind.scheduler.types import Priority
from hivemind.wire.recent_heads import Heads, RecentHeads, size_of_head
from hivemind.wire.request_head import Headers
from hivemind.world.snapshot import RequestDetail, RequestView

NOTHING_YET = RequestView(
    1, "ann", "up:1", "m", Priority.NORMAL, False, "queued", 0.0, None, 0.0, (), None, None, 0, 9, None, ""
)
DETAIL = RequestDetail(NOTHING_YET, "", None, "m", 1, 2, (), "", "", (), ())


def scope(path: bytes = b"/v1/messages", query: bytes = b"", headers: Headers | None = None) -> dict[str, object]:
    """What an ASGI server tells of a request."""
    return {"method": "POST", "raw_path": path, "query_string": query, "headers": headers or []}


def add(to: RecentHeads, ticket: int, found: dict[str, object]) -> Heads:
    """Keep a head as the proxy does."""
    return to.add(ticket, found, size_of_head(found))


def test_the_newest_are_remembered() -> None:
    """Each takes the place of the oldest."""
    remembered = RecentHeads(kept=3)
    for ticket in range(1, 6):
        add(remembered, ticket, scope())
    found = [remembered.find(ticket) for ticket in range(1, 7)]
    assert [heads and heads.ticket for heads in found] == [None, None, 3, 4, 5, None]


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    """Requests with large heads are forgotten sooner, the oldest first, and an answer's head counts as well."""
    remembered = RecentHeads(kept=100, bytes_kept=100_000)
    for ticket in range(1, 51):
        heads = add(remembered, ticket, scope(headers=[(b"x", b"a" * 8_000)]))
        heads.set_response([(b"y", b"b" * 8_000)])
        heads.set_response([(b"y", b"b" * 10_000)])
    found = [ticket for ticket in range(1, 51) if remembered.find(ticket)]
    assert found == [46, 47, 48, 49, 50]
    assert remembered.size <= 100_000
    for ticket in range(51, 151):
        add(remembered, ticket, scope(headers=[(b"x", b"a")]))
    assert all(remembered.find(ticket) for ticket in range(51, 151))
    assert remembered.size < 100 * 1_000


def test_one_that_is_forgotten_may_still_be_answered() -> None:
    """Its answer doesn't count any more."""
    remembered = RecentHeads(kept=2, bytes_kept=100_000)
    old = add(remembered, 1, scope())
    for ticket in (2, 3, 7):
        add(remembered, ticket, scope())
    size = remembered.size
    old.set_response([(b"y", b"b" * 90_000)])
    assert remembered.size == size
    assert [ticket for ticket in range(8) if remembered.find(ticket)] == [3, 7]


def test_one_larger_than_all_together_may_be() -> None:
    """It takes all others' place, and isn't kept itself."""
    remembered = RecentHeads(kept=10, bytes_kept=1_000)
    add(remembered, 1, scope())
    add(remembered, 2, scope(headers=[(b"x", b"a" * 2_000)]))
    assert (remembered.find(1), remembered.find(2), remembered.size) == (None, None, 0)


@pytest.mark.parametrize(
    "name",
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "set-cookie", "x-auth-token", "key", "sig", "$key"],
)
def test_names_of_credentials(name: str) -> None:
    """As providers, clouds and gateways call them."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "anthropic-ratelimit-tokens-remaining",
        "x-ratelimit-limit-tokens",
        "user-agent",
        "keep-alive",
        "monkey",
        "design",
    ],
)
def test_names_of_other_things(name: str) -> None:
    """They are of use to whoever looks."""
    assert not is_secret(name)


def test_a_short_credential_is_masked_where_it_stands_and_nowhere_else() -> None:
    """Local servers take any word for a key, and the word may be an innocent one."""
    heads = Heads(1, "POST", b"/v1/chat", b"key=v1", [(b"authorization", b"Bearer chat"), (b"user-agent", b"chat/1")])
    shown = heads.added_to(DETAIL)
    assert shown.path == "/v1/chat?key=***"
    assert shown.request_headers == (("authorization", "Bearer ***"), ("user-agent", "chat/1"))


def test_a_credential_in_another_spelling_hides_the_whole() -> None:
    """Percent signs don't bring it to light."""
    secret = b"a-gateway-secret"
    spelled = b"".join(b"%%%02x" % byte for byte in secret)
    headers = [(b"x-api-key", secret), (b"referer", b"http://x/" + spelled)]
    shown = Heads(1, "POST", b"/v1/" + spelled, b"", headers).added_to(DETAIL)
    assert shown.path == "***"
    assert dict(shown.request_headers)["referer"] == "***"


def test_what_follows_a_cookie_is_no_credential() -> None:
    """A path in `set-cookie` doesn't hide that path elsewhere."""
    cookie = b"session=0123456789abcdef; path=/v1/messages/and/on; domain=.provider.example.com"
    assert "/v1/messages/and/on" not in credentials_in([(b"set-cookie", cookie)], b"")
    assert "0123456789abcdef" in credentials_in([(b"set-cookie", cookie)], b"")


def test_nothing_that_upsets_a_terminal_is_shown() -> None:
    """A header may hold any byte but a line's end."""
    heads = Heads(1, "POST", b"/v1/\x1b[2J", b"", [(b"x-\x1b", b"\x1b]0;title\x07")])
    shown = heads.added_to(DETAIL)
    assert "\x1b" not in f"{shown.path}{shown.request_headers}"
    assert shown.path == "/v1/\N{REPLACEMENT CHARACTER}[2J"
