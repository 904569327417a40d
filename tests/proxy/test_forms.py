"""Keys that are known by their form alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.proxy import forms
from hivemind.proxy.forms import without_keys

REST = "A1b2C3d4E5f6G7h8I9j0K"
KEYS = [
    *(f"{begin}{REST}" for begin in ("sk-", "sk-ant-api03-", "AIza", "gsk_", "hf_", "r8_", "xai-", "pplx-", "glpat-")),
    *(f"{begin}{REST}" for begin in ("ghp_", "gho_", "ghs_", "ghz_", "github_pat_", "nvapi-", "ya29.")),
    *(f"eyJ{REST}.{REST}.{REST}", f"BEARER {REST}", f"Bearer {REST}", f"https://user:{REST}@host/"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("at", [0, 100, forms._WINDOW - 10, forms._WINDOW, forms._WINDOW + 200])
def test_each_form(key: str, at: int) -> None:
    """It is found wherever it stands, also across two pieces of a long text."""
    text = b" " * at + b'"' + key.encode() + b'"'
    assert REST.encode() not in without_keys(text)


PIECES = st.sampled_from(
    [*KEYS, "sk", "gh", "_", "-", " ", '"', "msg_01" + REST, "task-1", "Bear", "er ", "://", "@", REST]
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=12))
def test_as_without_a_first_look(pieces: list[str]) -> None:
    """The quick look beforehand overlooks nothing that the pattern finds."""
    text = "".join(pieces).encode()
    assert forms._may_hold_any(text) or forms._KEYS.search(text) is None
