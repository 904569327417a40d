#!/bin/sh
# semantic-kernel 1.45.0 as pip installs it has agents, but none of its orchestrations: importing SequentialOrchestration
# needs google.protobuf, which none of its dependencies brings.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q semantic-kernel==1.45.0 || exit 2
"$folder/v/bin/python" - <<'PYTHON'
import sys

from semantic_kernel.agents import ChatCompletionAgent

print(ChatCompletionAgent.__name__, "is there")
try:
    from semantic_kernel.agents import SequentialOrchestration

    print(SequentialOrchestration.__name__, "is there")
except ModuleNotFoundError as error:
    print("ModuleNotFoundError:", error)
    sys.exit(0 if "google" in str(error) else 1)
sys.exit(1)
PYTHON
