#!/bin/sh
# Grok Build 0.2.111 (xAI's agent, on PyPI as grok-cli-bin): `max_retries = 8`, which its guide lists without more, holds
# for a 503 alone. After a 429 it asks once more, though each states `Retry-After: 1`, and at a 529 (Anthropic's status of
# an overload, which gateways pass on) it ends at once: "API error (status 529 <unknown status code>)". So which of three
# statuses a gateway answers with while it is busy decides whether a session outlives a second. Linux, x86_64.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q grok-cli-bin==0.2.111 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
grok=$(find "$folder/v" -path '*/grok_cli_bin/bin/grok')
cat >"$folder/ask.py" <<'PYTHON'
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

GROK, FOLDER = sys.argv[1:]
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
refusals, status, asked = 0, 503, 0


class Server(http.server.BaseHTTPRequestHandler):
    def answer(self, status, kind, body, *headers):
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, "application/json", b'{"object":"list","data":[{"id":"m","object":"model"}]}')

    def do_POST(self):
        global asked
        self.rfile.read(int(self.headers["content-length"]))
        if not self.path.endswith("/chat/completions"):
            return self.answer(404, "application/json", b"{}")  # the session's title, by another API
        asked += 1
        if asked <= refusals:
            error = {"error": {"type": "overloaded_error", "message": "busy", "code": status}}
            return self.answer(status, "application/json", json.dumps(error).encode(), ("retry-after", "1"))
        choices = [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
        data = f"data: {json.dumps({**CHUNK, 'choices': choices})}\n\ndata: [DONE]\n\n"
        self.answer(200, "text/event-stream", data.encode())

    def log_message(self, *arguments):
        pass


def ask(code, times):
    """Return its exit code and how often it asked for an answer that is refused that often."""
    global refusals, status, asked
    refusals, status, asked = times, code, 0
    home = pathlib.Path(FOLDER, f"home-{code}-{times}")
    (home / ".grok").mkdir(parents=True)
    (home / ".grok" / "config.toml").write_text("[models]\nmax_retries = 8\n")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    given = {"XAI_API_KEY": "k", "GROK_MODELS_BASE_URL": url, "GROK_TELEMETRY_ENABLED": "0", "GROK_DISABLE_AUTOUPDATER": "1"}
    ran = subprocess.run(
        [GROK, "-m", "m", "-p", "say hi"],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    print(f"{times} x {code}: exit code {ran.returncode} after {asked} requests", ran.stdout.decode().strip())
    return ran.returncode, asked


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
found = [ask(503, 6), ask(429, 6), ask(529, 1)]
sys.exit(0 if found == [(0, 7), (1, 2), (1, 1)] else 1)
PYTHON
"$folder/v/bin/python" "$folder/ask.py" "$grok" "$folder"
