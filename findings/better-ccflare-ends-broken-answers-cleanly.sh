#!/bin/sh
# better-ccflare (npm, 3.5.4), a balancer of Claude accounts, ends an answer that broke off as if it were finished, with
# one account of an Anthropic-compatible provider: a stream whose provider closes the connection comes with its last
# chunk, but without message_stop, and a whole answer as a 200 with half a JSON, in a framing that is complete. A wrong
# key (401) is told as 503 `service_unavailable_error`, which SDKs try again. Takes fifteen seconds and 110 MB. Exits 0
# while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" better-ccflare@3.5.4 >"$folder/log" 2>&1 || { cat "$folder/log"; exit 2; }
python3 - "$folder" <<'PYTHON'
import http.client
import http.server
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

folder = pathlib.Path(sys.argv[1])
asked = []
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
MESSAGE["usage"] = {"input_tokens": 9, "output_tokens": 1}


def event(kind, **fields):
    text = f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(text), text)


class Provider(http.server.BaseHTTPRequestHandler):
    """Refuses the model `key`, and closes the connection in the middle of any other answer."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append(request["model"])
        if request["model"] == "key":
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            body = json.dumps({"type": "error", "error": error}).encode()
            self.send_response(401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        if request.get("stream"):
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(event("message_start", message=MESSAGE))
            block = {"type": "text", "text": ""}
            self.wfile.write(event("content_block_start", index=0, content_block=block))
            self.wfile.write(event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"}))
        else:
            body = json.dumps({**MESSAGE, "content": [{"type": "text", "text": "hello"}]}).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:40])
        self.wfile.flush()
        time.sleep(0.5)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


provider = Server(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
home = {"HOME": str(folder), "BETTER_CCFLARE_DB_PATH": str(folder / "db"), "BETTER_CCFLARE_HOST": "127.0.0.1"}
command = [folder / "node_modules/.bin/better-ccflare", "--serve", "--port", str(port)]
log = (folder / "server.log").open("w")
server = subprocess.Popen(command, env={**os.environ, **home}, cwd=folder, stdout=log, stderr=log)


def ask(model, **fields):
    """Return the status, the body, and whether the response's framing came to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    headers = {"content-type": "application/json", "x-api-key": "sk-x", "anthropic-version": "2023-06-01"}
    connection.request("POST", "/v1/messages", json.dumps(body), headers)
    answer = connection.getresponse()
    try:
        content, ended = answer.read(), True
    except http.client.IncompleteRead as error:
        content, ended = error.partial, False
    return answer.status, content.decode(), ended


try:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    account = {"name": "a", "apiKey": "sk-x", "priority": 0}
    account["customEndpoint"] = f"http://127.0.0.1:{provider.server_port}"
    url = f"http://127.0.0.1:{port}/api/accounts/anthropic-compatible"
    added = urllib.request.Request(url, json.dumps(account).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(added, timeout=30).read()
    key, stream, whole = ask("key"), ask("cut", stream=True), ask("cut")
finally:
    server.terminate()
    server.wait()
print(asked, key, stream, whole, sep="\n")
status, text, ended = stream
clean = status == 200 and ended and "hello" in text and "message_stop" not in text
status, text, ended = whole
try:
    clean = clean and json.loads(text) is None
except ValueError:
    clean = clean and status == 200 and ended and text.startswith('{"id": "m"')
hidden = asked[0] == "key" and key[0] == 503 and "service_unavailable_error" in key[1]
raise SystemExit(0 if clean and hidden else 1)
PYTHON
