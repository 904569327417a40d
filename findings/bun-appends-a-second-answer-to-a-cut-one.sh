#!/bin/sh
# Bun's fetch up to 1.3.13 (1.2.20 too; not 1.3.14) sends a POST again by itself where a kept-alive connection breaks off
# in the middle of the answer, and appends the second answer's body to what the program has read of the first: a reader
# gets `data: 3` and `data: 4` of two requests as one stream, and the provider is asked, and paid, twice. On a fresh
# connection, as after `connection: close`, it raises ECONNRESET, as Node and 1.3.14 always do. Programs that have such a
# Bun in them, agents and gateways, do the same, whatever SDK they use (Claude Code up to 2.1.119, better-ccflare 3.5.4).
# Takes ten seconds and 200 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.3.13 1.3.14; do
    npm install --silent --prefix "$folder/$version" "bun@$version" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 2; }
done
cat >"$folder/ask.mjs" <<'JS'
const ask = async (cut) => {
  const answer = await fetch(process.argv[2], { method: "POST", body: JSON.stringify({ cut }) });
  let text = "";
  try {
    for await (const piece of answer.body) text += new TextDecoder().decode(piece);
    return [text, "whole"];
  } catch (error) {
    return [text, error.code];
  }
};
const fresh = await ask(true);
await ask(false);
console.log(JSON.stringify([fresh, await ask(true)]));
JS
python3 - "$folder" <<'PYTHON'
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
asked = []


class Provider(http.server.BaseHTTPRequestHandler):
    """Numbers its answers, and closes the connection in the middle of those that are to be cut."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        cut = json.loads(self.rfile.read(int(self.headers["content-length"])))["cut"]
        asked.append(cut)
        event = b"data: %d\n\n" % len(asked)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        if not cut:
            self.wfile.write(b"0\r\n\r\n")
            return
        self.wfile.flush()
        time.sleep(0.5)
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


provider = Server(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
found = {}
for version in ("1.3.13", "1.3.14"):
    asked.clear()
    bun = [folder / version / "node_modules/.bin/bun", folder / "ask.mjs", f"http://127.0.0.1:{provider.server_port}/"]
    said = subprocess.run(bun, check=True, capture_output=True, timeout=60).stdout
    found[version] = [*json.loads(said), len(asked)]
    print(version, found[version])
fresh = ["data: 1\n\n", "ECONNRESET"]
before = [fresh, ["data: 3\n\ndata: 4\n\n", "ECONNRESET"], 4]
since = [fresh, ["data: 3\n\n", "ECONNRESET"], 3]
raise SystemExit(0 if found == {"1.3.13": before, "1.3.14": since} else 1)
PYTHON
