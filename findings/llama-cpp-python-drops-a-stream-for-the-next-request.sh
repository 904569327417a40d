#!/bin/sh
# llama-cpp-python's server (0.3.36), as it starts by default (`interrupt_requests`), leaves a stream half-way as soon as
# another request comes: the first client gets `data: [DONE]` without any `finish_reason`, and a body that isn't ended.
# Whoever stops at `[DONE]`, as OpenAI's SDKs do, takes the half for the answer. A request that isn't a stream is computed
# to its end. Two agents at once need `--interrupt_requests False`, or a proxy that sends one at a time.
# It is built from source, needs a C++ compiler, and takes ten minutes on two cores. Exits 0 while that is so, 1 if it
# changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
CMAKE_BUILD_PARALLEL_LEVEL=2 "$folder/v/bin/pip" install -q 'llama-cpp-python[server]==0.3.36' gguf 2>"$folder/pip.log" ||
  { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder/tiny.gguf" <<'PYTHON'
import sys

import gguf
import numpy as np

width, inner = 64, 128
plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
tokens = ["<s>", "</s>", *map(chr, plain), *(chr(0x100 + n) for n in range(256 - len(plain)))]
file = gguf.GGUFWriter(sys.argv[1], "llama")
file.add_context_length(8192), file.add_embedding_length(width), file.add_block_count(1)
file.add_feed_forward_length(inner), file.add_head_count(1), file.add_head_count_kv(1)
file.add_layer_norm_rms_eps(1e-5), file.add_rope_dimension_count(width), file.add_vocab_size(len(tokens))
file.add_tokenizer_model("gpt2"), file.add_tokenizer_pre("gpt-2"), file.add_token_list(tokens)
file.add_token_types([3, 3] + [1] * 256), file.add_token_merges(["a b"])
file.add_bos_token_id(0), file.add_eos_token_id(1)
file.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
dice = np.random.default_rng(0)


def add(name, *shape):
    file.add_tensor(name, (dice.standard_normal(shape) * 0.05).astype(np.float32))


add("token_embd.weight", len(tokens), width), file.add_tensor("output_norm.weight", np.ones(width, np.float32))
last = (dice.standard_normal((len(tokens), width)) * 0.05).astype(np.float32)
last[:2] = 0  # so that an answer is as long as it may be
file.add_tensor("output.weight", last)
for name in ("attn_norm", "ffn_norm"):
    file.add_tensor(f"blk.0.{name}.weight", np.ones(width, np.float32))
add("blk.0.ffn_down.weight", width, inner)
for name in ("q", "k", "v", "output"):
    add(f"blk.0.attn_{name}.weight", width, width)
for name in ("gate", "up"):
    add(f"blk.0.ffn_{name}.weight", inner, width)
file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
PYTHON
port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/v/bin/python" -m llama_cpp.server --model "$folder/tiny.gguf" --n_ctx 8192 --n_threads 1 --host 127.0.0.1 \
  --port "$port" >"$folder/log" 2>&1 &
server=$!
"$folder/v/bin/python" - "$port" <<'PYTHON'
import http.client, json, sys, threading, time


def ask(tokens, stream=True, begun=None):
    """Return the status, the last events and whether the body had an end."""
    client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=120)
    body = {"model": "tiny", "stream": stream, "max_tokens": tokens, "temperature": 0}
    body["messages"] = [{"role": "user", "content": "hi"}]
    client.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer, text, whole = client.getresponse(), b"", True
    try:
        while line := answer.readline():
            text += line
            if begun and text.count(b"data: ") == 2:
                begun.set()
    except http.client.IncompleteRead:
        whole = False
    if begun:
        begun.set()
    return answer.status, text, whole and answer.isclosed()


for _ in range(240):
    try:
        if ask(4, stream=False)[0] == 200:
            break
    except OSError:
        pass
    time.sleep(0.5)
alone = ask(300)
begun, cut = threading.Event(), []
first = threading.Thread(target=lambda: cut.append(ask(300, begun=begun)))
first.start()
begun.wait(60)
second = ask(4, stream=False)
first.join()
status, text, whole = cut[0]
seen = {"alone": alone, "first of two": cut[0], "second": second}
for name, (status, text, whole) in seen.items():
    reason = b'"finish_reason": "length"' in text or b'"finish_reason":"length"' in text
    print(f"{name}: {status}, {text.count(b'data: ')} events, states a reason: {reason}, [DONE]: {b'[DONE]' in text}")
status, text, whole = cut[0]
same = b'"length"' in alone[1] and status == 200 and b"[DONE]" in text and b'"length"' not in text
sys.exit(0 if same and second[0] == 200 else 1)
PYTHON
