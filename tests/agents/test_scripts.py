from __future__ import annotations

import os
from pathlib import Path

import pytest

from hivemind.agents.scripts import past


@pytest.mark.parametrize(
    ("code", "model"),
    [
        ('OpenAIChatCompletionClient(model="claude-sonnet-4-5", api_key=key())', "claude-sonnet-4-5"),
        (
            "c = OpenAIChatCompletionClient(\n    model='gemini-2.5-pro',\n    model_info=info(vision=True),\n)",
            "gemini-2.5-pro",
        ),
        ('OpenAIChatCompletionClient(model="claude-sonnet-4-5", base_url=url)', ""),
        ('OpenAIChatCompletionClient(model="gpt-4o"); AnthropicChatCompletionClient(model="claude-sonnet-4-5")', ""),
        ("print('\udcff')", ""),
    ],
)
def test_hosts_of_their_own(code: str, model: str, tmp_path: Path) -> None:
    """A program is told of whose client is made for a model that AutoGen takes elsewhere, and no other."""
    (tmp_path / "crew.py").write_text(code, "utf-8", "surrogateescape")
    os.mkfifo(tmp_path / "pipe.py")  # nothing waits for its writer
    found = past(("python", "-u", "missing.py", "pipe.py", "crew.py"), tmp_path)
    assert found.startswith("crew.py's requests go past HiveMind: ") is bool(model)
    assert model in found
