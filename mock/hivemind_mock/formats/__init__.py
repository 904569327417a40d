"""The wire formats the mock speaks, by name."""

from __future__ import annotations

from .anthropic import Anthropic
from .base import Format
from .google import Google
from .ollama import Ollama
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

FORMATS: dict[str, Format] = {
    known.name: known for known in (Anthropic(), OpenAIChat(), OpenAIResponses(), Google(), Ollama())
}
