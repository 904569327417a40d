#!/bin/sh
# Claude Code 2.1.332: a refusal of the main agent's request leaves a line (`system`, `api_error`, with status and pause)
# in the session's file; the same refusal of a sub-agent's request leaves none in any file, only one more `api-request`.
# So 429s and 529s can't be counted from session files where sub-agents ran. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit @anthropic-ai/claude-code@2.1.332 >/dev/null) || exit 2
python3 - "$folder" <<'PYTHON'
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

folder = pathlib.Path(sys.argv[1])
refused = {}
SUB = "Count the files of this folder."


def events(content, stop):
    message = {"id": f"msg_{os.urandom(6).hex()}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    usage = {"input_tokens": 10, "output_tokens": 1}
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if stop == "tool_use":
        start, delta = {**content, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(content["input"])}
    else:
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": content}
    yield "content_block_start", {"index": 0, "content_block": start}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9}}
    yield "message_stop", {}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        who = "sub-agent" if self.headers.get("x-claude-code-agent-id") else "main agent"
        if who not in refused:
            refused[who] = 1
            error = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}).encode()
            self.send_response(429)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(error)))
            self.end_headers()
            self.wfile.write(error)
            return
        called = "tool_result" in json.dumps(body["messages"])
        call = {"description": "count", "prompt": SUB, "subagent_type": "general-purpose"}
        tool = next((each["name"] for each in body.get("tools", []) if each["name"] in ("Agent", "Task")), None)
        if who == "main agent" and tool and not called:
            parts = events({"type": "tool_use", "id": "toolu_01", "name": tool, "input": call}, "tool_use")
        else:
            parts = events("done", "end_turn")
        data = "".join(f"event: {name}\ndata: {json.dumps({'type': name, **part})}\n\n" for name, part in parts).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
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
environ = {**os.environ, "HOME": str(folder), "CI": "1", "ANTHROPIC_API_KEY": "k"}
environ |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
words = [str(folder / "node_modules" / ".bin" / "claude"), "-p", "go", "--model", "claude-sonnet-4-5", "--allowedTools", "Agent", "Task"]
(folder / "w").mkdir()
ran = subprocess.run(words, env=environ, cwd=folder / "w", stdin=subprocess.DEVNULL, capture_output=True, timeout=180, check=False)
counts = {"main agent": [0, 0], "sub-agent": [0, 0]}
for path in (folder / ".claude" / "projects").rglob("*.jsonl"):
    mine = counts["sub-agent" if path.parent.name == "subagents" else "main agent"]
    for line in map(json.loads, path.read_text().splitlines()):
        mine[0] += line.get("type") == "api-request"
        mine[1] += line.get("subtype") == "api_error"
for who, (attempts, errors) in counts.items():
    print(f"{who}: refused {refused.get(who, 0)} time, {attempts} api-request lines, {errors} api_error lines")
if set(refused) != {"main agent", "sub-agent"}:
    print(ran.stdout[-300:], ran.stderr[-300:])
    sys.exit(1)
sys.exit(0 if counts["main agent"][1] == 1 and counts["sub-agent"][0] >= 2 and counts["sub-agent"][1] == 0 else 1)
PYTHON
