#!/bin/sh
# mlx-lm 0.32.2 goes on listening when the model of `--model` couldn't be loaded, for example because its folder was moved.
# `GET /health` says 503 then, but `GET /v1/models` 200, and each completion 404 with `{"error": "generation thread died"}`,
# until the server is started anew. So SDKs take a failed server for a wrong name of a model, and don't ask again.
# Takes a minute and 430 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir "$folder/cache"
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 || exit 2
port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
HF_HUB_CACHE="$folder/cache" "$folder/v/bin/mlx_lm.server" --model "$folder/moved" --port "$port" >"$folder/log" 2>&1 &
server=$!
"$folder/v/bin/python" - "$port" <<'PYTHON' || exit 1
import http.client, json, sys, time


def ask(method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
    client.request(method, path, body, {"content-type": "application/json"})
    answer = client.getresponse()
    return answer.status, answer.read()


for _ in range(120):
    try:
        health, _ = ask("GET", "/health")
        break
    except OSError:
        time.sleep(0.5)
models, _ = ask("GET", "/v1/models")
asked = {"model": "default_model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
status, body = ask("POST", "/v1/chat/completions", json.dumps(asked))
print(f"/health {health}, /v1/models {models}, completion {status}: {body!r}")
died = status == 404 and json.loads(body) == {"error": "generation thread died"}
sys.exit(0 if (health, models) == (503, 200) and died else 1)
PYTHON
