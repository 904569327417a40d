#!/bin/sh
# DSPy (3.4.1) sends by an HTTP client of its own (lm15, User-Agent `lm15/stdlib`), also to another address that `LM` is
# given as `api_base`. Where the same address stands in OPENAI_BASE_URL it takes LiteLLM instead (`DSPy/3.4.1`), without
# a word: a connection that breaks is an LMServerError then, not an LMTransportError, and both clients have their own
# timeouts. Takes a minute and 500 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q dspy==3.4.1 litellm==1.110.2 openai==3.57.0 2>"$folder/pip.log" ||
    { cat "$folder/pip.log"; exit 2; }
HOME=$folder DSPY_CACHEDIR=$folder LITELLM_LOCAL_MODEL_COST_MAP=true "$folder/v/bin/python" - <<'PYTHON'
import http.server
import json
import os
import threading

import dspy

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
agents = []


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers, but for the model `gone`, whose connections it closes."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        agents.append(self.headers["user-agent"])
        if request["model"] == "gone":
            return
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
        body = json.dumps({**answer, "choices": [CHOICE]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{provider.server_port}/v1"


def ask(**given):
    """Return what was said, which client sent it, and what a broken connection is called."""
    said = dspy.LM("openai/good", cache=False, num_retries=0, **given)("hi")
    agent = agents[-1]
    try:
        dspy.LM("openai/gone", cache=False, num_retries=0, **given)("hi")
    except Exception as error:
        return said, agent, type(error).__name__
    return said, agent, ""


by_argument = ask(api_base=url, api_key="sk-x")
os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-x"}
by_variable = ask()
print(by_argument, by_variable, sep="\n")
own = (["hello"], "lm15/stdlib", "LMTransportError")
raise SystemExit(0 if by_argument == own and by_variable == (["hello"], "DSPy/3.4.1", "LMServerError") else 1)
PYTHON
