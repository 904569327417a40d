#!/bin/sh
# The events of a Responses stream of llama.cpp's server (xllamacpp 2026.10.11549) have no `output_index`,
# `content_index` or `sequence_number`. OpenAI's SDK (openai 3.57.0) yields them by `responses.create(stream=True)`, with
# None in these fields; its helper `responses.stream()` ends with a TypeError at the first piece of text.
# Takes half a minute and 60 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q xllamacpp==2026.10.11549 numpy gguf openai==3.57.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
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
given.n_ctx, given.n_parallel, given.warmup, given.fit_params, given.use_jinja = 2048, 1, False, False, True
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
signal.pause()
PYTHON
server=$!
"$folder/v/bin/python" - "$port" <<'PYTHON'
import sys, time

import openai

client = openai.OpenAI(base_url=f"http://127.0.0.1:{sys.argv[1]}/v1", api_key="made-up", max_retries=0)
asked = {"model": "tiny", "input": "tell me", "max_output_tokens": 8, "temperature": 0}
for _ in range(120):
    try:
        client.responses.create(**asked)
        break
    except openai.OpenAIError:
        time.sleep(0.5)
events = list(client.responses.create(**asked, stream=True))
pieces = [each for each in events if each.type == "response.output_text.delta"]
fields = {(each.output_index, each.content_index, each.sequence_number) for each in pieces}
print(openai.__version__, len(events), "events to", events[-1].type, "indices and numbers of the text:", fields)
error = None
try:
    with client.responses.stream(**asked) as stream:
        for _ in stream:
            pass
except TypeError as raised:
    error = raised
print("responses.stream():", repr(error))
sys.exit(0 if error is not None and pieces and fields == {(None, None, None)} else 1)
PYTHON
