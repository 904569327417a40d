"""Anything that is built on the providers' SDKs, or lets a base URL be set."""

from __future__ import annotations

import json

from hivemind.setup.model import Snippet, Steps, Target
from hivemind.setup.snippets import HERE, pointed, unset
from hivemind.text import shells

_ANTHROPIC = """\
import anthropic

client = anthropic.Anthropic(base_url={url})"""
_OPENAI = """\
import openai

client = openai.OpenAI(base_url={url})"""


def anthropic_line(target: Target) -> str:
    """The Anthropic SDKs, in any language."""
    return pointed(target, "ANTHROPIC_BASE_URL")


def openai_line(target: Target) -> str:
    """The OpenAI SDKs, in any language."""
    return pointed(target, "OPENAI_BASE_URL")


def generic(target: Target) -> Steps:
    """Variables, code, and a request to try it with."""
    key = shells.variable(target.shell, "ANTHROPIC_API_KEY")
    headers = (f"x-api-key: {key}", "anthropic-version: 2023-06-01")
    return Steps(
        snippets=(
            Snippet(HERE, f"{anthropic_line(target)}\n{openai_line(target)}", "shell"),
            Snippet("Or in Python, with Anthropic's SDK", _ANTHROPIC.format(url=_literal(target.base)), "python"),
            Snippet("With OpenAI's SDK", _OPENAI.format(url=_literal(f"{target.base}/v1")), "python"),
            Snippet(
                "To try it all the way to an Anthropic upstream",
                shells.curl(target.shell, f"{target.base}/v1/models", *headers),
                "shell",
            ),
        ),
        undo=unset(target, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"),
        needs="An upstream for each provider in use. The SDKs read ANTHROPIC_API_KEY and OPENAI_API_KEY as before.",
        notes=(
            "OpenAI's URL ends in /v1, Anthropic's doesn't. As Anthropic's go GOOGLE_GEMINI_BASE_URL (Google Gen AI"
            " SDKs), AZURE_OPENAI_ENDPOINT and OLLAMA_HOST.",
            f"Where only headers can be set, x-hivemind-agent: {target.agent} gives the name. x-hivemind-priority is"
            " critical, high, normal or low.",
        ),
    )


def _literal(url: str) -> str:
    return json.dumps(url)  # whose strings are Python's too
