#!/bin/sh
# agno 3.1.10: Agent.run() raises nothing when the model's API refuses (429, after the SDK's three attempts): it returns a
# RunOutput whose content is the error's message, as if the model had said it. Only its `status` tells, so a program that
# prints the answer ends with exit code 0.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q agno==3.1.10 openai==3.57.0 || exit 2
AGNO_TELEMETRY=false "$folder/v/bin/python" - <<'PYTHON'
import http.server
import sys
import threading

seen = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        seen.append(self.path)
        body = b'{"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}'
        self.send_response(429)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

from agno.agent import Agent
from agno.models.openai import OpenAIChat

url = f"http://127.0.0.1:{server.server_port}/v1"
found = Agent(model=OpenAIChat(id="gpt-4o", api_key="k", base_url=url)).run("Go.")
print(len(seen), "requests; content:", repr(found.content), "status:", found.status)
sys.exit(0 if len(seen) == 3 and found.content == "Slow down." and "ERROR" in str(found.status).upper() else 1)
PYTHON
