#!/bin/sh
# Cohere's SDK for Python (cohere 7.3.1) asks again after a 429 or 503 when it wants a whole answer (`chat`), as its README
# says of the SDK, and never when it wants a stream (`chat_stream`): that ends at the first refusal, whatever
# `request_options={"max_retries": 5}` says. The one for JavaScript (cohere-ai 8.1.0) does so in both. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q cohere==7.3.1 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
(cd "$folder" && npm install --silent --no-fund --no-audit cohere-ai@8.1.0 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import { CohereClientV2 } from "cohere-ai";

const client = new CohereClientV2({ token: "k", environment: process.argv[2] });
const question = { model: "command-a", messages: [{ role: "user", content: "hello" }] };
if (process.argv[3] === "chat") await client.chat(question);
else for await (const _ of await client.chatStream(question));
JS
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import http.server
import json
import subprocess
import sys
import threading

import cohere

ANSWER = {"id": "a", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}}
EVENTS = [
    {"type": "message-start", "id": "a", "delta": {"message": {"role": "assistant"}}},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
]
asked = 0
refusal = 503


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global asked
        asked += 1
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        stream = question.get("stream") is True
        body, media = json.dumps(ANSWER).encode(), "application/json"
        if asked == 1:
            body = b'{"message":"try again later"}'
        elif stream:
            body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS).encode()
            media = "text/event-stream"
        self.send_response(refusal if asked == 1 else 200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def with_python(call):
    question = {"model": "command-a", "messages": [{"role": "user", "content": "hello"}], "request_options": {"max_retries": 5}}
    client = cohere.ClientV2(api_key="k", base_url=url)
    try:
        client.chat(**question) if call == "chat" else list(client.chat_stream(**question))
    except cohere.core.ApiError as error:
        return error.status_code
    return "answered"


def with_javascript(call):
    program = subprocess.run(["node", "ask.mjs", url, call], cwd=sys.argv[1], stderr=subprocess.DEVNULL)
    return "failed" if program.returncode else "answered"


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
found = []
for refusal in (429, 503):
    for client in (with_python, with_javascript):
        for call in ("chat", "stream"):
            asked = 0
            ended = client(call)
            print(refusal, client.__name__, call, "->", ended, "after", asked)
            found.append((ended, asked))
expected = []
for status in (429, 503):
    expected += [("answered", 2), (status, 1), ("answered", 2), ("answered", 2)]
sys.exit(0 if found == expected else 1)
PYTHON
