#!/bin/sh
# smg 1.13.0 (SGLang's Model Gateway) listens before its worker answers, which may load its model for half an hour
# (--worker-startup-timeout-secs 1800). Until then `GET /v1/models` says 503 "No models available" and `/readiness` 503,
# but every completion a 404 with `model_not_found`, by the Messages API `not_found_error`: SDKs don't ask again, and
# agents end with a wrong name of a model. A worker that dies later is a 500 and then a 503. `/health` is 200 throughout.
# Takes half a minute and 160 MB. Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q smg==1.13.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder/v/bin/smg" <<'PYTHON'
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(path, body=None):
    asked = urllib.request.Request(url + path, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


port = free_port()
ports = ("--port", str(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()))
gateway = subprocess.Popen(
    [sys.argv[1], "launch", "--host", "127.0.0.1", "--worker-urls", f"http://127.0.0.1:{free_port()}", *ports],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
url = f"http://127.0.0.1:{port}"
try:
    for _ in range(120):
        try:
            ask("/health")
            break
        except OSError:
            time.sleep(0.5)
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}).encode()
    found = {path: ask(path) for path in ("/health", "/readiness", "/v1/models")}
    found |= {path: ask(path, body) for path in ("/v1/chat/completions", "/v1/messages")}
finally:
    gateway.terminate()
    gateway.wait()
for path, (status, text) in found.items():
    print(path, status, text[:120])
same = [status for status, _ in found.values()] == [200, 503, 503, 404, 404]
sys.exit(0 if same and "model_not_found" in found["/v1/chat/completions"][1] else 1)
PYTHON
