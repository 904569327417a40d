#!/bin/sh
# langchain-anthropic 1.7.10 and langchain-openai 1.7.4 turn the 600 s read timeout of the SDKs below them off: by default
# their requests carry no `x-stainless-read-timeout`, where those of the SDKs themselves (anthropic 2.14.0, openai 3.57.0)
# say 600. A server that limits its answers by that header finds nothing, and such a client waits for ever.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q langchain-anthropic==1.7.10 langchain-openai==1.7.4 anthropic==2.14.0 openai==3.57.0 || exit 2
"$folder/v/bin/python" - <<'PYTHON'
import http.server
import os
import sys
import threading

seen = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(400)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ |= {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}

import anthropic
import openai
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

asked = [{"role": "user", "content": "hi"}]
calls = {
    "anthropic": lambda: anthropic.Anthropic().messages.create(model="claude-sonnet-4-5", max_tokens=9, messages=asked),
    "openai": lambda: openai.OpenAI().chat.completions.create(model="gpt-4o", messages=asked),
    "langchain-anthropic": lambda: ChatAnthropic(model="claude-sonnet-4-5").invoke("hi"),
    "langchain-openai": lambda: ChatOpenAI(model="gpt-4o").invoke("hi"),
}
stated = {}
for name, call in calls.items():
    seen.clear()
    try:
        call()
    except Exception as error:
        assert "400" in str(error), error
    stated[name] = seen[0].get("x-stainless-read-timeout")
    print(name, seen[0]["user-agent"], "states", stated[name])
expected = {"anthropic": "600", "openai": "600", "langchain-anthropic": None, "langchain-openai": None}
sys.exit(0 if stated == expected else 1)
PYTHON
