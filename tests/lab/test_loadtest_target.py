"""Where recorded traffic may go, and with which key."""

from __future__ import annotations

import pytest
from lab.loadtest_kit import target

from hivemind.errors import UsageError
from hivemind.lab.loadtest.target import ApiKeys, token_of

SECRET = "sk-ant-api03-0123456789abcdef"
ALL = {
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "AZURE_OPENAI_API_KEY": "z",
    "GOOGLE_API_KEY": "g",
    "OLLAMA_API_KEY": "l",
    "MINE": "m",
}
CHAT, MESSAGES, DEPLOYED = (
    ("openai_chat", "/v1/chat/completions"),
    ("anthropic", "/v1/messages"),
    "/openai/deployments/x",
)


@pytest.mark.parametrize(
    ("url", "paid"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://localhost:8080/base", False),
        ("http://[::1]:8080", False),
        ("http://192.168.1.20:11434", False),
        ("https://10.1.2.3", False),
        ("anthropic=http://127.0.0.1:8080", False),
        ("https://8.8.8.8", True),
        ("https://api.anthropic.com", True),
        ("https://no-such-host.invalid", True),
    ],
)
def test_what_may_cost_money(url: str, paid: bool) -> None:
    """Everything but this machine and private networks; a host that nobody knows too."""
    assert target(url).private is not paid


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://x", "--against: must be URL or NAME=URL"),
        ("http://me:secret@host", "--against: must hold no user name or password"),
        ("http://host/?key=1", "--against: must end with its path"),
        ("mine=http://127.0.0.1", "--against: mine= before the URL must be a provider"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, text: str) -> None:
    """One line, without what may be secret in it."""
    with pytest.raises(UsageError) as refused:
        target(url)
    assert str(refused.value).startswith(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "asked", "key"),
    [
        ("http://127.0.0.1:1", MESSAGES, b"a"),
        ("http://127.0.0.1:1", CHAT, b"Bearer o"),
        ("http://127.0.0.1:1", ("openai_responses", "/v1/responses"), b"Bearer o"),
        ("http://127.0.0.1:1", ("openai_chat", DEPLOYED + "/chat/completions"), b"z"),
        ("http://127.0.0.1:1", ("google", "/v1beta/models/x:generateContent"), b"g"),
        ("http://127.0.0.1:1", ("ollama", "/api/chat"), b"Bearer l"),
        ("http://127.0.0.1:1", ("plain", "/odd"), None),
        ("https://api.anthropic.com", MESSAGES, b"a"),
        ("https://api.anthropic.com", CHAT, None),
        ("https://api.openai.com", CHAT, b"Bearer o"),
        ("https://api.openai.com", MESSAGES, None),
        ("https://8.8.8.8", MESSAGES, None),
    ],
)
def test_the_usual_keys_go_to_their_own_provider_alone(url: str, asked: tuple[str, str], key: bytes | None) -> None:
    """And to this machine or a private network, where a proxy may want to pass them on."""
    found = ApiKeys(ALL, None, target(url)).header(*asked)
    assert (found and found[1]) == key


def test_a_key_that_was_named_goes_wherever_it_is_told() -> None:
    """It was meant for that server."""
    keys = ApiKeys(ALL, "MINE", target("https://8.8.8.8"))
    assert keys.header(*MESSAGES) == (b"x-api-key", b"m")
    keys.check([MESSAGES, CHAT])


@pytest.mark.parametrize(
    ("url", "environ", "named", "text"),
    [
        ("https://api.anthropic.com", {}, None, "no key for https://api.anthropic.com: set ANTHROPIC_API_KEY, or name"),
        ("https://8.8.8.8", ALL, None, "https://8.8.8.8 isn't a provider's own address, so no key goes there unasked"),
        ("http://8.8.8.8", ALL, "MINE", "http://8.8.8.8: a key isn't sent unencrypted over the internet; use https://"),
        ("https://8.8.8.8", ALL, "YOURS", "--api-key-env: YOURS isn't set"),
        ("https://8.8.8.8", ALL, SECRET, "--api-key-env: must be the name of a variable, such as ANTHROPIC_API_KEY"),
        ("https://8.8.8.8", {"MINE": SECRET + "\n"}, "MINE", "MINE: a key is printable ASCII without spaces"),
    ],
)
def test_a_key_that_cannot_be_used(url: str, environ: dict[str, str], named: str | None, text: str) -> None:
    """One line before anything is sent, which never repeats a key."""
    with pytest.raises(UsageError) as refused:
        ApiKeys(environ, named, target(url)).check([MESSAGES])
    assert str(refused.value).startswith(text)
    assert SECRET not in str(refused.value)


def test_the_token_of_agents_stays_at_home() -> None:
    """It goes to no public address."""
    environ = {"HIVEMIND_TOKEN": "t"}
    assert token_of(environ, target()) == "t"
    assert token_of({}, target()) is None
    assert token_of(environ, target("https://8.8.8.8")) is None
