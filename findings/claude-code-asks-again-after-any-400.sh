#!/bin/sh
# Claude Code takes any 400 for a word about its newest features, whatever the error says and though
# `x-should-retry: false` says not to: 2.1.332 asks six times within a second, each time with another beta header or
# field of `thinking` left out, in two rounds. 2.1.197 asked once. After a 402 (`billing_error`), both ask once and show
# the message. So a gateway that ends agents with a 400 is asked six times. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.1.197 2.1.332; do
    mkdir "$folder/$version"
    (cd "$folder/$version" && npm install --silent --no-fund --no-audit "@anthropic-ai/claude-code@$version" >/dev/null) || exit 2
done
python3 - "$folder" <<'PYTHON'
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

folder = pathlib.Path(sys.argv[1])
TYPES = {400: "invalid_request_error", 402: "billing_error"}
TEXT = "the budget of this key is used up"
asked = []


class Server(http.server.BaseHTTPRequestHandler):
    status = 400

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        betas = set(self.headers.get("anthropic-beta", "").split(","))
        asked.append((betas, body.get("thinking")))
        error = {"type": "error", "error": {"type": TYPES[Server.status], "message": TEXT}}
        data = json.dumps(error).encode()
        self.send_response(Server.status)
        self.send_header("content-type", "application/json")
        self.send_header("x-should-retry", "false")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
found = {}
for version in ("2.1.197", "2.1.332"):
    for status in TYPES:
        Server.status = status
        asked.clear()
        home = folder / f"{version}-{status}"
        (home / "w").mkdir(parents=True)
        environ = {**os.environ, "HOME": str(home), "CI": "1", "ANTHROPIC_API_KEY": "k"}
        environ |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}"}
        environ |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        program = folder / version / "node_modules" / ".bin" / "claude"
        words = [str(program), "-p", "go", "--model", "claude-sonnet-4-5"]
        ran = subprocess.run(
            words, env=environ, cwd=home / "w", stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
        )
        shown = TEXT.encode() in ran.stdout
        found[version, status] = len(asked), shown
        print(f"{version}, {status}: {len(asked)} requests, message {'shown' if shown else 'not shown'}")
        for (before, thinking), (after, other) in zip(asked, asked[1:], strict=False):
            less = ", ".join(sorted(before - after)) or f"thinking {json.dumps(thinking)} -> {json.dumps(other)}"
            print(f"    next without: {less}")
expected = {("2.1.197", 400): 1, ("2.1.197", 402): 1, ("2.1.332", 400): 6, ("2.1.332", 402): 1}
sys.exit(0 if found == {case: (count, True) for case, count in expected.items()} else 1)
PYTHON
