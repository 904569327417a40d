#!/bin/sh
# mlx-lm 0.32.2 (MLX 0.32.4, Linux CPU) computes an answer that isn't streamed to its last token after its client has left;
# of a stream it stops soon. So a client's own retry after its timeout is computed beside the first.
# Takes a minute and 430 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
server=
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 || exit 2
"$folder/v/bin/python" - "$folder/model" <<'PYTHON'
import json, sys
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.llama import Model, ModelArgs
from mlx.utils import tree_flatten

at = Path(sys.argv[1])
at.mkdir()
config = dict(model_type="llama", hidden_size=512, num_hidden_layers=8, intermediate_size=1024, num_attention_heads=8,
              rms_norm_eps=1e-5, vocab_size=256, num_key_value_heads=8, eos_token_id=0, tie_word_embeddings=False)
(at / "config.json").write_text(json.dumps(config | {"architectures": ["LlamaForCausalLM"]}))
mx.random.seed(0)
mx.save_safetensors(str(at / "model.safetensors"), dict(tree_flatten(Model(ModelArgs.from_dict(config)).parameters())))
plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
letters = [*map(chr, plain), *(chr(0x100 + n) for n in range(256 - len(plain)))]
byte = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
model = {"type": "BPE", "vocab": {letter: n for n, letter in enumerate(letters)}, "merges": []}
(at / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": byte, "decoder": byte, "model": model}))
template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
(at / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}))
PYTHON
port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/v/bin/mlx_lm.server" --model "$folder/model" --port "$port" >"$folder/log" 2>&1 &
server=$!
"$folder/v/bin/python" - "$port" "$server" <<'PYTHON'
import http.client, json, os, sys, time

port, pid = map(int, sys.argv[1:])


def spent():
    found = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")


def ask(stream, tokens, leave_s=None):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=leave_s or 120)
    body = {"model": "default_model", "stream": stream, "max_tokens": tokens, "messages": [{"role": "user", "content": f"{time.time()}"}]}
    try:
        client.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        if leave_s and stream:
            time.sleep(leave_s)
            return
        client.getresponse().read()
    except TimeoutError:
        pass
    finally:
        if client.sock:
            client.sock.close()
        client.close()


for _ in range(120):
    try:
        ask(False, 2)
        break
    except OSError:
        time.sleep(0.5)
after = {}
for stream in (True, False):
    ask(stream, 20_000 if stream else 8_000, 1.0)
    time.sleep(3.0)
    before = spent()
    time.sleep(2.0)
    after["stream" if stream else "whole answer"] = round(spent() - before, 1)
print("seconds of CPU time in two seconds, from three seconds after the client left:", after)
sys.exit(0 if after["stream"] < 0.3 and after["whole answer"] > 0.3 else 1)
PYTHON
