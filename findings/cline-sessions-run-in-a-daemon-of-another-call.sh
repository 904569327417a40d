#!/bin/sh
# cline 3.0.65: a one-shot `cline PROMPT` leaves a daemon behind (`--cline-hub-daemon`), and the next call's session runs
# in it, with the daemon's environment: the file that the second call names in CLINE_PROVIDER_SETTINGS_PATH is read for
# nothing, and its request goes to the base URL in the file of the first. With CLINE_SESSION_BACKEND_MODE=local each call
# asks the server of its own file. Wants Node 20 or later, Linux on x64, and no cline that runs already.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit cline@3.0.65 >/dev/null) || exit 2
python3 - "$folder" <<'PYTHON'
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

folder = pathlib.Path(sys.argv[1])
paths = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        paths.append(self.path)
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
        first = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi."}, "finish_reason": None}]}
        last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        data = "".join(f"data: {json.dumps(each)}\n\n" for each in (first, last)) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def asked(name, home, **more):
    """Return the paths that one call asks for, which is given a file of its own."""
    url = f"http://127.0.0.1:{server.server_port}/{name}/v1"
    settings = {"provider": "openai-compatible", "apiKey": "k", "model": "gpt-5", "baseUrl": url}
    entry = {"settings": settings, "updatedAt": "2026-11-28T00:00:00.000Z", "tokenSource": "manual"}
    content = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": entry}}
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    environ = {**os.environ, "HOME": str(home), "CLINE_PROVIDER_SETTINGS_PATH": str(file), "CI": "1", **more}
    before = len(paths)
    words = [str(folder / "node_modules" / ".bin" / "cline"), "say hi"]
    subprocess.run(words, env=environ, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    return sorted(set(paths[before:]))


def daemons():
    """Return the daemons of this folder's cline."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and b"--cline-hub-daemon" in words:
            found.append(int(process.name))
    return found


homes = [folder / each for each in ("home", "local")]
for home in homes:
    home.mkdir()
try:
    shared = [asked(name, homes[0]) for name in ("one", "two")]
    left = len(daemons())
finally:
    for number in daemons():
        os.kill(number, signal.SIGKILL)
local = [asked(name, homes[1], CLINE_SESSION_BACKEND_MODE="local") for name in ("three", "four")]
print("as it is:", shared, "daemons left:", left)
print("local:", local, "daemons left:", len(daemons()))
one = ["/one/v1/chat/completions"]
alone = [["/three/v1/chat/completions"], ["/four/v1/chat/completions"]]
sys.exit(0 if shared == [one, one] and left == 1 and local == alone and not daemons() else 1)
PYTHON
