#!/bin/sh
# llama-index-llms-openai 0.8.3 doesn't heed OPENAI_BASE_URL, which the OpenAI SDK below it (2.54.0) reads: it hands the SDK
# a base URL of its own, https://api.openai.com/v1, unless OPENAI_API_BASE is set. It also states a timeout of 60 s, a tenth
# of the SDK's.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q llama-index-llms-openai==0.8.3 openai==2.54.0 || exit 2
OPENAI_API_KEY=k OPENAI_BASE_URL=http://127.0.0.1:9/v1 "$folder/v/bin/python" - <<'PYTHON'
import os
import sys

import openai
from llama_index.llms.openai import OpenAI

sdk, framework = openai.OpenAI(), OpenAI("gpt-4o")._get_client()
os.environ["OPENAI_API_BASE"] = "http://127.0.0.1:10/v1"
other = OpenAI("gpt-4o")._get_client()
print("SDK:", sdk.base_url, sdk.timeout)
print("LlamaIndex:", framework.base_url, framework.timeout)
print("LlamaIndex with OPENAI_API_BASE:", other.base_url)
hosts = [client.base_url.host for client in (sdk, framework)]
same = hosts == ["127.0.0.1", "api.openai.com"] and other.base_url.port == 10
sys.exit(0 if same and framework.timeout == 60.0 and sdk.timeout.read == 600 else 1)
PYTHON
