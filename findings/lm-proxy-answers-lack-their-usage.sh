#!/bin/sh
# LM-Proxy (PyPI, llm-proxy-server 3.3.2) answers a chat that isn't a stream with its `choices` alone: the provider's id,
# model and `usage` are gone, so that nobody behind it can count tokens; so it is in a stream, also one that asks for
# its usage (`stream_options`). And a prompt that is too long, a wrong key and a used-up quota are all one 502, "Error
# processing upstream provider response", which SDKs ask again after; asked as a stream, the same refusals are an error
# event after a 200, with the provider's words in a string of Python's. Takes half a minute and 150 MB.
# Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q llm-proxy-server==3.3.2 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
REFUSALS = {
    "long": (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens."),
    "key": (401, "invalid_api_key", "Incorrect API key provided"),
    "quota": (429, "insufficient_quota", "You exceeded your current quota."),
}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers the model `good`, and refuses the others."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, media = 200, "application/json"
        if asked["model"] in REFUSALS:
            status, code, message = REFUSALS[asked["model"]]
            body = json.dumps({"error": {"message": message, "type": code, "param": None, "code": code}})
        elif asked.get("stream"):
            choice = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "good"}
            media, parts = "text/event-stream", [{**chunk, "choices": [choice]}]
            if asked.get("stream_options"):
                parts.append({**chunk, "choices": [], "usage": USAGE})
            body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "good", "choices": [choice]}
            body = json.dumps({**reply, "usage": USAGE})
        self.send_response(status)
        self.send_header("content-type", media)
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
(folder / "config.toml").write_text(
    f'host = "127.0.0.1"\nport = {port}\n[connections.p]\napi_type = "open_ai"\n'
    f'api_base = "http://127.0.0.1:{provider.server_port}/v1/"\napi_key = "sk-x"\n'
    '[routing]\n"*" = "p.*"\n[groups.default]\napi_keys = ["sk-x"]\n'
)
command = [f"{folder}/v/bin/llm-proxy-server", "--config", f"{folder}/config.toml"]
gateway = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(model, **fields):
    """Return the status and the body."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
    client.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


try:
    for _ in range(120):
        try:
            whole = ask("good")
            break
        except OSError:
            time.sleep(0.5)
    stream = ask("good", stream=True, stream_options={"include_usage": True})
    refused = {model: (ask(model), ask(model, stream=True)) for model in REFUSALS}
finally:
    gateway.kill()
    gateway.wait()
print("whole:", *whole)
print("a stream that asks for its usage:", *stream)
for model, (plain, streamed) in refused.items():
    print(f"{REFUSALS[model][0]} {REFUSALS[model][1]}, whole:", *plain)
    print("as a stream:", streamed[0], [line for line in streamed[1].splitlines() if '"error": {' in line])
counted = list(json.loads(whole[1])) == ["choices"] and (stream[0], "prompt_tokens" in stream[1]) == (200, False)
hidden = all(
    (plain[0], "Error processing upstream" in plain[1], streamed[0]) == (502, True, 200)
    and f"Error code: {REFUSALS[model][0]}" in streamed[1]
    for model, (plain, streamed) in refused.items()
)
sys.exit(0 if counted and hidden else 1)
PYTHON
