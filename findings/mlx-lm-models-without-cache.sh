#!/bin/sh
# mlx-lm 0.32.2's `GET /v1/models` answers 200 with an empty body where no Hugging Face cache folder exists, as on a fresh
# machine with a model of its own in a folder: the head goes out before scan_cache_dir raises CacheNotFound. So a 200 there
# doesn't mean that there is JSON to read. With an empty cache folder the body is a list.
# Takes a minute and 430 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
server=
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 || exit 2
for cache in missing empty; do
  [ $cache = missing ] || mkdir "$folder/empty"
  port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  HF_HUB_CACHE="$folder/$cache" "$folder/v/bin/mlx_lm.server" --port "$port" >"$folder/log" 2>&1 &
  server=$!
  "$folder/v/bin/python" - "$port" "$cache" <<'PYTHON' || exit 1
import http.client, sys, time

port, cache = int(sys.argv[1]), sys.argv[2]
for _ in range(120):
    try:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", "/v1/models")
        break
    except OSError:
        time.sleep(0.5)
answer = client.getresponse()
body = answer.read()
print(f"cache folder {cache}: status {answer.status}, {len(body)} bytes: {body[:80]!r}")
sys.exit(0 if answer.status == 200 and (not body) == (cache == "missing") else 1)
PYTHON
  kill $server
  wait $server 2>/dev/null || true
  server=
done
