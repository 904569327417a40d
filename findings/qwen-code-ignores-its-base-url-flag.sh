#!/bin/sh
# Qwen Code 0.24.4: a model that settings.json lists with a `baseUrl` (modelProviders) is asked there even with
# `--openai-base-url` on the command line and OPENAI_BASE_URL set, without a word. Only settings that stand above the
# user's (QWEN_CODE_SYSTEM_SETTINGS_PATH) take it elsewhere. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit @qwen-code/qwen-code@0.24.4 >/dev/null) || exit 2
python3 - "$folder" <<'PYTHON'
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

folder = pathlib.Path(sys.argv[1])
paths = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        paths.append(self.path)
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "no", "type": "invalid_request_error"}}')

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"


def settings(name):
    model = {"id": "m", "envKey": "OPENAI_API_KEY", "baseUrl": f"{url}/{name}/v1"}
    return json.dumps({"modelProviders": {"openai": [model]}, "security": {"auth": {"selectedType": "openai"}}})


(folder / ".qwen").mkdir()
(folder / ".qwen" / "settings.json").write_text(settings("user"))
(folder / "system.json").write_text(settings("system"))
base = {**os.environ, "HOME": str(folder), "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{url}/variable/v1", "CI": "1"}


def asked(**more):
    before = len(paths)
    words = [str(folder / "node_modules" / ".bin" / "qwen"), "-m", "m", "--openai-base-url", f"{url}/flag/v1", "-p", "say hi"]
    subprocess.run(words, env={**base, **more}, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    return sorted({path.split("/")[1] for path in paths[before:]})


found = [asked(), asked(QWEN_CODE_SYSTEM_SETTINGS_PATH=str(folder / "system.json"))]
print("flag, variable and the user's settings:", found[0], "with system settings:", found[1])
sys.exit(0 if found == [["user"], ["system"]] else 1)
PYTHON
