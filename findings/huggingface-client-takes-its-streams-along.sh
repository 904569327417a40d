#!/bin/sh
# huggingface_hub 2.4.0: a stream of `InferenceClient.chat_completion(stream=True)` is closed as soon as nothing holds the
# client any more, before its first chunk: a function that makes a client and returns its stream, or a loop over
# `InferenceClient(...).chat_completion(...)`, ends with `StreamClosed: Attempted to read or stream content, but the stream
# has been closed` though the server answered. With the client in a variable that lives on it works. The error names httpx2,
# not the client.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q huggingface_hub==2.4.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
cat >"$folder/ask.py" <<'PYTHON'
import http.server
import json
import sys
import threading

from huggingface_hub import InferenceClient

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": ""}
MESSAGES = [{"role": "user", "content": "hi"}]


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        deltas = [{"role": "assistant", "content": word} for word in ("one", " two", " three")]
        chunks = [{**CHUNK, "choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}/v1"


def stream():
    client = InferenceClient(base_url=URL, api_key="k")
    return client.chat_completion(model="m", messages=MESSAGES, stream=True)


def said(ask):
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}: {error}"


def words(chunks):
    return "".join(each.choices[0].delta.content for each in chunks)


kept = InferenceClient(base_url=URL, api_key="k")
found = [
    said(lambda: words(stream())),
    said(lambda: words(kept.chat_completion(model="m", messages=MESSAGES, stream=True))),
]
for name, each in zip(("stream of a function", "client kept"), found):
    print(f"{name}: {each}")
sys.exit(0 if "StreamClosed" in found[0] and found[1] == "one two three" else 1)
PYTHON
"$folder/v/bin/python" "$folder/ask.py"
