#!/bin/sh
# Portkey's AI Gateway (npm, @portkey-ai/gateway 1.15.2) asks for @hono/node-server ^1.3.3, of which a fresh install gets
# 1.19. That library puts its own Response in the place of Node's, and since 1.14 one that is made from another shares its
# headers. Those of a fetched answer can't be changed, so the gateway fails where it adds its own to a stream: every stream
# is a 500 "Something went wrong" with both Node 20 and 24, after the provider has begun (and bills) the answer. A whole
# answer passes, and a refusal keeps its status, so that a check without streams finds nothing. With 1.13.8 streams pass.
# Takes half a minute and 50 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.19.19 1.13.8; do
    mkdir "$folder/$version"
    echo "{\"overrides\": {\"hono\": \"4.13.19\", \"@hono/node-server\": \"$version\"}}" >"$folder/$version/package.json"
    (cd "$folder/$version" && npm install --no-audit --no-fund @portkey-ai/gateway@1.15.2) >"$folder/npm.log" 2>&1 ||
        { cat "$folder/npm.log"; exit 2; }
done
python3 - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
SERVER = "node_modules/@portkey-ai/gateway/build/start-server.js"


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers every chat with one word."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked.get("stream"):
            choice = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            media, body = "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            media, body = "application/json", json.dumps({**reply, "usage": usage})
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def ask(port, **fields):
    """Return the status and the body."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"content-type": "application/json", "authorization": "Bearer sk-x", "x-portkey-provider": "openai"}
    headers["x-portkey-custom-host"] = f"http://127.0.0.1:{provider.server_port}/v1"
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    client.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
found = {}
for version in ("1.19.19", "1.13.8"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", SERVER, f"--port={port}", "--headless"]
    gateway = subprocess.Popen(command, cwd=folder / version, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(120):
            try:
                whole = ask(port)
                break
            except OSError:
                time.sleep(0.5)
        stream = ask(port, stream=True)
    finally:
        gateway.kill()
        gateway.wait()
    print(f"@hono/node-server {version}, whole:", *whole)
    print(f"@hono/node-server {version}, stream:", *stream)
    found[version] = whole[0], stream[0], "Something went wrong" in stream[1]
sys.exit(0 if found == {"1.19.19": (200, 500, True), "1.13.8": (200, 200, False)} else 1)
PYTHON
