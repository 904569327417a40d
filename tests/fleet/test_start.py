"""How a proxy starts with a store that can't be used: one line, exit code 2, and no password in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from program import called
from redis_server import running

from hivemind.settings import Settings
from hivemind.settings.sections import Secret

PASSWORD = "canary-5f2d8c6b1e"


def line(folder: Path, url: str) -> str:
    args = ("proxy", "--upstream", "http://127.0.0.1:9", "--port", "0", "--state-dir", str(folder / "state"))
    ended = called(folder, args, {"HIVEMIND_FLEET": url, "PATH": "/usr/bin"})
    code, text = ended.both
    assert (code, "\n" in text, PASSWORD in ended.out + ended.err) == (2, False, False)
    return text


@pytest.mark.parametrize("url", [f"http://:{PASSWORD}@host", f"redis://:{PASSWORD}#@host", f"{PASSWORD} redis://host"])
def test_what_cant_be_a_url(tmp_path: Path, url: str) -> None:
    assert line(tmp_path, url).startswith("hivemind: HIVEMIND_FLEET (environment): must")


def test_a_store_that_refuses(tmp_path: Path) -> None:
    with running(password=PASSWORD) as store:
        shown = f"hivemind: the fleet's store {store.url_with('')}"
        refused = f"{shown} refuses the user or password in its URL"
        assert line(tmp_path, store.url_with(f"{PASSWORD}-wrong")) == refused
        assert line(tmp_path, store.url_with("")) == f"{shown} wants a password, which its URL doesn't hold"


def test_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    text = line(tmp_path, "redis://host")
    assert text == "hivemind: --fleet needs a library that isn't installed: pip install 'hivemind-tui[fleet]'"


def test_the_password_is_masked_wherever_it_might_appear() -> None:
    """One as short as a word isn't, since it would mask that word in every text; nor is the user's name."""
    settings = Settings(fleet=Secret(f"redis://default:{PASSWORD}@host"))
    assert PASSWORD in settings.own_credentials()
    assert "default" not in settings.own_credentials()
    assert PASSWORD not in repr(settings)
    assert "redis" not in Settings(fleet=Secret("redis://:redis@host")).own_credentials()
