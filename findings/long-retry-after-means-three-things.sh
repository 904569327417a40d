#!/bin/sh
# Agent frameworks of today pin SDKs that read a long Retry-After in three ways. At a 429 with `Retry-After: 200`
# anthropic 0.125.0 (strands-agents 1.62.0, semantic-kernel 1.45.0) asks again after half a second as if none were stated,
# anthropic 2.14.0 (langchain-anthropic, pydantic-ai) sleeps 200 s, and openai 3.57.0 doesn't ask again at all. At 61 s the
# first doesn't wait, and the others do.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for pair in old:anthropic==0.125.0 new:anthropic==2.14.0 gpt:openai==3.57.0; do
    python3 -m venv "$folder/${pair%%:*}"
    "$folder/${pair%%:*}/bin/pip" install -q "${pair#*:}" || exit 2
done
cat >"$folder/ask.py" <<'PYTHON'
import http.server
import sys
import threading
import time

kind, waits = sys.argv[1], sys.argv[2:]
slept, asked, wait = [], [], ""


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        asked.append(self.path)
        self.send_response(429)
        self.send_header("retry-after", wait)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
time.sleep = slept.append
message = [{"role": "user", "content": "hi"}]
found = []
for wait in waits:
    slept.clear()
    asked.clear()
    try:
        if kind == "gpt":
            import openai

            openai.OpenAI(api_key="k", base_url=url).chat.completions.create(model="m", messages=message)
        else:
            import anthropic

            anthropic.Anthropic(api_key="k", base_url=url).messages.create(model="m", max_tokens=9, messages=message)
    except Exception as error:
        assert "429" in str(error), error
    found.append(f"{wait} s: {len(asked)} requests" + (f", {round(max(slept))} s apart" if slept else ""))
print("; ".join(found))
PYTHON
ask() { "$folder/$1/bin/python" "$folder/ask.py" "$1" 61 200; }
old=$(ask old) new=$(ask new) gpt=$(ask gpt)
printf 'anthropic 0.125.0: %s\nanthropic 2.14.0: %s\nopenai 3.57.0: %s\n' "$old" "$new" "$gpt"
[ "$old" = "61 s: 3 requests, 1 s apart; 200 s: 3 requests, 1 s apart" ] &&
    [ "$new" = "61 s: 3 requests, 61 s apart; 200 s: 3 requests, 200 s apart" ] &&
    [ "$gpt" = "61 s: 3 requests, 61 s apart; 200 s: 1 requests" ]
