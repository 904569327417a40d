#!/bin/sh
# vllm-router 0.1.17 passes a client's `authorization` on to its workers with /v1/chat/completions and /v1/completions, and
# drops it (and `x-api-key`) with /v1/messages and /v1/responses. So before engines that were started with --api-key, what
# speaks OpenAI's chat API works, and Claude Code and Codex get a 401 with the same right key. The router's own --api-key,
# whose help calls it "required when using intra-node data parallel routing", mends that.
# Takes half a minute and 130 MB. Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q vllm-router==0.1.17 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder/v/bin/vllm-router" <<'PYTHON'
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ASKED = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")


class Engine(http.server.BaseHTTPRequestHandler):
    """Lists its model, and asks for a key for all else, as vLLM does with --api-key."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        known = self.headers.get("authorization") == "Bearer right"
        body = json.dumps({"id": "a", "choices": []} if known else {"error": "Unauthorized"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def status(url, path):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "input": "hi"}
    headers = {"content-type": "application/json", "authorization": "Bearer right", "x-api-key": "right"}
    try:
        return urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode(), headers), timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def through(*flags):
    port = free_port()
    ports = ("--port", str(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()))
    worker = f"http://127.0.0.1:{engine.server_port}"
    router = subprocess.Popen(
        [sys.argv[1], "--worker-urls", worker, *ports, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(url + "/health", timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        return {path: status(url, path) for path in ASKED}
    finally:
        router.terminate()
        router.wait()


engine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
threading.Thread(target=engine.serve_forever, daemon=True).start()
plain, keyed = through(), through("--api-key", "right")
print("without --api-key:", plain)
print("with --api-key:   ", keyed)
sys.exit(0 if [*plain.values()] == [200, 200, 401, 401] and {*keyed.values()} == {200} else 1)
PYTHON
