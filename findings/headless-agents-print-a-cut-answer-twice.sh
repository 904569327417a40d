#!/bin/sh
# Two coding agents whose headless mode is made for scripts, Grok Build 0.2.111 (`grok -p`, on PyPI as grok-cli-bin) and
# Continue (`cn -p`, @continuedev/cli 1.5.47): an answer whose stream is cut is asked for again, but what had come of it
# is on stdout already, so the script reads the beginning twice, as `{"a": {"a": 1}`, with exit code 0. Wants Node 20 or
# later, Linux, x86_64. Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q grok-cli-bin==0.2.111 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
(cd "$folder" && npm install --silent --no-fund --no-audit @continuedev/cli@1.5.47 >/dev/null) || exit 2
cat >"$folder/ask.py" <<'PYTHON'
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

FOLDER = pathlib.Path(sys.argv[1])
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WORDS = ('{"a": ', "1}")
asked = 0


def event(content, finish=None):
    choices = [{"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": finish}]
    return f"data: {json.dumps({**CHUNK, 'choices': choices})}\n\n".encode()


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        global asked
        self.rfile.read(int(self.headers["content-length"]))
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        asked += 1
        first, second = (event(WORDS[0]), event(WORDS[1], "stop") + b"data: [DONE]\n\n")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(first + second)))
        self.end_headers()
        self.wfile.write(first if asked == 1 else first + second)
        self.close_connection = True  # the first answer ends before its length

    def log_message(self, *arguments):
        pass


def ask(name, *command, **given):
    """Return the exit code, what a script reads, and how many requests there were."""
    global asked
    asked = 0
    home = FOLDER / name
    home.mkdir()
    (home / "config.yaml").write_text(
        "name: x\nversion: 1.0.0\nschema: v1\nmodels:\n  - {name: m, provider: openai, model: m, apiKey: k, "
        f"apiBase: '{URL}', roles: [chat]}}\n"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **given}
    ran = subprocess.run(command, cwd=home, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    print(f"{name}: exit code {ran.returncode} after {asked} requests:", ran.stdout.decode().strip())
    return ran.returncode, ran.stdout.decode().strip(), asked


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}/v1"
grok = next(FOLDER.glob("v/lib/python3*/site-packages/grok_cli_bin/bin/grok"))
continued = FOLDER / "node_modules" / ".bin" / "cn"
quiet = {"GROK_TELEMETRY_ENABLED": "0", "GROK_DISABLE_AUTOUPDATER": "1", "CONTINUE_TELEMETRY_ENABLED": "0"}
found = [
    ask("grok", grok, "-m", "m", "-p", "give me JSON", XAI_API_KEY="k", GROK_MODELS_BASE_URL=URL, **quiet),
    ask("cn", continued, "--config", "config.yaml", "-p", "give me JSON", **quiet),
]
sys.exit(0 if found == [(0, '{"a": {"a": 1}', 2)] * 2 else 1)
PYTHON
"$folder/v/bin/python" "$folder/ask.py" "$folder"
