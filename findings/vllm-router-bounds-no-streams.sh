#!/bin/sh
# vllm-router 0.1.17 with --max-concurrent-requests 2 --queue-size 2 has eight streams in flight at its worker at once: what
# it counts ends with a reply's head, and as many more are let in each second (--rate-limit-tokens-per-second, by default
# the same number). Of eight whole answers at once it refuses six within a second, none of them waits in the queue, and the
# refusal is a 408 without a body, where the help of --queue-size promises a 429: a client that waits at a 429, or reads
# Retry-After, takes it for a timeout of its own sending.
# Takes half a minute and 130 MB. Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q vllm-router==0.1.17 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/vllm-router" --help | grep -A2 -e '--queue-size QUEUE_SIZE$' || true
"$folder/v/bin/python" - "$folder/v/bin/vllm-router" <<'PYTHON'
import collections
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

SECONDS = 6
lock, in_flight, most = threading.Lock(), 0, 0


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers after six seconds, or as a stream that takes as long."""

    def do_POST(self):
        global in_flight, most
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        if not asked["stream"]:
            time.sleep(SECONDS)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if asked["stream"] else "application/json")
        self.end_headers()
        for _ in range(10 * SECONDS if asked["stream"] else 0):
            self.wfile.write(b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
            time.sleep(0.1)
        self.wfile.write(b"data: [DONE]\n\n" if asked["stream"] else b'{"id":"a","choices":[]}')
        with lock:
            in_flight -= 1

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def status(url, stream):
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}).encode()
    asked = urllib.request.Request(url + "/v1/chat/completions", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers.get("retry-after")


def eight(url, stream):
    global most
    found, most = [], 0
    threads = [threading.Thread(target=lambda: found.append(status(url, stream))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("streams:" if stream else "whole:", dict(collections.Counter(map(str, found))), "at once at the worker:", most)
    return found, most


engine = Server(("127.0.0.1", 0), Engine)
threading.Thread(target=engine.serve_forever, daemon=True).start()
port = free_port()
ports = ("--port", str(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()))
bounds = ("--max-concurrent-requests", "2", "--queue-size", "2", "--queue-timeout-secs", "60", "--disable-retries")
router = subprocess.Popen(
    [sys.argv[1], "--worker-urls", f"http://127.0.0.1:{engine.server_port}", *ports, *bounds],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
url = f"http://127.0.0.1:{port}"
try:
    for _ in range(120):
        try:
            urllib.request.urlopen(url + "/health", timeout=5)
            break
        except OSError:
            time.sleep(0.5)
    time.sleep(2)
    streams, streams_at_once = eight(url, True)
    time.sleep(2)
    whole, _ = eight(url, False)
finally:
    router.terminate()
    router.wait()
refused = [each for each in whole if each == (408, b"", None)]
sys.exit(0 if streams == [200] * 8 and streams_at_once > 4 and len(refused) >= 3 else 1)
PYTHON
