#!/bin/sh
# Xinference (4.1.0, engine transformers) says by `stop_reason: max_tokens` that a whole answer of /v1/messages was cut at
# `max_tokens`. The same answer as a stream says `end_turn`, so an agent takes the half for the end of its turn. A stream of
# chat completions says `length`, but with `stream_options.include_usage` a further chunk with a choice follows that says
# `stop`, and the last one is what most clients keep.
# Takes some minutes and 4 GB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q xinference==4.1.0 torch==2.13.0 transformers==5.17.0 accelerate sentence-transformers \
  2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/pip" uninstall -q -y torchvision 2>/dev/null || true # of another build than torch it breaks transformers
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

folder = pathlib.Path(sys.argv[1])
model = folder / "model"
model.mkdir()
tokens = ["<s>", "</s>", *(chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)))]
level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
TOKENIZER = {
    **{"version": "1.0", "pre_tokenizer": level, "decoder": level},
    "added_tokens": [{"id": number, "content": tokens[number], **plain} for number in (0, 1)],
    "model": {"type": "BPE", "vocab": {token: number for number, token in enumerate(tokens)}, "merges": []},
}
CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
(model / "tokenizer.json").write_text(json.dumps(TOKENIZER))
(model / "tokenizer_config.json").write_text(json.dumps(CONFIG))
code = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
sizes = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
made = LlamaForCausalLM(LlamaConfig(vocab_size=258, max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, **sizes))
made.save_pretrained(sys.argv[1])
"""
subprocess.run([sys.executable, "-c", code, str(model)], check=True, stderr=subprocess.DEVNULL)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
environ = os.environ | {"XINFERENCE_HOME": str(folder / "home"), "XINFERENCE_AUTH_ADVANCED": "0", "HF_HUB_OFFLINE": "1"}
log = (folder / "log").open("w")
command = [f"{folder}/v/bin/xinference-local", "-H", "127.0.0.1", "-p", str(port)]
server = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)


def ask(path, **fields):
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    data = json.dumps(fields).encode() if fields else None
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers), timeout=300) as reply:
        return reply.read().decode()


def reasons(text):
    """Return every reason that an answer states, in order."""
    records = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: {", "{"))]
    found = []
    for record in map(json.loads, records):
        found += [each.get("finish_reason") for each in record.get("choices", ())]
        found += [record.get("stop_reason"), record.get("delta", {}).get("stop_reason")]
    return [each for each in found if each]


spec = {"model_format": "pytorch", "model_size_in_billions": 1, "quantization": "none", "model_id": ""}
spec |= {"model_uri": f"file://{model}"}
described = {"version": 2, "context_length": 4096, "model_name": "tiny", "model_lang": ["en"], "model_ability": ["chat"]}
described |= {"model_description": "x", "model_family": "qwen3", "model_specs": [spec], "chat_template": TEMPLATE}
described |= {"stop_token_ids": [1], "stop": ["</s>"]}
launched = {"model_uid": "tiny", "model_name": "tiny", "model_type": "LLM", "model_engine": "transformers", "n_gpu": None}
launched |= {"model_format": "pytorch", "model_size_in_billions": 1, "quantization": "none", "enable_virtual_env": False}
asked = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
try:
    for _ in range(240):
        try:
            ask("/v1/models")
            break
        except OSError:
            time.sleep(0.5)
    ask("/v1/model_registrations/LLM", model=json.dumps(described), persist=True)
    ask("/v1/models", **launched)
    whole, stream = (reasons(ask("/v1/messages", **asked, stream=stream)) for stream in (False, True))
    chat = reasons(ask("/v1/chat/completions", **asked, stream=True))
    usage = reasons(ask("/v1/chat/completions", **asked, stream=True, stream_options={"include_usage": True}))
finally:
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
print("messages, cut at max_tokens: whole", whole, "stream", stream)
print("chat, cut at max_tokens: stream", chat, "with usage", usage)
same = (whole, stream, chat, usage) == (["max_tokens"], ["end_turn"], ["length"], ["length", "stop"])
sys.exit(0 if same else 1)
PYTHON
