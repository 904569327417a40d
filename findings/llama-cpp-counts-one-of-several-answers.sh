#!/bin/sh
# llama.cpp's server (xllamacpp 2026.10.11549) states the tokens of one answer where it gave several: with `n: 2` the
# usage is that of a single choice, and with two prompts in one call of /v1/completions that of the first prompt and its
# answer. Whoever adds up usage counts half of what was computed.
# Takes half a minute and 60 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q xllamacpp==2026.10.11549 numpy gguf 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder/tiny.gguf" <<'PYTHON'
import sys

import gguf
import numpy as np

width, inner = 64, 128
plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
tokens = ["<s>", "</s>", *map(chr, plain), *(chr(0x100 + n) for n in range(256 - len(plain)))]
file = gguf.GGUFWriter(sys.argv[1], "llama")
file.add_context_length(2048), file.add_embedding_length(width), file.add_block_count(1)
file.add_feed_forward_length(inner), file.add_head_count(1), file.add_head_count_kv(1)
file.add_layer_norm_rms_eps(1e-5), file.add_rope_dimension_count(width), file.add_vocab_size(len(tokens))
file.add_tokenizer_model("gpt2"), file.add_tokenizer_pre("gpt-2"), file.add_token_list(tokens)
file.add_token_types([3, 3] + [1] * 256), file.add_token_merges(["a b"])
file.add_bos_token_id(0), file.add_eos_token_id(1)
file.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
dice = np.random.default_rng(0)


def add(name, *shape):
    file.add_tensor(name, (dice.standard_normal(shape) * 0.05).astype(np.float32))


add("token_embd.weight", len(tokens), width), add("output.weight", len(tokens), width), add("output_norm.weight", width)
add("blk.0.attn_norm.weight", width), add("blk.0.ffn_norm.weight", width), add("blk.0.ffn_down.weight", width, inner)
for name in ("q", "k", "v", "output"):
    add(f"blk.0.attn_{name}.weight", width, width)
for name in ("gate", "up"):
    add(f"blk.0.ffn_{name}.weight", inner, width)
file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
PYTHON
port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/v/bin/python" - "$folder/tiny.gguf" "$port" >"$folder/log" 2>&1 <<'PYTHON' &
import signal, sys

import xllamacpp

given = xllamacpp.CommonParams()
given.model.path, given.hostnames, given.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
given.n_ctx, given.n_parallel, given.warmup, given.fit_params, given.use_jinja = 4096, 2, False, False, True
given.endpoint_metrics = True
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
signal.pause()
PYTHON
server=$!
"$folder/v/bin/python" - "$port" <<'PYTHON'
import json, sys, time, urllib.request


def ask(path, body):
    url = f"http://127.0.0.1:{sys.argv[1]}{path}"
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


for _ in range(120):
    try:
        if ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}):
            break
    except OSError:
        pass
    time.sleep(0.5)
def computed():
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("llamacpp:tokens_predicted_total "))


before = computed()
answer = ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "n": 2})
made, told = computed() - before, answer["usage"]["completion_tokens"]
print("n: 2 made", len(answer["choices"]), "answers of", made, "tokens, and states", told)

prompts = ["a", "a b c d e f"]
sizes = [ask("/v1/completions", {"prompt": each, "max_tokens": 2})["usage"]["prompt_tokens"] for each in prompts]
both = ask("/v1/completions", {"prompt": prompts, "max_tokens": 2})
print("prompts of", sizes, "tokens, asked together:", len(both["choices"]), "answers and usage", both["usage"])
same = (made, told) == (12, 6) and len(both["choices"]) == 2
sys.exit(0 if same and sizes[1] > sizes[0] and both["usage"]["prompt_tokens"] == sizes[0] else 1)
PYTHON
