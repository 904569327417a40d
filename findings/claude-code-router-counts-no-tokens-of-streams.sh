#!/bin/sh
# claude-code-router 2.0.0 (npm, @musistudio/claude-code-router) asks an OpenAI-compatible provider for a stream without
# `stream_options`, so none is counted, and then states a count all the same: `input_tokens` 0 and `output_tokens` 0 in
# message_start and message_delta. Claude Code's costs, budgets and its sign that the context is full see nothing; the
# same question without a stream is counted rightly. Takes half a minute and 30 MB; wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm init -y && npm install --no-audit --no-fund @musistudio/claude-code-router@2.0.0) >"$folder/npm.log" 2>&1 ||
    { cat "$folder/npm.log"; exit 2; }
python3 - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
options = []


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers as OpenAI does, which counts a stream if that is asked for."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        media, choice = "application/json", {"index": 0, "finish_reason": "stop"}
        reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "good"}
        message = {"role": "assistant", "content": "hello"}
        if asked.get("stream"):
            options.append(asked.get("stream_options"))
            media = "text/event-stream"
            parts = [{**reply, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}]
            if asked.get("stream_options"):
                parts.append({**reply, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
            body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        else:
            body = json.dumps({**reply, "choices": [{**choice, "message": message}], "usage": USAGE})
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
        self.close_connection = True

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
url = f"http://127.0.0.1:{provider.server_port}/v1/chat/completions"
models = {"name": "p", "api_base_url": url, "api_key": "sk-x", "models": ["good"]}
config = {"PORT": port, "HOST": "127.0.0.1", "LOG": False, "NON_INTERACTIVE_MODE": True, "Providers": [models]}
(folder / ".claude-code-router").mkdir()
(folder / ".claude-code-router/config.json").write_text(json.dumps({**config, "Router": {"default": "p,good"}}))
command = [f"{folder}/node_modules/.bin/ccr", "start"]
silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
router = subprocess.Popen(command, cwd=folder, env=os.environ | {"HOME": str(folder)}, **silent)


def ask(**fields):
    """Return the status and the body."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"content-type": "application/json", "x-api-key": "sk-x", "anthropic-version": "2023-06-01"}
    body = {"model": "p,good", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    client.request("POST", "/v1/messages", json.dumps(body), headers)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


try:
    for _ in range(120):
        try:
            whole = ask()
            break
        except OSError:
            time.sleep(0.5)
    stream = ask(stream=True)
finally:
    os.killpg(router.pid, signal.SIGKILL)
    router.wait()
counts = [line[line.index('"usage"') :] for line in stream[1].splitlines() if '"usage"' in line]
print("whole:", whole[0], json.loads(whole[1])["usage"])
print("stream, for which the provider was asked with stream_options", options[0], ":", stream[0], *counts)
whole_is_right = json.loads(whole[1])["usage"]["output_tokens"] == 20
zeros = len(counts) == 2 and all('"input_tokens":0,"output_tokens":0' in each for each in counts)
sys.exit(0 if whole_is_right and zeros and options[0] is None else 1)
PYTHON
