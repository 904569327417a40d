#!/bin/sh
# NVIDIA's NeMo Guardrails server (nemoguardrails 0.24.1, extras server and openai) before an OpenAI-compatible
# provider: no chunk of its streams has a finish_reason, so an answer that `max_tokens` cut and one whose provider broke
# off after some words look like a whole one; each ends with [DONE]. No answer states usage, also where a stream's
# client asks for it. And a used-up quota keeps its code `insufficient_quota` in place of a whole answer, but is
# `"code": 429` in place of a stream, as a rate limit is. Takes a minute and 300 MB. Exits 0 while that is so, 1 if it
# changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q "nemoguardrails[server,openai]==0.24.1" 2>"$folder/pip.log" ||
    { cat "$folder/pip.log"; exit 2; }
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
GONE = "You exceeded your current quota, please check your plan and billing details."


def chunk(text, finish=None):
    return {**CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers, ends the model `length` at its limit, the streams of `broken` half-way, and refuses the model `gone`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, status, kind = request["model"], 200, "application/json"
        if model == "gone":
            status, body = 429, json.dumps({"error": {"message": GONE, "code": "insufficient_quota"}})
        elif request.get("stream"):
            kind, reason = "text/event-stream", "length" if model == "length" else "stop"
            rest = [chunk("lo", reason), {**CHUNK, "choices": [], "usage": USAGE}]
            events = [chunk("hel"), *([] if model == "broken" else rest)]
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            body += "" if model == "broken" else "data: [DONE]\n\n"
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
url = f"http://127.0.0.1:{provider.server_port}/v1"
(folder / "rails/one").mkdir(parents=True)
model = {"type": "main", "engine": "openai", "model": "good", "parameters": {"base_url": url, "api_key": "sk-x"}}
(folder / "rails/one/config.yml").write_text(json.dumps({"models": [model], "passthrough": True}))
environment = {**os.environ, "HOME": str(folder), "MAIN_MODEL_ENGINE": "openai", "MAIN_MODEL_BASE_URL": url}
environment |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": url}
program = [folder / "v/bin/nemoguardrails", "server", "--config", folder / "rails", "--default-config-id", "one"]
log = (folder / "log").open("w")
command = [*program, "--port", str(port), "--disable-chat-ui"]
server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def ask(model, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    return connection.getresponse().read().decode()


try:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    streaming = {"stream": True, "stream_options": {"include_usage": True}}
    streams = {model: ask(model, **streaming) for model in ("good", "length", "broken")}
    whole = json.loads(ask("good"))
    codes = [json.loads(ask("gone", **fields))["error"]["code"] for fields in ({}, streaming)]
finally:
    server.terminate()
    server.wait()
ends, said = set(), {}
for model, stream in streams.items():
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in event.get("choices", [])]
    said[model] = "".join(choice["delta"].get("content") or "" for choice in choices)
    ends.add((*{choice["finish_reason"] for choice in choices}, "usage" in stream, stream.rstrip().endswith("[DONE]")))
print(said, ends, whole, codes, sep="\n")
same = said == {"good": "hello", "length": "hello", "broken": "hel"} and ends == {(None, False, True)}
raise SystemExit(0 if same and "usage" not in whole and codes == ["insufficient_quota", 429] else 1)
PYTHON
