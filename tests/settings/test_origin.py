from __future__ import annotations

import pytest

from hivemind.providers.profiles import PROFILES
from hivemind.settings.origin import Origin, make_origins, split_upstream


@pytest.mark.parametrize(
    ("text", "name", "url"),
    [
        ("https://api.anthropic.com", None, "https://api.anthropic.com"),
        ("https://api.anthropic.com/", None, "https://api.anthropic.com"),
        ("HTTPS://API.example:443/v1/", None, "https://api.example/v1"),
        ("http://h:80", None, "http://h"),
        ("http://h:443", None, "http://h:443"),
        (" lab=http://h:8080/a/b ", "lab", "http://h:8080/a/b"),
        ("a.b-c_1=https://h", "a.b-c_1", "https://h"),
        ("http://[::1]:9/x", None, "http://[::1]:9/x"),
        ("http://h/a=b", None, "http://h/a=b"),
    ],
)
def test_split(text: str, name: str | None, url: str) -> None:
    """An upstream is a URL with or without a name, and is written one way however it was given."""
    assert split_upstream(text) == (name, url)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "URL or NAME=URL"),
        ("api.anthropic.com", "URL or NAME=URL"),
        ("ftp://h", "URL or NAME=URL"),
        ("http://", "URL or NAME=URL"),
        ("=http://h", "URL or NAME=URL"),
        ("a/b=http://h", "URL or NAME=URL"),
        ("http://u:p@h", "user name or password"),
        ("http://@h", "user name or password"),
        ("http://h?a=b", "query or fragment"),
        ("http://h/?", "query or fragment"),
        ("http://h/#x", "query or fragment"),
        ("http://h:0", "port from 1"),
        ("http://h:65536", "port from 1"),
        ("http://h:x", "port from 1"),
        ("http://[::1", "URL with a host"),
        ("http://h h", "ASCII"),
        ("http://bücher.example", "xn--"),
        ("http://h/\x00", "ASCII"),
    ],
)
def test_refused(text: str, why: str) -> None:
    """What can't be an upstream is refused with the reason."""
    with pytest.raises(ValueError, match=why):
        split_upstream(text)


def test_origin() -> None:
    """An origin comes with everything a connection and a request line need."""
    assert make_origins(["lab=https://[::1]:8443/base/"], PROFILES["generic"]) == (
        Origin("lab", "https://[::1]:8443/base", "https", "::1", 8443, "/base", PROFILES["generic"]),
    )


def test_authority() -> None:
    """The Host header names the port only where it isn't the scheme's own."""
    origins = make_origins(["http://h:80", "https://h:80", "http://[::1]:9"], None)
    assert [origin.authority for origin in origins] == ["h", "h:80", "[::1]:9"]


def test_names() -> None:
    """An upstream without a name is called after its provider, and no two are called the same."""
    found = make_origins(["https://api.openai.com", "openai-2=http://x", "https://api.openai.com/b"], None)
    assert [origin.name for origin in found] == ["openai", "openai-2", "openai-3"]
    found = make_origins(["https://api.openai.com", "openai=http://x"], None)
    assert [origin.name for origin in found] == ["openai-2", "openai"]  # a name that was given is kept
    with pytest.raises(ValueError, match="the name a is given to two upstreams"):
        make_origins(["a=http://a", "a=http://b"], None)


@pytest.mark.parametrize(
    ("upstream", "profile"),
    [
        ("anthropic=http://127.0.0.1:9000", "anthropic"),
        ("openai=http://127.0.0.1:9001", "openai"),
        ("lab=http://127.0.0.1:9002", "local"),
        ("vllm=https://llm.example.com", "vllm"),
        ("lab=https://llm.example.com", "generic"),
        ("openai=https://unit.openai.azure.com", "azure"),
    ],
)
def test_name_of_a_provider(upstream: str, profile: str) -> None:
    """Where the URL tells nothing of the provider, a name that is a provider's does."""
    assert make_origins([upstream], None)[0].profile.name == profile
