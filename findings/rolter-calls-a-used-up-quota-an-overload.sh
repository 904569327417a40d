#!/bin/sh
# Rolter's gateway (PyPI, rolter 0.1.0) answers a provider's 429 or 5xx, once it has no other target, by a 503 of its own:
# "no target selected", type `overloaded_error`, without Retry-After. So a used-up quota (429 `insufficient_quota`), which
# no further attempt helps, looks like an overload, which agents ask again after, and a rate limit loses how long it
# lasts: the gateway waits that long itself, in silence, asks once more and then says overload too. 400 and 401 pass as
# they came. Takes ten seconds and 30 MB. Exits 0 while that is so, 1 if it changed, 2 if it can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q rolter==0.1.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import collections
import http.client
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
REFUSALS = {
    "quota": (429, {}, "You exceeded your current quota, please check your plan and billing details."),
    "limit": (429, {"retry-after": "2"}, "Rate limit reached"),
    "key": (401, {}, "Incorrect API key provided"),
}
CODES = {"quota": "insufficient_quota", "limit": "rate_limit_exceeded", "key": "invalid_api_key"}
asked = collections.Counter()


class Provider(http.server.BaseHTTPRequestHandler):
    """Refuses each model in its own way."""

    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        asked[model] += 1
        status, headers, message = REFUSALS[model]
        error = {"message": message, "type": CODES[model], "param": None, "code": CODES[model]}
        body = json.dumps({"error": error}).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
routes = "".join(
    f'[[routes]]\nmodel = "{model}"\nstrategy = "round_robin"\n[[routes.targets]]\nprovider = "p"\nmodel = "{model}"\n'
    for model in REFUSALS
)
(folder / "rolter.toml").write_text(
    f'[server]\nhost = "127.0.0.1"\nport = {port}\n'
    f'[[providers]]\nname = "p"\nkind = "openai_compatible"\napi_base = "http://127.0.0.1:{provider.server_port}"\n'
    f'[[virtual_keys]]\nkey = "sk-x"\nname = "x"\nmodels = []\ndisabled = false\n{routes}'
)
command = [f"{folder}/v/bin/rolter", "gateway", "-c", f"{folder}/rolter.toml"]
gateway = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(model):
    """Return the status, Retry-After, the error, and the seconds until it came."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
    began = time.monotonic()
    client.request("POST", "/v1/chat/completions", json.dumps({"model": model, "messages": []}), headers)
    answer = client.getresponse()
    error = json.loads(answer.read())["error"]
    return answer.status, answer.getheader("retry-after"), error["message"], error["type"], time.monotonic() - began


try:
    for _ in range(120):
        try:
            found = {model: ask(model) for model in REFUSALS}
            break
        except OSError:
            time.sleep(0.25)
finally:
    gateway.kill()
    gateway.wait()
for model, (*answer, took_s) in found.items():
    print(f"{REFUSALS[model][0]} {CODES[model]}, asked {asked[model]} times:", *answer, f"after {took_s:.1f} s")
own = (503, None, "no target selected", "overloaded_error")
waited = found["limit"][-1] >= 2 > found["quota"][-1]
same = [found[model][:4] for model in REFUSALS] == [own, own, (401, None, REFUSALS["key"][2], "invalid_api_key")]
sys.exit(0 if same and waited else 1)
PYTHON
