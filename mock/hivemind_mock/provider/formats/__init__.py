"""The wire formats the mock speaks, by name."""

from __future__ import annotations

from hivemind_mock.provider.formats.anthropic import Anthropic
from hivemind_mock.provider.formats.base import Format
from hivemind_mock.provider.formats.google import Google
from hivemind_mock.provider.formats.ollama import Ollama
from hivemind_mock.provider.formats.openai import OpenAIChat, OpenAIResponses

FORMATS: dict[str, Format] = {
    known.name: known for known in (Anthropic(), OpenAIChat(), OpenAIResponses(), Google(), Ollama())
}
