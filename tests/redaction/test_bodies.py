"""Bodies without the keys in them."""

from __future__ import annotations

import json

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.redaction import bodies
from hivemind.redaction.bodies import lent_in, redact_body

REST = "A1b2C3d4E5f6G7h8I9j0K"
KEYS = [
    *(f"{begin}{REST}" for begin in ("sk-", "sk-ant-api03-", "AIza", "gsk_", "hf_", "r8_", "xai-", "pplx-", "glpat-")),
    *(f"{begin}{REST}" for begin in ("ghp_", "gho_", "ghs_", "ghr_", "github_pat_", "nvapi-", "ya29.")),
    *(f"eyJ{REST}.{REST}.{REST}", f"BEARER {REST}", f"Bearer {REST}", f"https://user:{REST}@host/"),
    *(f"MISTRAL_API_KEY={REST}", f"export VERCEL_TOKEN='{REST}'"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("at", [0, 100, bodies._WINDOW - 10, bodies._WINDOW, bodies._WINDOW + 200])
def test_each_form(key: str, at: int) -> None:
    """It is found wherever it stands, also across two pieces of a long text."""
    text = b" " * at + b'"' + key.encode() + b'"'
    assert REST.encode() not in redact_body(text, ())[0]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_stays_json(key: str, ascii_only: bool) -> None:
    """A key right after an escape is found, and nothing of the quoting goes with it."""
    for text in (f"a\n{key}\n", f'say "{key}"', f"\t{key}", f"“{key}”", json.dumps({"k": key})):
        body, masked = redact_body(json.dumps({"text": text}, ensure_ascii=ascii_only).encode(), ())
        assert (REST in json.loads(body)["text"], masked) == (False, 1)


def test_a_private_key() -> None:
    """To its last line, within JSON and without; what follows stays."""
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{REST}\n{REST}==\n-----END RSA PRIVATE KEY-----\n"
    for text in (f"{pem} after", json.dumps({"text": f"{pem} after"})):
        body = redact_body(text.encode(), ())[0]
        assert (REST.encode() in body, b"after" in body) == (False, True)


def test_how_many() -> None:
    """A request's own, those it lends, and those known by form are counted."""
    text = f'{{"authorization_token": "lent-to-a-server", "a": "{KEYS[0]} {KEYS[3]}", "b": "my-own-secret"}}'
    body, masked = redact_body(text.encode(), ("my-own-secret",))
    assert masked == 4
    assert json.loads(body) == {"authorization_token": "***", "a": "*** ***", "b": "***"}


def test_what_is_lent_is_masked_wherever_it_stands() -> None:
    """In the same body, and among the secrets that an answer may repeat; the scheme isn't part of it."""
    body = b'{"authorization": "Bearer lent-to-a-server", "text": "it is lent-to-a-server"}'
    assert lent_in(body) == ("lent-to-a-server",)
    assert b"lent-to" not in redact_body(body, ())[0]


PIECES = st.sampled_from(
    [*KEYS, "sk", "gh", "_", "-", " ", '"', "msg_01" + REST, "task-1", "Bear", "er ", "://", "@", REST, " " * 16_380]
)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=12))
def test_piece_by_piece_is_as_in_one_go(pieces: list[str]) -> None:
    """Where a piece ends makes no difference."""
    text = "".join(pieces).encode()
    in_pieces = redact_body(text, ())[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "_WINDOW", 1 << 30)
        assert redact_body(text, ())[0] == in_pieces
