#!/bin/sh
# The Python SDKs anthropic 2.14.0 and openai 3.57.0 send requests to the same paths (/v1/agents, /v1/files, /v1/models,
# /v1/skills, /v1/vaults), and both show their key as `authorization: Bearer`: anthropic sends no `x-api-key` any more.
# Only `anthropic-version`, the User-Agent and the key's own form tell whose such a request is.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q anthropic==2.14.0 openai==3.57.0 || exit 2
"$folder/v/bin/python" - <<'PYTHON'
import sys

import anthropic
import httpx2
import openai

seen = {}


def answer(request):
    seen[sdk].append((request.url.path, dict(request.headers)))
    return httpx2.Response(404, json={"error": {"message": "no such thing"}})


web = httpx2.Client(transport=httpx2.MockTransport(answer))
claude = anthropic.Anthropic(api_key="key", base_url="http://x", max_retries=0, http_client=web)
gpt = openai.OpenAI(api_key="key", base_url="http://x/v1", max_retries=0, http_client=web)
calls = {
    "anthropic": [claude.models.list, claude.beta.files.list, claude.beta.skills.list, claude.beta.agents.list, claude.beta.vaults.list],
    "openai": [gpt.models.list, gpt.files.list, gpt.skills.list, gpt.beta.agents.list, gpt.beta.agents.vaults.list],
}
for sdk, methods in calls.items():
    seen[sdk] = []
    for method in methods:
        try:
            method()
        except (anthropic.APIStatusError, openai.APIStatusError):
            pass
paths = {sdk: sorted(path for path, _ in found) for sdk, found in seen.items()}
heads = {sdk: found[0][1] for sdk, found in seen.items()}
for sdk, head in heads.items():
    shown = {name: head.get(name) for name in ("authorization", "x-api-key", "anthropic-version", "user-agent")}
    print(sdk, paths[sdk], shown)
same = paths["anthropic"] == paths["openai"] == ["/v1/agents", "/v1/files", "/v1/models", "/v1/skills", "/v1/vaults"]
bearer = all(head["authorization"] == "Bearer key" and "x-api-key" not in head for head in heads.values())
told = "anthropic-version" in heads["anthropic"] and "anthropic-version" not in heads["openai"]
sys.exit(0 if same and bearer and told else 1)
PYTHON
