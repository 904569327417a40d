"""A tiny model with random weights, as llama.cpp reads it (GGUF) and as MLX, vLLM and transformers do (a folder).

Its tokens are bytes, so a prompt has as many as it has letters, and its answers are noise that is the same each time.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SPECIAL = ("<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] if m['role'] in ['assistant', 'system'] else 'user' }}|>"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WIDTH, LAYERS, HEADS, CONTEXT = 128, 1, 2, 65_536
_HEAD = WIDTH // HEADS

Tensors = dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]
_GGUF = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"} | {
    **{"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"},
    **{f"self_attn.{each}_proj": f"attn_{each if each != 'o' else 'output'}" for each in "qkvo"},
    **{f"mlp.{each}_proj": f"ffn_{each}" for each in ("gate", "up", "down")},
}


def make(folder: Path) -> tuple[Path, Path]:
    """Write the model into the folder. Return the GGUF file and the folder of the other form."""
    tokens, weights, other = _tokens(), _weights(), folder / "default_model"
    other.mkdir(parents=True)
    gguf = folder / "tiny.gguf"
    gguf.write_bytes(b"".join(_gguf(tokens, weights)))
    (other / "model.safetensors").write_bytes(_safetensors(weights))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    added = [{"id": vocabulary[each], "content": each, "special": True} for each in SPECIAL]
    spoken = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    files: dict[str, object] = {
        "config.json": {
            **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32"},
            **{"vocab_size": len(tokens), "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH},
            **{"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS},
            **{"head_dim": _HEAD, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0},
            **{"hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1},
        },
        "tokenizer.json": {
            **{"version": "1.0", "added_tokens": [{**each, **spoken} for each in added]},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        },
        "tokenizer_config.json": {
            **{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"},
            **{"model_max_length": CONTEXT, "chat_template": TEMPLATE, "clean_up_tokenization_spaces": False},
        },
    }
    for name, value in files.items():
        (other / name).write_text(json.dumps(value), "utf-8")
    return gguf, other


def _tokens() -> list[str]:
    """Return the special tokens, then one for each byte, in the letters by which GPT-2 writes bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(0x100) if byte not in plain]
    return [*SPECIAL, *map(chr, plain), *(chr(0x100 + place) for place in range(len(rest)))]


def _weights() -> Tensors:
    dice = np.random.default_rng(0)
    size = len(_tokens())

    def noise(rows: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (dice.standard_normal((rows, columns)) * 0.05).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    made: Tensors = {"embed_tokens": noise(size, WIDTH) * 10, "norm": ones, "lm_head": noise(size, WIDTH)}
    made["lm_head"][: len(SPECIAL)] = 0  # so that an answer is as long as it may be
    for layer in range(LAYERS):
        at = f"layers.{layer}."
        made |= {f"{at}input_layernorm": ones, f"{at}post_attention_layernorm": ones}
        made |= {f"{at}self_attn.{each}_proj": noise(WIDTH, WIDTH) for each in "qkvo"}
        made |= {f"{at}mlp.{each}_proj": noise(2 * WIDTH, WIDTH) for each in ("gate", "up")}
        made[f"{at}mlp.down_proj"] = noise(WIDTH, 2 * WIDTH)
    return made


def _safetensors(weights: Tensors) -> bytes:
    head, at = {}, 0
    for name, tensor in weights.items():
        spelled = f"{name}.weight" if name == "lm_head" else f"model.{name}.weight"
        head[spelled] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    described = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    return b"".join([struct.pack("<Q", len(described)), described, *(each.tobytes() for each in weights.values())])


# --- GGUF, as ggml's documentation of it has it, version 3 ----------------------------------------------------------


def _gguf(tokens: list[str], weights: Tensors) -> Iterator[bytes]:
    control, normal = 3, 1
    fields: dict[str, str | int | float | list[str] | list[int]] = {
        **{"general.architecture": "llama", "general.name": "tiny", "llama.context_length": CONTEXT},
        **{"llama.embedding_length": WIDTH, "llama.block_count": LAYERS, "llama.feed_forward_length": 2 * WIDTH},
        **{"llama.attention.head_count": HEADS, "llama.attention.head_count_kv": HEADS},
        **{"llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10_000.0},
        **{"llama.rope.dimension_count": _HEAD, "llama.vocab_size": len(tokens), "tokenizer.ggml.model": "gpt2"},
        **{"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["a b"]},
        "tokenizer.ggml.token_type": [control if each in SPECIAL else normal for each in tokens],
        **{"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1, "tokenizer.chat_template": TEMPLATE},
    }
    yield b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(fields))
    size = 24
    for name, value in fields.items():
        field = _string(name) + _value(value)
        size += len(field)
        yield field
    at = 0
    for name, tensor in weights.items():
        layer, _, rest = name.removeprefix("layers.").partition(".")
        spelled = f"blk.{layer}.{_GGUF[rest]}.weight" if rest else f"{_GGUF[name]}.weight"
        shape = struct.pack(f"<I{tensor.ndim}Q", tensor.ndim, *reversed(tensor.shape))
        described = _string(spelled) + shape + struct.pack("<IQ", 0, at)
        size, at = size + len(described), at + tensor.nbytes  # a multiple of 32, as it has to be
        yield described
    yield b"\0" * (-size % 32)
    yield from (tensor.tobytes() for tensor in weights.values())


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: str | int | float | list[str] | list[int]) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    words = [_string(each) if isinstance(each, str) else struct.pack("<I", each) for each in value]
    return struct.pack("<IIQ", 9, 8 if isinstance(value[0], str) else 5, len(value)) + b"".join(words)
