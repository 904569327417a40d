#!/bin/sh
# OpenRouter's SDK for Python (openrouter 1.3.84) sets no timeout, so httpx's of 5 s holds: an answer whose first byte takes
# longer is given up and, by the SDK's own default, asked for again, for up to an hour. So a model that thinks for six
# seconds is asked, and paid, several times for one `chat.send`, without an error or a word. `timeout_ms=60000` ends that.
# A 429 isn't retried. Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q openrouter==1.3.84 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - <<'PYTHON'
import http.server
import json
import sys
import threading
import time

from openrouter import OpenRouter, errors

MESSAGE = {"role": "assistant", "content": "hi"}
CHOICE = {"index": 0, "message": MESSAGE, "finish_reason": "stop", "logprobs": None}
ANSWER = {"id": "g", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": None, "choices": [CHOICE]}
asked, slow, status = 0, 0, 200


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global asked
        asked += 1
        self.rfile.read(int(self.headers["content-length"]))
        if asked <= slow:
            time.sleep(7)
        body = json.dumps(ANSWER if status == 200 else {"error": {"code": status, "message": "slow down"}}).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            pass

    def log_message(self, *arguments):
        pass


def ask(**options):
    global asked
    asked = 0
    client = OpenRouter(api_key="k", server_url=f"http://127.0.0.1:{server.server_port}/api/v1", **options)
    try:
        text = client.chat.send(model="m", messages=[{"role": "user", "content": "hello"}]).choices[0].message.content
    except errors.TooManyRequestsResponseError:
        text = "429"
    print(options, "->", text, "after", asked, "requests")
    return text, asked


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
slow = 2
found = [ask(), ask(timeout_ms=60_000)]
status, slow = 429, 0
found.append(ask())
sys.exit(0 if found == [("hi", 3), ("hi", 1), ("429", 1)] else 1)
PYTHON
