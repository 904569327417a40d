#!/bin/sh
# litellm 1.110.2's completion(num_retries=2) retries what OpenAI's library doesn't send (here Anthropic's format) by
# tenacity, on which the package doesn't depend. In a plain installation the first refusal ends the call with
# "Exception: tenacity import failed", without its status, so a program that handles RateLimitError doesn't see one.
# With tenacity each retry follows at once, though the answer states `retry-after: 2`; in OpenAI's format the same call
# waits these 2 seconds.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q litellm==1.110.2 || exit 2
cat >"$folder/ask.py" <<'PYTHON'
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import litellm

ANSWERS = {
    "/v1/messages": {
        "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 9, "output_tokens": 1},
    },
    "/chat/completions": {
        "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    },
}
asked = []


class Provider(BaseHTTPRequestHandler):
    """Refuses the first request with a 429 that states a delay, and answers the next."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        asked.append(time.monotonic())
        refused = len(asked) == 1
        error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
        body = json.dumps(error if refused else ANSWERS[self.path]).encode()
        self.send_response(429 if refused else 200)
        self.send_header("retry-after", "2")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
for model in sys.argv[1:]:
    asked.clear()
    try:
        litellm.completion(
            model, [{"role": "user", "content": "hi"}], api_base=f"http://127.0.0.1:{server.server_port}",
            api_key="sk-test", num_retries=2, max_tokens=9,
        )
        waited = asked[1] - asked[0]
        print(model, "answered by request", len(asked), "which came", "at once" if waited < 1.5 else "after the delay")
    except Exception as error:
        print(model, "ended:", type(error).__name__, str(error)[:22], "after", len(asked), "request")
PYTHON
ask() { LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/v/bin/python" "$folder/ask.py" "$@" 2>/dev/null | grep -E 'answered|ended'; }
plain=$(ask anthropic/claude-sonnet-4-5 openai/gpt-4o)
"$folder/v/bin/pip" install -q tenacity==9.1.2 || exit 2
more=$(ask anthropic/claude-sonnet-4-5)
printf 'plain installation:\n%s\nwith tenacity:\n%s\n' "$plain" "$more"
[ "$plain" = "anthropic/claude-sonnet-4-5 ended: Exception tenacity import failed after 1 request
openai/gpt-4o answered by request 2 which came after the delay" ] &&
    [ "$more" = "anthropic/claude-sonnet-4-5 answered by request 2 which came at once" ]
