#!/bin/sh
# 9router (npm, 0.5.69) takes a request that names no `stream` for one, unless its client accepts application/json.
# Vercel's AI SDK (ai 7.0.173, @ai-sdk/openai-compatible 3.0.92) names neither, so `generateText` fails with "Invalid
# JSON response": 9router hands the provider's whole answer on as text/event-stream, with `data: [DONE]` behind the
# JSON. OpenAI's SDKs state what they accept. In OpenAI's API a request without `stream` gets a whole answer. Takes ten
# seconds to a minute and 150 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --ignore-scripts --no-audit --no-fund 9router@0.5.69 sql.js@1.14.1 ai@7.0.173 \
    @ai-sdk/openai-compatible@3.0.92) >"$folder/npm.log" 2>&1 || { cat "$folder/npm.log"; exit 2; }
# Its own set-up fetches a database, of which the package lacks this file.
cp "$folder/node_modules/sql.js/dist/sql-wasm.wasm" "$folder/node_modules/9router/app/node_modules/sql.js/dist/"
cat >"$folder/ask.mjs" <<'JS'
import { generateText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [baseURL, apiKey] = process.argv.slice(2);
const model = createOpenAICompatible({ name: "x", baseURL, apiKey })("mock/m");
const asked = generateText({ model, prompt: "hi", maxRetries: 0 });
console.log(await asked.then((answer) => answer.text, (error) => error.message));
JS
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
USAGE = {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
asked = []


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers whole, as no request here asks for a stream."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append(request.get("stream"))
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({**ANSWER, "choices": [choice], "usage": USAGE})
        self.send_response(200)
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
headers = {"content-type": "application/json"}


def post(path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


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
    plain = {"model": "mock/m", "messages": [{"role": "user", "content": "hi"}]}
    answers = []
    for accepts in ("*/*", "application/json"):
        headers["accept"] = accepts
        answer, text = post("/v1/chat/completions", plain)
        answers.append((answer.headers["content-type"], text))
    for url in (f"http://127.0.0.1:{port}/v1", node["baseUrl"]):
        said = subprocess.run(["node", "ask.mjs", url, key], cwd=folder, capture_output=True, text=True, check=True)
        answers.append(said.stdout.strip())
finally:
    server.terminate()
    server.wait()
print(*answers, asked, sep="\n")
(glued, glued_text), (whole, whole_text), through, directly = answers
streamed = glued == "text/event-stream" and '}data: [DONE]' in glued_text
good = whole == "application/json" and json.loads(whole_text)["object"] == "chat.completion"
print(streamed, good)
raise SystemExit(0 if streamed and good and (through, directly) == ("Invalid JSON response", "hello") else 1)
PYTHON
