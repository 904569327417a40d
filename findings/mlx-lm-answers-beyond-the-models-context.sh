#!/bin/sh
# mlx-lm 0.32.2 (MLX 0.32.4, Linux CPU) answers a prompt of many times the model's context (`max_position_embeddings`,
# `model_max_length`) with 200 and text, where other servers refuse it: a client that compacts its prompt when it is told
# that this is too long never does. Of `n: 2` it makes one answer.
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
config = dict(model_type="llama", hidden_size=64, num_hidden_layers=1, intermediate_size=128, num_attention_heads=2,
              rms_norm_eps=1e-5, vocab_size=256, num_key_value_heads=2, max_position_embeddings=128, eos_token_id=0, tie_word_embeddings=False)
(at / "config.json").write_text(json.dumps(config | {"architectures": ["LlamaForCausalLM"]}))
mx.random.seed(0)
mx.save_safetensors(str(at / "model.safetensors"), dict(tree_flatten(Model(ModelArgs.from_dict(config)).parameters())))
plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
letters = [*map(chr, plain), *(chr(0x100 + n) for n in range(256 - len(plain)))]
byte = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
model = {"type": "BPE", "vocab": {letter: n for n, letter in enumerate(letters)}, "merges": []}
(at / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": byte, "decoder": byte, "model": model}))
template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
(at / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 128, "chat_template": template}))
PYTHON
port=$("$folder/v/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/v/bin/mlx_lm.server" --model "$folder/model" --port "$port" >"$folder/log" 2>&1 &
server=$!
"$folder/v/bin/python" - "$port" <<'PYTHON'
import json, sys, time, urllib.request


def ask(letters, **more):
    body = {"model": "default_model", "max_tokens": 4, "messages": [{"role": "user", "content": "x" * letters}]} | more
    url = f"http://127.0.0.1:{sys.argv[1]}/v1/chat/completions"
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return answer.status, json.load(answer)


for _ in range(120):
    try:
        ask(10)
        break
    except OSError:
        time.sleep(0.5)
status, answer = ask(1500)
tokens, made = answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]
print("context 128:", status, "to a prompt of", tokens, "tokens, with", made, "more")
choices = len(ask(10, n=2)[1]["choices"])
print("n: 2 made", choices, "answer")
sys.exit(0 if status == 200 and tokens > 1280 and made == 4 and choices == 1 else 1)
PYTHON
