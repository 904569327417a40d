#!/bin/sh
# NVIDIA Dynamo's frontend (ai-dynamo 1.6.1) takes its own paths away when the last worker of a kind is gone: some seconds
# long /v1/chat/completions and /v1/messages say 503 "not ready to serve requests yet", then 404 without any body or type,
# until a worker is there again. To an SDK that is final, and reads as a wrong base URL, while a worker that crashed or is
# replaced loads its model. `/v1/models` is 200 with an empty list. Without a GPU: `dynamo.mocker` stands for an engine.
# Takes two minutes and 700 MB. Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/pip" install -q aiohttp msgspec prometheus-client pyzmq tqdm transformers==5.19.0 zstandard uvloop pydantic \
    2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import json
import os
import pathlib
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
vocabulary = {token: number for number, token in enumerate(tokens)}
level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
FILES = {
    "config.json": {
        **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens), "hidden_size": 64},
        **{"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 64},
        **{"max_position_embeddings": 4096, "bos_token_id": 0, "eos_token_id": 1},
    },
    "tokenizer.json": {
        **{"version": "1.0", "pre_tokenizer": level, "decoder": level},
        "added_tokens": [{"id": number, "content": tokens[number], **plain} for number in (0, 1)],
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    },
    "tokenizer_config.json": {
        **{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"},
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
    },
}
for name, values in FILES.items():
    (model / name).write_text(json.dumps(values))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
url = f"http://127.0.0.1:{port}"
environ = os.environ | {"DYN_FILE_KV": str(folder / "kv"), "HF_HUB_OFFLINE": "1"}


def started(module, *flags):
    command = [sys.executable, "-m", module, "--discovery-backend", "file", *flags]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(path, **body):
    data = json.dumps({"model": "m", "max_tokens": 4, **body}).encode() if body else None
    asked = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers.get("content-type")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers.get("content-type")
    except OSError:
        return 0, "", None


def until(path, status):
    """Ask until the status comes; return all that came before, each once, and it."""
    found = []
    for _ in range(180):
        answer = ask(path, messages=[{"role": "user", "content": "hi"}])
        if answer[0] and answer not in found:
            found.append(answer)
        if answer[0] == status:
            break
        time.sleep(0.5)
    return found


frontend = started("dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port), "--enable-anthropic-api")
worker = started("dynamo.mocker", "--model-path", str(model), "--model-name", "m")
try:
    served = until("/v1/chat/completions", 200) and until("/v1/messages", 200)
    worker.kill()
    worker.wait()
    gone = {path: until(path, 404) for path in ("/v1/chat/completions", "/v1/messages")}
    models = ask("/v1/models")
    worker = started("dynamo.mocker", "--model-path", str(model), "--model-name", "m")
    back = until("/v1/chat/completions", 200)[-1][0]
finally:
    for each in (worker, frontend):
        each.kill()
        each.wait()
print("with a worker:", served[-1][0])
for path, answers in gone.items():
    for answer in answers:
        print("after its end:", path, *answer)
print("models:", *models[:2])
print("with a worker again:", back)
same = all(answers and answers[-1] == (404, "", None) for answers in gone.values())
sys.exit(0 if same and (served[-1][0], models[0], back) == (200, 200, 200) else 1)
PYTHON
