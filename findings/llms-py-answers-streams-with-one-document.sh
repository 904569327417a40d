#!/bin/sh
# llms-py's server (PyPI, 4.0.26) takes `"stream": true` and answers one JSON document, `application/json`: OpenAI's SDK
# for Python then yields nothing and raises nothing, so that an agent takes the whole answer for an empty one. And
# whatever its provider refuses (a used-up quota, a prompt that is too long, a wrong key, a rate limit) is one status,
# 500, with the provider's words alone: no code, no Retry-After; OpenAI's SDK asks again after each. Takes ten seconds
# and 80 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q llms-py==4.0.26 openai==3.57.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

import openai

folder = pathlib.Path(sys.argv[1])
REFUSALS = {
    "quota": (429, "You exceeded your current quota, please check your plan and billing.", "insufficient_quota"),
    "long": (400, "This model's maximum context length is 9 tokens.", "context_length_exceeded"),
    "key": (401, "Incorrect API key provided", "invalid_api_key"),
}
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers the model `good` with a stream, which llms-py always asks for, and refuses the others in a way each."""

    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        status, message, code = REFUSALS.get(model, (200, "", ""))
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "usage": None}
        delta = {"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
        last = {**chunk, "choices": [], "usage": USAGE}
        events = json.dumps({**chunk, "choices": [delta]}), json.dumps(last), "[DONE]"
        error = {"error": {"message": message, "type": code, "param": None, "code": code}}
        body = "".join(f"data: {event}\n\n" for event in events) if status == 200 else json.dumps(error)
        body = body.encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
package = next((folder / "v/lib").glob("python*/site-packages/llms"))
home = folder / "home"
home.mkdir()
for name in ("providers.json", "providers-extra.json"):
    shutil.copy(package / name, home)
settings = json.loads((package / "llms.json").read_text())
settings["providers"] = {
    "mock": {
        "enabled": True,
        "npm": "@ai-sdk/openai-compatible",
        "id": "mock",
        "api": f"http://127.0.0.1:{provider.server_port}/v1",
        "api_key": "sk-x",
        "models": {model: {"id": model, "name": model} for model in ("good", *REFUSALS)},
    }
}
(home / "llms.json").write_text(json.dumps(settings))
log = (folder / "llms.log").open("w")
command = [folder / "v/bin/llms", "--config", home / "llms.json", "--providers", home / "providers.json"]
environment = {**os.environ, "LLMS_HOME": str(home), "HOME": str(home)}
server = subprocess.Popen([*command, "--serve", str(port)], env=environment, stdout=log, stderr=log, cwd=folder)
try:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-x", max_retries=0)
    asked = {"model": "good", "messages": [{"role": "user", "content": "hi"}]}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    chunks = list(client.chat.completions.create(**asked, stream=True))
    raw = client.chat.completions.with_raw_response.create(**asked, stream=True)
    told = {}
    for model in REFUSALS:
        try:
            client.chat.completions.create(**{**asked, "model": model})
        except openai.APIStatusError as error:
            told[model] = error.status_code, error.response.json()
finally:
    server.terminate()
    server.wait()
print("whole:", whole, "; stream:", raw.headers["content-type"], chunks)
for model, said in told.items():
    print(model, *said)
own = {model: (500, message) for model, (_, message, _) in REFUSALS.items()}
same = {model: (status, said["responseStatus"]["message"]) for model, (status, said) in told.items()} == own
raise SystemExit(0 if (whole, chunks, same) == ("hello", [], True) else 1)
PYTHON
