#!/bin/sh
# Fireworks' SDK for Python (fireworks-ai 1.2.30) raises nothing at an error within a stream of chat completions: it yields
# one more chunk, whose `choices` is None, and whose `error` no type names. A loop over `chunk.choices or []` takes what
# came before for the whole answer. Two SDKs made by the same generator, together 3.1.1 and groq 1.7.0, raise an APIError.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q fireworks-ai==1.2.30 together==3.1.1 groq==1.7.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - <<'PYTHON'
import http.server
import json
import sys
import threading

import fireworks
import groq
import together

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
EVENTS = [
    CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "half an "}, "finish_reason": None}]},
    {"error": {"message": "The server is overloaded.", "type": "server_error", "code": "overloaded"}},
]


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in EVENTS) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        pass


def read(client):
    text = ""
    try:
        for chunk in client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True):
            for choice in chunk.choices or []:
                text += choice.delta.content or ""
    except Exception as error:
        return type(error).__name__, str(error)
    return "no error", text, getattr(chunk, "error", None)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
found = {
    "fireworks": read(fireworks.Fireworks(api_key="k", base_url=url)),
    "together": read(together.Together(api_key="k", base_url=f"{url}/v1")),
    "groq": read(groq.Groq(api_key="k", base_url=url)),
}
for name, said in found.items():
    print(name, *said)
raised = ("APIError", "The server is overloaded.")
same = found["fireworks"] == ("no error", "half an ", EVENTS[1]["error"]) and found["together"] == found["groq"] == raised
sys.exit(0 if same else 1)
PYTHON
