#!/bin/sh
# hubrelay (PyPI, 0.9.0) before an OpenAI-compatible provider drops an error event of its stream: the client's ends with
# `finish_reason: "stop"` and [DONE], so an answer that failed half-way passes for a complete one. Streams state
# `prompt_tokens: 0` whatever the provider counted. What the provider refuses is one 502, whose text quotes status and
# body: "HTTP 429: {...}". And a request that is asked again word for word, if it isn't a stream, gets the first answer
# from memory, with the same id. Takes five seconds and 40 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't
# be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q hubrelay==0.9.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
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
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
asked = []


def chunk(text, finish=None):
    return {**CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers, refuses the model `full`, and fails within the streams of the model `fails`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, status = request["model"], 200
        asked.append(model)
        kind = "application/json"
        if model == "full":
            status, body = 429, json.dumps({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}})
        elif request.get("stream"):
            kind, error = "text/event-stream", {"error": {"message": "The server had an error", "type": "server_error"}}
            good = [chunk("hel"), chunk("lo", "stop"), {**CHUNK, "choices": [], "usage": USAGE}]
            events = [chunk("hel"), error] if model == "fails" else good
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
            body = json.dumps({**CHUNK, "object": "chat.completion", "choices": [choice], "usage": USAGE})
        self.send_response(status)
        self.send_header("content-type", kind)
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
environment = {**os.environ, "RELAYHUB_HOME": str(folder), "HOME": str(folder)}
program = [folder / "v/bin/hubrelay"]
url = f"http://127.0.0.1:{provider.server_port}/v1"
pool = ["--pool", str(folder / "pool.json")]
models = [each for model in ("good", "fails", "full") for each in ("--model", model)]
add = [*program, "pool", "add", *pool, "--base-url", url, "--protocol", "openai-chat", "--api-key", "x", *models]
subprocess.run(add, env=environment, check=True, capture_output=True)
serve = [*program, "serve", *pool, "--port", str(port), "--api-key", "sk-x", "--health-interval", "0", "--no-watch"]
server = subprocess.Popen(serve, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(model, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
    headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


try:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    streaming = {"stream": True, "stream_options": {"include_usage": True}}
    failed = ask("fails", **streaming)[1]
    good = ask("good", **streaming)[1]
    whole = [json.loads(ask("good")[1])["id"] for _ in range(2)]
    full = ask("full")
finally:
    server.terminate()
    server.wait()
print(failed, good, whole, full, asked, sep="\n")
hidden = '"finish_reason": "stop"' in failed and "[DONE]" in failed and "had an error" not in failed
uncounted = '"prompt_tokens": 0' in good and "100" not in good
remembered = whole[0] == whole[1] and asked == ["fails", "good", "good", "full"]
told = full[0] == 502 and "HTTP 429: {" in json.loads(full[1])["error"]["message"]
print(hidden, uncounted, remembered, told)
raise SystemExit(0 if hidden and uncounted and remembered and told else 1)
PYTHON
