#!/bin/sh
# autogen-ext 0.7.5 takes any anthropic>=0.48, so pip installs 2.14.0 today, with which its
# AnthropicChatCompletionClient can't send any request: it always passes `temperature`, which create() has no more.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q 'autogen-ext[anthropic,openai]==0.7.5' anthropic==2.14.0 || exit 2
"$folder/v/bin/python" - <<'PYTHON'
import asyncio
import sys

from autogen_core.models import UserMessage
from autogen_ext.models.anthropic import AnthropicChatCompletionClient

client = AnthropicChatCompletionClient(model="claude-sonnet-4-5", api_key="k", base_url="http://127.0.0.1:9")
try:
    asyncio.run(client.create([UserMessage(content="Go.", source="user")]))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(0 if isinstance(error, TypeError) and "'temperature'" in str(error) else 1)
sys.exit(1)
PYTHON
