#!/bin/sh
# MLflow's AI Gateway (`mlflow gateway start`, mlflow 3.17.2) begins a stream with 200 before it has asked the provider.
# What the provider refuses then (a 429 with Retry-After, a prompt that is too long, a wrong key) reaches the client as a
# body that breaks off without a byte: no status, no words, no wait. A request that isn't a stream gets the status and the
# words, but not Retry-After either. And an endpoint's own `limit` holds for /endpoints/NAME/invocations alone: the same
# endpoint at /v1/chat/completions, which OpenAI's SDKs use, has none.
# Takes two minutes and 1 GB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q 'mlflow[genai]==3.17.2' 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers the model `good`, and refuses the model `full`."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        full = asked["model"] == "full"
        error = {"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}}
        choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        good = {"id": "c", "object": "chat.completion", "created": 1, "model": "good", "choices": [choice], "usage": usage}
        body = json.dumps(error if full else good).encode()
        self.send_response(429 if full else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if full:
            self.send_header("retry-after", "7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
config = {"openai_api_key": "sk-x", "openai_api_base": f"http://127.0.0.1:{provider.server_port}/v1"}
endpoints = [
    {"name": name, "endpoint_type": "llm/v1/chat", "model": {"provider": "openai", "name": name, "config": config}}
    for name in ("full", "good")
]
endpoints[1]["limit"] = {"renewal_period": "minute", "calls": 2}
(folder / "gateway.yaml").write_text(json.dumps({"endpoints": endpoints}))
command = [f"{folder}/v/bin/mlflow", "gateway", "start", "--config-path", f"{folder}/gateway.yaml", "--port", str(port)]
environ = os.environ | {"PATH": f"{folder}/v/bin:{os.environ['PATH']}"}
log = (folder / "log").open("w")
gateway = subprocess.Popen([*command, "--workers", "1"], env=environ, stdout=log, stderr=log, start_new_session=True)


def ask(path, **fields):
    """Return the status, Retry-After, the body, and whether it had an end."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    client.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = client.getresponse()
    try:
        return answer.status, answer.getheader("retry-after"), answer.read(), True
    except http.client.IncompleteRead as error:
        return answer.status, answer.getheader("retry-after"), error.partial, False


OPENAI, OWN = "/v1/chat/completions", "/endpoints/good/invocations"
try:
    for _ in range(240):
        try:
            if ask(OPENAI, model="good")[0] == 200:
                break
        except OSError:
            pass
        time.sleep(0.5)
    whole, stream = ask(OPENAI, model="full"), ask(OPENAI, model="full", stream=True)
    openai = [ask(OPENAI, model="good")[0] for _ in range(4)]
    own = [ask(OWN)[0] for _ in range(4)]
finally:
    os.killpg(gateway.pid, signal.SIGKILL)
    gateway.wait()
print("429 with Retry-After: 7 of the provider, asked for a whole answer:", *whole)
print("asked for a stream:", *stream)
print("two calls a minute:", OPENAI, openai, OWN, own)
same = whole[:2] == (429, None) and stream == (200, None, b"", False)
sys.exit(0 if same and openai == [200] * 4 and own == [200, 200, 429, 429] else 1)
PYTHON
