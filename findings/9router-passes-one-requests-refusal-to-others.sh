#!/bin/sh
# 9router (npm, 0.5.69) before an OpenAI-compatible provider: what the provider refuses of one request, a prompt that is
# too long too, sets the model aside, here for 30 seconds. Requests that come meanwhile aren't sent on: each gets 503,
# `retry-after: 30` and the beginning of that refusal, though nothing is wrong with them. And the one that is at fault
# gets 503 as well in place of the provider's 400, so clients send it again, which sets the model aside anew. Whole
# answers state 2,000 tokens of input more than the provider counted. Takes ten seconds to a minute and 130 MB. Exits 0
# while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --ignore-scripts --no-audit --no-fund 9router@0.5.69 sql.js@1.14.1) \
    >"$folder/npm.log" 2>&1 || { cat "$folder/npm.log"; exit 2; }
# Its own set-up fetches a database, of which the package lacks this file.
cp "$folder/node_modules/sql.js/dist/sql-wasm.wasm" "$folder/node_modules/9router/app/node_modules/sql.js/dist/"
python3 - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
USAGE = {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
asked = []


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers, but for prompts that begin with `long`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        words = request["messages"][-1]["content"]
        asked.append(words)
        status = 200
        choice = {"index": 0, "finish_reason": "stop"}
        said = {"role": "assistant", "content": "hello"}
        if words.startswith("long"):
            error = {"message": TOO_LONG, "type": "invalid_request_error", "code": "context_length_exceeded"}
            status, body = 400, json.dumps({"error": error})
        else:
            body = json.dumps({**ANSWER, "choices": [{**choice, "message": said}], "usage": USAGE})
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
home = folder / "home"
home.mkdir()
environment = {**os.environ, "HOME": str(home), "DATA_DIR": str(home), "PORT": str(port), "HOSTNAME": "127.0.0.1"}
log = (folder / "log").open("w")
program = ["node", "custom-server.js"]
app = folder / "node_modules/9router/app"
server = subprocess.Popen(program, cwd=app, env={**environment, "NODE_ENV": "production"}, stdout=log, stderr=log)
headers = {"content-type": "application/json", "accept": "application/json"}


def post(path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def ask(words):
    answer, text = post("/v1/chat/completions", {"model": "mock/m", "messages": [{"role": "user", "content": words}]})
    return answer.status, answer.headers["retry-after"], json.loads(text)


try:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    answer, text = post("/api/auth/login", {"password": "123456"})  # of a new installation
    headers["cookie"] = (answer.headers["set-cookie"] or text).partition(";")[0]
    node = {"type": "openai-compatible", "name": "mock", "prefix": "mock", "apiType": "chat"}
    node["baseUrl"] = f"http://127.0.0.1:{provider.server_port}/v1"
    name = json.loads(post("/api/provider-nodes", node)[1])["node"]["id"]
    post("/api/providers", {"provider": name, "apiKey": "sk-x", "name": "one"})
    key = json.loads(post("/api/keys", {"name": "k"})[1])["key"]
    headers["authorization"] = f"Bearer {key}"
    whole, long, other = ask("hi"), ask("long"), ask("short")
finally:
    server.terminate()
    server.wait()
print(whole, long, other, asked, sep="\n")
counted = whole[2]["usage"]["prompt_tokens"]
told = long[0] == 503 and TOO_LONG in long[2]["error"]["message"]
passed_on = other[:2] == (503, "30") and TOO_LONG[:20] in other[2]["error"]["message"] and asked == ["hi", "long"]
print(counted, told, passed_on)
raise SystemExit(0 if counted == 2100 and told and passed_on else 1)
PYTHON
