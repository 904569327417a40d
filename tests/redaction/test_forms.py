"""The table of key forms."""

from __future__ import annotations

import pytest

from hivemind.redaction.bodies import redact_body
from hivemind.redaction.forms import FORMS, NAMED, Form, bytes_finder, text_finder
from hivemind.redaction.text import MASK, redact


def example(form: Form, prefix: str) -> str:
    """The shortest key of that form."""
    letter = next(each for each in "0aA" if each in "0123456789" or f"{each}-" in form.chars)
    return prefix + letter * form.least


KEYS = [(form.provider, example(form, prefix)) for form in FORMS for prefix in form.prefixes]


def test_at_least_forty_providers() -> None:
    """Each row names one, and where its form is from."""
    assert len({form.provider for form in FORMS}) >= 40
    assert all(form.source and form.least >= 8 for form in FORMS)


@pytest.mark.parametrize("key", [key for _, key in KEYS])
def test_each_form_in_text_and_bytes(key: str) -> None:
    """The whole key is masked, at the beginning, in the middle and behind an escape, and nothing else."""
    for before, after in (("", ""), ("with ", " it"), ('{"a":"', '"}'), ("\\n", ""), ("%20", "/x"), ("a=", "&b=1")):
        text = f"{before}{key}{after}"
        for found in (text_finder(), bytes_finder()):
            given = text if found is text_finder() else text.encode()
            match = found.pattern.search(given)
            assert match is not None
            start, end = found.span(match)
            assert (start, end) == (len(before), len(before) + len(key) + (len(after) if after == "/x" else 0)) or (
                (start, given[end:]) == (len(before), given[len(before) + len(key) :])
            )


@pytest.mark.parametrize("name", [name for _, names, _ in NAMED for name in names])
def test_each_name(name: str) -> None:
    """What a name announces is masked, its own text stays; a short or plain word isn't a key."""
    assert redact(f'"{name}": "abcdefgh/12345678"') == f'"{name}": "{MASK}"'


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("", "AQ.Ab8RN6JexampleKeyWith_Chars-0123456789abcdefgh", ""),
        ("", "tid=0123456789abcdef0123456789abcdef;exp=1795893000;sku=x;st=dotcom;8kp=1:0123456789abcdef", " y"),
        ("0123456789abcdef0123456789abcdef.", "AbCdEf0123456789", ""),
        *(
            ("token", key, "")
            for key in (
                "sk-ant-api03-0123456789abcdefghij",
                "sk-proj-0123456789abcdefghij",
                "sk-or-v1-0123456789abcdef0123",
                "gho_0123456789abcdefghij",
                "gsk_0123456789abcdefghij",
                "xai-0123456789abcdefghij",
                "AIzaSy0123456789abcdefghij",
            )
        ),
        ('mistral_api_key: "', "AbCdEf0123456789AbCdEf0123456789", '"'),
        ('{"mistralApiKey":"', "AbCdEf0123456789AbCdEf0123456789", '"}'),
    ],
)
def test_newer_forms_in_bodies(before: str, key: str, after: str) -> None:
    """Keys of Google, Copilot, Z.ai and Mistral are masked wherever they stand in a recorded body; those with a prefix
    that ends no word, right behind letters too."""
    masked, count = redact_body(f"x {before}{key}{after}".encode(), ())
    assert (masked.decode(), count) == (f"x {before}{MASK}{after}", 1)


@pytest.mark.parametrize(
    "text",
    [
        *("task-management-of-risk-assessment", "the function may_hold_any_piece_of_text_at_all(x)"),
        *("toolu_01A09q90qw90lq917835lq9", "msg_013Zva2CMHLNnjNJJKqJ2EF claude-sonnet-4-5-20250929"),
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        *("https://api.example/v1/messages?beta=true#a@b", "MAX_TOKENS=1024 PRIMARY_KEY = id"),
        *(
            "task-ant-colony-optimization",
            "task-9f86d081884c7d659a2feaa0c55ad015",
            "disk-proj-eu",
            "tensor_xai-explain",
        ),
        *("ASIAN KEYBOARD, fc-match, pa-ss, re_compile", "-----BEGIN CERTIFICATE-----"),
        "FAQ. This is the question: tid=5, md5 0123456789abcdef0123456789abcdef.jsonl",
    ],
)
def test_what_is_no_key(text: str) -> None:
    """Words, ids and digests stay."""
    assert redact(text) == text
